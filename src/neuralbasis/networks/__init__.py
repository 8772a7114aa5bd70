"""Networks: families of shared basis functions h_k (`basis`, `mlp`), and the net that combines them (`basis_net`)."""

from .basis import Basis, SplineBasis
from .basis_net import BasisNet, OrderPoints, Points
from .mlp import LinearStartBasis, MLPBasis

__all__ = [
    "Basis",
    "BasisNet",
    "LinearStartBasis",
    "MLPBasis",
    "OrderPoints",
    "Points",
    "SplineBasis",
]
