"""The command line: `neuralbasis fit`, `tune`, `predict`, `evaluate`, `show`, `explain`, `export`, `concepts`, …

Commands: `commands`, `fit_commands`, `concepts`. Input: `options` (parsing), `tables` (CSV and Parquet files). Work:
`fitting` (hold out, search, fit, score), `batches` (predict and evaluate batch by batch), `metrics`
(scores with intervals), `doctor` (checks of the installation). Output: `outputs` (files), `formatting` (text and JSON),
`terminal` (escaped printing), `errors` (one line and an exit code).
Heavy packages are imported by the command that needs them; predicting does not import torch.
"""

from .commands import main

__all__ = ["main"]
