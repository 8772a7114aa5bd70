"""The command line: `neuralbasis demo`, `check`, `fit`, `predict`, `evaluate`, `show`, `explain`, `export`, …

Commands: `commands`, `fit_commands`, `model_commands`, `concepts`. Input: `options` (parsing), `tables` (files),
`dates` (parts of dates), `text_files` (what is wrong with a CSV). Work: `check` (a table before a fit), `fitting` (hold
out, search, fit, score), `batches` (predict and evaluate batch by batch), `metrics` (scores with intervals),
`difference` (of two models), `demo` and `demo_page` (the demonstration), `doctor` (checks of the installation).
Output: `outputs` (files), `formatting` (text and JSON), `terminal` (escaped printing), `errors` (one line, exit code).
Heavy packages are imported by the command that needs them; predicting does not import torch.
"""

from .commands import main

__all__ = ["main"]
