"""Regenerate the figures of the README and the docs: `make pictures`. Screenshots of pages need Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, plot, report
from tests.browser import Browser, find_browser

DOCS = Path(__file__).resolve().parents[1] / "docs"


def draw_cars() -> tuple[pd.DataFrame, pd.Series]:
    """The example of docs/guide.md: insurance claims that depend on an interaction of age and power."""
    rng = np.random.default_rng(0)
    cars = pd.DataFrame({
        "age": rng.uniform(18, 80, 4000),
        "power": rng.gamma(4, 30, 4000),
        "mileage": rng.exponential(12, 4000),
        "town": rng.choice(["Bergen", "Oslo", "Tromsø"], 4000),
    })  # fmt: skip
    return cars, cars.mileage / 6 + 3 * ((cars.age < 27) & (cars.power > 120)) + rng.normal(size=4000)


def plot_cancer() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = NeuralBasisClassifier(interactions=0).fit(X, np.where(y == 1, "benign", "malignant"))
    plot.waterfall(model, X.iloc[[197]], n=8, path=DOCS / "waterfall.png")


def take_screenshot(page: str, name: str, section: str = "overview") -> None:
    """Write a screenshot of a page, starting at a section, to the docs folder."""
    if find_browser() is None:
        print(f"Chromium was not found; {name} is unchanged")
        return
    with Browser() as browser:
        window = browser.open(page, height=1200)
        if section != "overview":
            window.show(f"#{section}")
        window.settle()
        window.photograph(DOCS / name)


def plot_cars() -> None:
    model = NeuralBasisRegressor().fit(*draw_cars())
    plot.shapes(model, n=4, path=DOCS / "pairs.png")
    plot.slices(model, "age & power", path=DOCS / "slices.png")


def plot_wine() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    pair = ("flavanoids", "color_intensity")
    model = NeuralBasisClassifier(interactions=[pair], network__staged=False).fit(
        X, np.array(["Barolo", "Grignolino", "Barbera"])[y]
    )
    plot.push(model, pair, path=DOCS / "push.png")


def plot_diabetes() -> None:
    """The example of the README, its page, and a model with pairs."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    names = {"bp": "blood pressure", "s3": "HDL", "s5": "log triglycerides", "s6": "blood sugar"}
    model = NeuralBasisRegressor().fit(X.rename(columns=names), y)
    plot.shapes(model, n=6, path=DOCS / "shapes.png")
    with tempfile.TemporaryDirectory() as folder:
        report.write(f"{folder}/page.html", model, X.rename(columns=names), y, title="Progression of diabetes")
        take_screenshot(f"{folder}/page.html", "page.png")
    pairs = [("bmi", "bp"), ("bmi", "s5"), ("age", "bp")]
    plot.grid(NeuralBasisRegressor(interactions=pairs, network__staged=False).fit(X, y), path=DOCS / "grid.png")


def draw_applicants() -> tuple[pd.DataFrame, np.ndarray]:
    """20,000 applications: codes for missing values, amounts of which most are 0, and long names."""
    rng, n = np.random.default_rng(0), 20_000
    marital = ["Married-civ-spouse", "Married-spouse-absent", "Married-AF-spouse", "Never-married", "Divorced"]
    amount = np.where(rng.random(n) < 0.05, 99_999, rng.lognormal(8.5, 0.9, n).clip(100, 60_000).round())
    frame = pd.DataFrame({
        "age": rng.integers(17, 91, n),
        "marital_status": rng.choice(marital, n, p=[0.45, 0.02, 0.01, 0.36, 0.16]),
        "months_since_delinquency": np.where(rng.random(n) < 0.15, -9, rng.gamma(2, 15, n).round()),
        "capital_gain": np.where(rng.random(n) < 0.92, 0, amount),
    })  # fmt: skip
    odds = 0.5 - (frame.age - 50) ** 2 / 600 + 1.5 * (frame.marital_status == marital[0])
    odds += (frame.capital_gain > 6000) * 2 + np.where(frame.months_since_delinquency == -9, 0.8, 0)
    odds -= np.exp(-frame.months_since_delinquency.clip(0) / 15)
    return frame, np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "good", "bad")


def plot_applicants() -> None:
    model = NeuralBasisClassifier(interactions=0).fit(*draw_applicants())
    plot.shapes(model, n=4, path=DOCS / "codes.png")


def plot_digits() -> None:
    X, y = load_digits(return_X_y=True, as_frame=True)
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    model = NeuralBasisClassifier(interactions=0, preset="fast").fit(X[[*X.columns[18:46:3]]], np.array(names)[y])
    strongest = model.explain_global().top(1)[0].name
    plot.by_class(model, strongest, path=DOCS / "by_class.png")


def plot_bound() -> None:
    plot.bound(path=DOCS / "bound.png")


def plot_birds() -> None:
    """A class, a picture and the page of examples/birds.py, with a reduced palette for smaller files."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, Path(__file__).with_name("birds.py"), "--output", folder], check=True)
        for name in ("class.png", "picture.png"):
            shutil.copy(Path(folder, name), DOCS / f"bird_{name}")
        take_screenshot(f"{folder}/birds.html", "bird_page.png", section="classes")
    for name in ("bird_class.png", "bird_picture.png", "bird_page.png"):
        shrink(DOCS / name, width=1000)


def shrink(path: Path, width: int) -> None:
    """Resize a figure and reduce it to 256 colours, in place."""
    with Image.open(path) as image:
        small = image.convert("RGB").resize(
            (width, round(image.height * width / image.width)), Image.Resampling.LANCZOS
        )
    colours = small.quantize(256, method=Image.Quantize.MAXCOVERAGE)
    small.quantize(palette=colours, dither=Image.Dither.FLOYDSTEINBERG).save(path, optimize=True)


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    for draw in (
        plot_cancer, plot_cars, plot_wine, plot_diabetes, plot_applicants, plot_digits, plot_bound, plot_birds,
    ):  # fmt: skip
        draw()
    print(f"written: {', '.join(sorted(path.name for path in DOCS.glob('*.png')))}")


if __name__ == "__main__":
    main()
