"""Settings of estimators by their own names: `n_bases` instead of `network__n_bases`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from neuralbasis import NetworkConfig, StorageConfig

GROUPS = {"network": NetworkConfig, "storage": StorageConfig}
HOME = {field.name: group for group, kind in GROUPS.items() for field in fields(kind)}  # setting -> its group


def nest(options: dict[str, Any]) -> dict[str, Any]:
    """Options with the settings of groups in the spelling of scikit-learn."""
    return {f"{HOME[name]}__{name}" if name in HOME else name: value for name, value in options.items()}
