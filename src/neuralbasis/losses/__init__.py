"""Losses: what training minimises (`loss`), and how a score becomes a prediction (`links`)."""
