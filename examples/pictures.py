"""Draw the pictures of the README and the docs again: `make pictures`."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_breast_cancer

from neuralbasis import NeuralBasisClassifier, plot

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    plot.shapes(NeuralBasisClassifier().fit(X, y), n=6, path=DOCS / "shapes.png")
    print(f"written: {DOCS / 'shapes.png'}")


if __name__ == "__main__":
    main()
