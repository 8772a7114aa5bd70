"""Terms: which features get a shape. `term` (requested), `interactions` (screening), `features` (selection)."""
