"""Draw the pictures of the README and the docs again: `make pictures`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, plot

DOCS = Path(__file__).resolve().parents[1] / "docs"


def draw_cars() -> tuple[pd.DataFrame, pd.Series]:
    """The table of the README: claims of young drivers of strong cars."""
    rng = np.random.default_rng(0)
    cars = pd.DataFrame({
        "age": rng.uniform(18, 80, 4000),
        "power": rng.gamma(4, 30, 4000),
        "mileage": rng.exponential(12, 4000),
        "town": rng.choice(["Bergen", "Oslo", "Tromsø"], 4000),
    })  # fmt: skip
    return cars, cars.mileage / 6 + 3 * ((cars.age < 27) & (cars.power > 120)) + rng.normal(size=4000)


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    plot.shapes(NeuralBasisClassifier(interactions=0).fit(X, y), n=6, path=DOCS / "shapes.png")
    plot.shapes(NeuralBasisRegressor().fit(*draw_cars()), n=3, path=DOCS / "pairs.png")
    print(f"written: {DOCS / 'shapes.png'}, {DOCS / 'pairs.png'}")


if __name__ == "__main__":
    main()
