"""Accuracy: learners next to each other and next to published figures."""
