"""The figure class of all plots: a matplotlib `Figure` that a notebook displays without pyplot."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure without global state and without a display."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()
