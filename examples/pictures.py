"""Draw the eight pictures of the README and the docs again: `make pictures`. The page needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, plot, report

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


def picture_cancer() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = NeuralBasisClassifier(interactions=0).fit(X, np.where(y == 1, "benign", "malignant"))
    plot.shapes(model, n=6, path=DOCS / "shapes.png")
    plot.waterfall(model, X.iloc[[197]], n=8, path=DOCS / "waterfall.png")
    picture_page(model, X, np.where(y == 1, "benign", "malignant"))


def picture_page(model: NeuralBasisClassifier, X: pd.DataFrame, y: np.ndarray) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no Chromium: page.png stays as it is")
        return
    with tempfile.TemporaryDirectory() as folder:
        report.write(f"{folder}/page.html", model, X, y, title="What drives the diagnosis")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
        flags += [f"--user-data-dir={folder}/profile", "--window-size=1280,1200", f"--screenshot={DOCS / 'page.png'}"]
        subprocess.run([chromium, *flags, f"{folder}/page.html"], check=True, stderr=subprocess.DEVNULL)


def picture_cars() -> None:
    model = NeuralBasisRegressor().fit(*draw_cars())
    plot.shapes(model, n=3, path=DOCS / "pairs.png")
    plot.slices(model, "age & power", total=True, path=DOCS / "slices.png")


def picture_wine() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    pair = ("flavanoids", "color_intensity")
    model = NeuralBasisClassifier(interactions=[pair], staged=False).fit(
        X, np.array(["Barolo", "Grignolino", "Barbera"])[y]
    )
    plot.push(model, pair, total=True, path=DOCS / "push.png")


def picture_diabetes() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    pairs = [("bmi", "bp"), ("bmi", "s5"), ("age", "bp")]
    plot.grid(NeuralBasisRegressor(interactions=pairs, staged=False).fit(X, y), path=DOCS / "grid.png")


def picture_bound() -> None:
    plot.bound(path=DOCS / "bound.png")


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    for picture in (picture_cancer, picture_cars, picture_wine, picture_diabetes, picture_bound):
        picture()
    print(f"written: {', '.join(sorted(path.name for path in DOCS.glob('*.png')))}")


if __name__ == "__main__":
    main()
