"""Networks: families of shared basis functions h_k, and the net that combines them (`basis_net`)."""

from .basis import Basis
from .linear_start import LinearStartBasis
from .mlp import MLPBasis
from .spline import SplineBasis

__all__ = ["Basis", "LinearStartBasis", "MLPBasis", "SplineBasis"]
