"""GammaPoissonNMF: prediction of thinned counts, and processor time, beside hpfrec and poismf.

A fifth of the tokens is held out, cell by cell, and scored with the rates fitted to the rest, scaled by 1/4
(`partwise.selection` scores so). Perplexity is the exponential of the negative score per held-out token. Every package
stops by its own rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.count_peers import COUNT_PEERS, Fitted
from benchmarks.harness.data import real, small_counts
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

_N_COMPONENTS = 20
# Perplexity not above hpfrec's, in at most 1.2 times the time of poismf with its own penalty.
_GOALS = {"hpfrec": (None, Goal(1.0, "below")), "poismf, tncg, its penalty": (Goal(1 / 1.2, "at least"), None)}


def measure(settings: Settings) -> Iterator[Line]:
    """Two lines for each peer; both sides see the same training counts."""
    for name in ("ap", "kos"):
        dataset = real(name)
        if dataset.missing:
            yield skipped("thinned counts", dataset.name, dataset.missing)
            continue
        folds = [_fold(dataset.load(), seed) for seed in range(settings.repeats)]
        own_seconds, own_perplexity = _scored(folds, _fit)
        for peer in COUNT_PEERS:
            if peer.missing:
                yield skipped("thinned counts", dataset.name, peer.missing)
                continue
            seconds, perplexity = _scored(folds, peer.fit)
            goal = next((goals for name, goals in _GOALS.items() if peer.name.startswith(name)), (None, None))
            what = f"vem (variational EM), K = {_N_COMPONENTS}"
            yield Line(f"{what}: processor time", dataset.name, own_seconds, seconds, peer.name, goal=goal[0])
            yield Line(
                f"{what}: perplexity of held-out tokens",
                dataset.name,
                own_perplexity,
                perplexity,
                peer.name,
                peer_over_ours=False,
                goal=goal[1],
            )


def _fold(counts: Any, seed: int) -> Any:
    from partwise.core.data import CountMatrix
    from partwise.core.keys import Key
    from partwise.selection.fitting import count_fold

    return count_fold(CountMatrix.build(counts), Key(seed), 0)


def _scored(folds: list[Any], fit: Any) -> tuple[Sample, Sample]:
    from partwise.contract.heldout import poisson_rows

    fit(small_counts(), 2, 0)
    seconds, perplexities = [], []
    for seed, fold in enumerate(folds):
        fitted = fit(fold.train.to_scipy().astype(np.int64), _N_COMPONENTS, seed)
        seconds.append(fitted.seconds)
        perplexities.append(float(np.exp(-poisson_rows(fitted, fold).sum() / fold.size)))
    return Sample.of(seconds, "s"), Sample.of(perplexities, "")


def _fit(counts: Any, n_components: int, seed: int) -> Fitted:
    import time

    from partwise import GammaPoissonNMF

    began = time.process_time()
    model = GammaPoissonNMF(n_components, random_state=seed, progress=False).fit(counts)
    activations = model.transform(counts)
    return Fitted(activations, model.components_, time.process_time() - began)
