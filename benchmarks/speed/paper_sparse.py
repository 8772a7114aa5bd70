"""The paper's sparse network, `network="paper"`, at 146,016 columns: seconds per step for several numbers of bases.

    python -m benchmarks run speed.paper_sparse
    python -m benchmarks run speed.paper_sparse --bases 100 --steps 20

Generated documents with 150 words each, 20 classes, all columns as terms; batches of 512 rows, the paper's
hyperparameters of 20 Newsgroups. Every number of bases runs in a child process. "step" is the mean over a fit, with its
checkpoints; "fit" includes encoding and the tables of all columns; "peak MB" includes the documents.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from tqdm import tqdm

from ..harness import run_child
from ..results.markdown import format_number, format_verdict, print_table
from .resources import PeakMemory, time_once

N_CLASSES, N_OWN = 20, 40  # words that are more frequent in the documents of a class
MAX_SECONDS, MAX_MB = 1.0, 6000  # of a step, of a fit
PAPER = {
    "learning_rate": 3.133e-4, "network__weight_decay": 1.593e-8, "network__dropout": 0.1,
    "network__basis_dropout": 0.3, "network__output_penalty": 4.578, "network__batch_size": 512,
}  # fmt: skip


def make_documents(n_rows: int, n_columns: int, n_words: int, seed: int = 0) -> tuple[csr_array, np.ndarray]:
    """Word frequencies fall like 1 / rank^0.8; a tenth of the words of a document are those of its class."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, n_columns + 1) ** -0.8
    words = rng.choice(n_columns, size=(n_rows, n_words), p=share / share.sum())
    y = rng.integers(0, N_CLASSES, n_rows)
    own = np.random.default_rng(1).integers(n_columns // 50, n_columns // 5, (N_CLASSES, N_OWN))
    n_own = n_words // 10
    words[:, :n_own] = own[y[:, None], rng.integers(0, N_OWN, (n_rows, n_own))]
    values = rng.gamma(2.0, 0.03, words.shape)
    starts = np.arange(n_rows + 1) * n_words
    X = csr_array((values.ravel(), words.ravel(), starts), shape=(n_rows, n_columns))
    X.sum_duplicates()
    return X, y


def fit_paper(X: Any, y: np.ndarray, n_bases: int, steps: int, **options: Any) -> Any:
    from neuralbasis import NeuralBasisClassifier

    given = {**PAPER, "network": "paper", "network__n_bases": n_bases, "max_steps": steps, "validation_size": 0}
    return NeuralBasisClassifier(**{**given, **options}).fit(X, y)


def measure_here(n_rows: int, n_columns: int, n_words: int, n_bases: int, steps: int) -> dict[str, float]:
    """Measure one number of bases."""
    X, y = make_documents(n_rows, n_columns, n_words)
    fit_paper(*make_documents(600, 3000, 20), 3, 2)  # loads the compiled loops
    with PeakMemory() as memory:
        seconds, model = time_once(lambda: fit_paper(X, y, n_bases, steps))
    predicting, _ = time_once(lambda: model.predict_proba(X))
    step = model.history_.seconds[-1] / steps
    return {"step": step, "fit": seconds, "peak": memory.mb, "predict": predicting, "terms": len(model.term_names_)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=11_000)
    parser.add_argument("--columns", type=int, default=146_016)
    parser.add_argument("--words", type=int, default=150, help="words of a document")
    parser.add_argument("--bases", type=int, nargs="+", default=[5, 100, 1000])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="a small table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(measure_here(**json.loads(given.child))))
        return
    if given.quick:
        given.rows, given.columns, given.words, given.bases, given.steps = 600, 2000, 20, [5, 100], 3
    size = {"n_rows": given.rows, "n_columns": given.columns, "n_words": given.words, "steps": given.steps}
    rows = []
    for n_bases in tqdm(given.bases, desc="bases", unit="fit"):
        found = json.loads(run_child("benchmarks.speed.paper_sparse", json.dumps({**size, "n_bases": n_bases})))
        is_met = found["step"] <= MAX_SECONDS and found["peak"] <= MAX_MB
        numbers = [format_number(found[name]) for name in ("step", "fit", "predict")]
        rows.append([f"{n_bases:,}", f"{found['terms']:,}", *numbers, f"{found['peak']:,.0f}", format_verdict(is_met)])
    print(f"{given.rows:,} rows × {given.columns:,} columns, {given.words} words a row, {given.steps} steps\n")
    print(f"Targets: {MAX_SECONDS:g} s a step, {MAX_MB:,} MB.\n")
    print_table(["bases", "terms", "step s", "fit s", "predict s", "peak MB", "verdict"], rows)


if __name__ == "__main__":
    main()
