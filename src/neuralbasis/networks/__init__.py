"""Bases: what the shared functions h_k are. `make_basis` names the ones that ship; any `Basis` plugs in."""

from .basis import Basis
from .linear_start import LinearStartBasis
from .mlp import MLPBasis
from .spline import SplineBasis

__all__ = ["Basis", "LinearStartBasis", "MLPBasis", "SplineBasis"]
