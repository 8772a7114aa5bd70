"""The paper's settings: what its models were trained with on each of its data sets, as parameters of the estimators.

PAPER appendix, table of optimal hyper-parameters, found by random search on validation rows. The batch size is that of
one of eight GPUs. The caption of the table says 256, 256, 128 hidden units, the text 256, 128, 128; the published
numbers of parameters match the latter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .settings import NetworkConfig
from .suggestions import suggest


class Tuned(NamedTuple):
    """Settings that depend on the data."""

    max_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    dropout: float
    basis_dropout: float
    output_penalty: float


# NBM, and NB²M with all pairs
TUNED = {
    1: {
        "ca_housing": Tuned(1000, 1024, 0.00197, 1.568e-05, 0.0, 0.05, 0.0001439),
        "fico": Tuned(1000, 1024, 0.02176, 1.684e-05, 0.3, 0.7, 0.0002462),
        "covertype": Tuned(500, 1024, 0.0199, 5.931e-07, 0.0, 0.0, 0.05533),
        "newsgroups": Tuned(500, 512, 0.0003133, 1.593e-08, 0.1, 0.3, 4.578),
        "mimic2": Tuned(1000, 1024, 0.0146, 3.177e-06, 0.5, 0.1, 2.318),
        "credit": Tuned(500, 1024, 0.00391, 1.574e-06, 0.0, 0.9, 0.03737),
        "click": Tuned(500, 1024, 0.0002745, 7.21e-10, 0.0, 0.5, 20.085),
        "epsilon": Tuned(500, 1024, 3.776e-05, 1.507e-07, 0.3, 0.4, 0.00273),
        "higgs": Tuned(50, 1024, 0.0001792, 1.087e-09, 0.0, 0.0, 3.906e-05),
        "microsoft": Tuned(500, 1024, 0.0001677, 1.969e-07, 0.1, 0.3, 0.0001986),
        "yahoo": Tuned(500, 1024, 0.00446, 1.399e-08, 0.1, 0.3, 0.01688),
        "year": Tuned(500, 1024, 8.78e-05, 1.58e-07, 0.1, 0.1, 2.592e-05),
        "cub": Tuned(500, 128, 0.01173, 0.1291, 0.7, 0.3, 4.739),
        "inaturalist": Tuned(100, 1024, 0.0014, 3.548e-05, 0.0, 0.2, 1.423e-05),
        "common_objects": Tuned(100, 1024, 0.1248, 1.001e-05, 0.1, 0.0, 0.0),
    },
    2: {
        "ca_housing": Tuned(1000, 1024, 0.0019, 7.483e-09, 0.0, 0.05, 1.778e-06),
        "fico": Tuned(1000, 1024, 0.0002287, 3.546e-07, 0.1, 0.7, 0.1933),
        "covertype": Tuned(500, 512, 0.00268, 1.66e-07, 0.0, 0.0, 0.00155),
        "mimic2": Tuned(1000, 1024, 0.0001796, 0.0003494, 0.1, 0.5, 0.05964),
        "credit": Tuned(500, 1024, 0.0003745, 4.61e-05, 0.5, 0.0, 0.2528),
        "click": Tuned(500, 1024, 0.0009614, 0.00159, 0.0, 0.5, 0.05773),
        "higgs": Tuned(50, 1024, 0.00201, 0.0002202, 0.0, 0.1, 1.969e-07),
        "microsoft": Tuned(100, 128, 0.000164, 1.552e-08, 0.0, 0.9, 2.928e-06),
        "year": Tuned(100, 256, 0.000318, 1.696e-08, 0.0, 0.9, 0.0004454),
        "cub": Tuned(500, 32, 0.0002629, 0.03209, 0.0, 0.0, 96.894),
        "inaturalist": Tuned(100, 32, 6.735e-05, 9.87e-05, 0.05, 0.0, 3.785),
        "common_objects": Tuned(100, 64, 0.03127, 0.0001013, 0.0, 0.2, 8.126),
    },
}


def paper_settings(data: str, order: int = 1) -> dict[str, Any]:
    """Parameters of an estimator that make it the paper's model, trained as on one of the paper's data sets.

    Training runs to the end of its schedule; no rows are held out. The paper has no settings for triples: NB³M takes
    those of NB²M.

    Parameters
    ----------
    data : str
        The data set whose settings are taken: "ca_housing", "fico", "covertype", "newsgroups", "mimic2", "credit",
        "click", "epsilon", "higgs", "microsoft", "yahoo", "year", "cub", "inaturalist" or "common_objects".
    order : {1, 2, 3}
        1 for NBM, 2 for NB²M (all pairs), 3 for NB³M (all pairs and triples).

    Returns
    -------
    dict
        Keyword arguments of `NeuralBasisRegressor` and `NeuralBasisClassifier`.

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, paper_settings
    >>> model = NeuralBasisRegressor(**paper_settings("ca_housing"), random_state=0)
    >>> model.learning_rate, model.network["max_epochs"]
    (0.00197, 1000)
    """
    if order not in (1, 2, 3):
        raise ValueError(f"order must be 1 (NBM), 2 (NB²M) or 3 (NB³M), not {order!r}")
    known = list(TUNED[min(order, 2)])
    if data not in known:
        hint = suggest(data, known, f"it has {known}")
        raise ValueError(f"the paper has no settings of order {order} for {data!r}; {hint}")
    network: dict[str, Any] = {**NetworkConfig.PRESETS["paper"], **TUNED[min(order, 2)][data]._asdict()}
    return {
        "learning_rate": network.pop("learning_rate"),
        "interactions": {2: "all" if order > 1 else 0, 3: "all" if order > 2 else 0},
        # Tables of main effects hold the network's output at every training value, those of pairs at 97 × 97 knots.
        "max_bins": 20_000,
        "max_interaction_bins": 97 if order == 2 else "auto",
        "outer_bags": 1,
        "validation_size": 0,
        "boosted_steps": False,
        "smoothness": 0.0,
        "network": network,
    }
