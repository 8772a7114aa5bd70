"""Tables of accuracy, each beside its competitor's and the published figures."""
