"""ONNX: a model as one graph from raw columns, text included, to predictions; see `onnx_graph`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..serialization.temporary_file import replace_when_done
from .plain import find_exportable, find_interval

if TYPE_CHECKING:
    from onnx import ModelProto


def to_onnx(
    model: Any, path: str | os.PathLike | None = None, *, missing: str = "", coverage: float | None = None
) -> ModelProto | Path:
    """Convert a model to ONNX.

    Every column is an input of its own name and of shape (N, 1): float64 for a continuous column, text for a column of
    levels (the number 3.0 is "3"). NaN is a missing number, and the text `missing` a missing level. Any other text that
    is no level of the column is an unseen level. An infinite value is read as the outermost knot, while `predict`
    raises an error. Underscores are appended to the name of a column that is empty or equals the name of an output.

    A regression has the output `prediction` (N,). A classification has `label` (N,), `probabilities` (N, classes) and
    `scores` (N, K). Labels are bool, int64, float64 or text; the other outputs are float64.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the file, whose path is returned; None returns the model
    missing : the text for a missing level; ONNX has no missing text
    coverage : adds the outputs `lower` (N,) and `upper` (N,) of a regression or of two classes, as `predict_interval`
        computes them; such as 0.9

    Returns
    -------
    The `onnx.ModelProto`.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": np.linspace(0, 1, 60), "colour": np.array(["red", "blue", "green"] * 20, dtype=object)}
    >>> model = NeuralBasisRegressor(max_steps=20, outer_bags=2).fit(table, table["size"])
    >>> proto = to_onnx(model)
    >>> [value.name for value in proto.graph.input], [value.name for value in proto.graph.output]
    (['size', 'colour'], ['prediction'])

    >>> from onnxruntime import InferenceSession
    >>> session = InferenceSession(proto.SerializeToString())
    >>> (prediction,) = session.run(None, {name: values[:, None] for name, values in table.items()})
    >>> np.allclose(prediction, model.predict(table), rtol=0, atol=1e-12)
    True
    """
    found = find_exportable(model)
    try:
        from .onnx_graph import make_proto
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'neuralbasis[onnx]'") from error
    proto = make_proto(found, missing, find_interval(found, coverage))
    if path is None:
        return proto
    with replace_when_done(path) as file:
        file.write(proto.SerializeToString())
    return Path(path)
