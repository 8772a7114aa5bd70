"""Terms: which features get a shape.

`term` parses the requested terms. `features` selects columns of wide tables. `interactions` ranks and picks pairs and
triples, in the order of the algorithm: `binning`, `margins`, `strength`.
"""
