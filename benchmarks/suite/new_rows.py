"""New rows of AllocationNMF: rows per processor second of ``transform``, and of ``completion``, beside the peers.

Topics come from one short run of tomotopy, and everybody gets them with the same prior. Half of each held-out
document's tokens are given; the remark has the perplexity of the other half under the shares that each one finds.
Short documents are 15 tokens of each post. PARTWISE_SCRATCH keeps the trained topics for the next time.
"""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.data import real
from benchmarks.harness.fold_in import FOLD_IN, Topics, trained
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.race import usual_words

Floats = NDArray[np.float64]

_GOAL = Goal(5.0, "at least")
# tomotopy goes over all its topics for each document.
_MOST_OF_TOMOTOPY = {20: 500, 100: 200, 1000: 10}
_TRAINED, _SWEEPS = 3000, {20: 20, 100: 20, 1000: 8}
# Data, tokens of a document (None = all), and documents for each K: a second or two of the fastest peer.
_CASES: tuple[tuple[str, int | None, dict[int, int]], ...] = (
    ("newsgroups20", 15, {20: 2000, 100: 2000, 1000: 1000}),
    ("newsgroups20", None, {20: 1000, 100: 1000, 1000: 500}),
    ("nips_uci7605", None, {20: 300, 100: 300, 1000: 100}),
)


def measure(settings: Settings) -> Iterator[Line]:
    """One line for each peer, ours over the peer's; the goal is for the fastest of them."""
    for name, length, sizes in _CASES:
        dataset = real(name)
        for n_components, n_documents in sizes.items():
            words = f"documents of {length} tokens" if length else "whole documents"
            what = f"new rows per second, K = {n_components}, {words}"
            if not settings.wants(what, dataset.name):
                continue
            if dataset.missing:
                yield skipped(what, dataset.name, dataset.missing, _GOAL)
                continue
            counts = usual_words(dataset.load()).tocsr()
            order = np.random.default_rng(0).permutation(counts.shape[0])
            held_out = _shortened(counts[np.sort(order[:n_documents])], length)
            scratch = os.environ.get("PARTWISE_SCRATCH")
            kept = None if scratch is None else Path(scratch) / f"topics-{name}-{n_components}.bin"
            train = counts[np.sort(order[2000:] if counts.shape[0] > 5000 else order[300:])[:_TRAINED]]
            topics = trained(train, n_components, _SWEEPS[n_components], kept)
            yield from _lines(settings, what, dataset.name, topics, held_out)


def _lines(settings: Settings, what: str, data: str, topics: Topics, held_out: Any) -> Iterator[Line]:
    given, hidden = _halves(held_out)
    model = _model(topics)
    rates: dict[str, list[float]] = {"ours": [], "completion": []}
    shares: dict[str, Floats] = {}
    model.transform(given[:4])
    model.completion(held_out[:4])
    present = {name: peer for name, peer in FOLD_IN.items() if importlib.util.find_spec(name)}
    for _ in range(settings.repeats):
        for name, (_, fold_in) in present.items():
            most = _MOST_OF_TOMOTOPY[topics.dictionary.shape[1]] if name == "tomotopy" else None
            seconds, shares[name] = fold_in(topics, given[:most])
            rates.setdefault(name, []).append(len(shares[name]) / seconds)
        began = time.process_time()
        shares["ours"] = model.transform(given)
        rates["ours"].append(given.shape[0] / (time.process_time() - began))
        began = time.process_time()
        model.completion(held_out)
        rates["completion"].append(given.shape[0] / (time.process_time() - began))
    fastest = max(present, key=lambda name: float(np.median(rates[name])))
    ours, unit = Sample.of(rates["ours"], "rows/s"), "rows/s"
    for name, (words, _) in present.items():
        n = len(shares[name])
        reached = [perplexity(shares[one][:n], topics.dictionary, hidden[:n]) for one in ("ours", name)]
        note = f"perplexity {reached[0]:.0f}, the peer's {reached[1]:.0f}, of {n} documents"
        goal = _GOAL if name == fastest else None
        yield Line(what, data, ours, Sample.of(rates[name], unit), words, peer_over_ours=False, goal=goal, note=note)
    yield Line(f"{what}: completion", data, Sample.of(rates["completion"], unit))


def _shortened(counts: Any, length: int | None) -> Any:
    """So many tokens of each document, drawn by seed."""
    if length is None:
        return counts
    rng, found = np.random.default_rng(1), counts.copy()
    for n in range(counts.shape[0]):
        own = slice(*counts.indptr[n : n + 2])
        found.data[own] = rng.multivariate_hypergeometric(counts.data[own].astype(np.int64), length)
    found.eliminate_zeros()
    return found


def _halves(counts: Any) -> tuple[Any, Any]:
    given = counts.copy()
    given.data = np.random.default_rng(2).binomial(counts.data, 0.5).astype(counts.data.dtype)
    hidden = (counts - given).tocsr()
    for half in (given, hidden):
        half.eliminate_zeros()
    some = np.asarray(given.sum(axis=1)).ravel() > 0
    return given[some], hidden[some]


def _model(topics: Topics) -> Any:
    """An AllocationNMF that has these topics."""
    from partwise import AllocationNMF

    n_features, n_components = topics.dictionary.shape
    settings: dict[str, Any] = {"activation_concentration": topics.alpha, "inference": "vb", "max_iter": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one iteration does not converge, and need not
        model = AllocationNMF(2, progress=False, random_state=0, **settings).fit(np.ones((2, n_features), dtype=int))
    model.components_, model.n_components_ = np.ascontiguousarray(topics.dictionary.T), n_components
    model.activation_concentration_ = np.full(n_components, topics.alpha)
    return model


def perplexity(shares: Floats, dictionary: Floats, hidden: Any) -> float:
    """Of the hidden tokens; a thousandth of each prediction is spread evenly."""
    shares = shares / shares.sum(axis=1, keepdims=True)
    cells, total = hidden.tocoo(), 0.0
    for first in range(0, cells.nnz, 2**14):
        some = slice(first, first + 2**14)
        chances = np.einsum("pk,pk->p", shares[cells.row[some]], dictionary[cells.col[some]])
        total += float(cells.data[some] @ np.log(0.999 * chances + 0.001 / dictionary.shape[0]))
    return float(np.exp(-total / cells.data.sum()))
