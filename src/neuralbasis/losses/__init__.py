"""Losses: what training minimises (`loss`, one file per family), and how a score becomes a prediction (`links`)."""
