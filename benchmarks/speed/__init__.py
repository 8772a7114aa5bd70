"""Tables of speed: an epoch, a prediction, a start, and growth with the size of the table."""
