"""Figure: that of matplotlib, shown by a notebook without pyplot."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class Picture(Figure):
    """A figure of its own: no global state, no display."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()
