"""The command line: `neuralbasis fit`, `tune`, `predict`, `evaluate`, `show`, `explain`, `export`, `concepts`, …

In the order of the work: `commands` (what a user may write), `failure` (what goes wrong, in one line), `terminal`
(text out, escaped), `wishes` (options read), `tables` (files in), `trial` (fit and hold out), `tuning` (search before
that), `stream` (predict in batches), `measures` (scores with intervals), `outputs` (files out), `pages` (pages of
text), `concepts` (pictures), `doctor` (the machine).
Whatever is heavy is imported by the command that needs it: predictions do not import torch.
"""

from .commands import main

__all__ = ["main"]
