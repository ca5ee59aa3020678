"""GammaPoissonNMF: prediction of thinned counts, and processor time, beside hpfrec and poismf.

A fifth of the tokens is held out, cell by cell, and scored with the rates fitted to the rest, scaled by 1/4
(`partwise.selection` scores so). Perplexity is the exponential of minus the score a held-out token. Every package stops
by its own rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.count_peers import COUNT_PEERS, Fitted
from benchmarks.harness.data import real, small_counts
from benchmarks.harness.line import Line, Sample, Settings, skipped

_N_COMPONENTS = 20
_OURS = {"vem": "variational EM", "thorough": "the default"}


def measure(settings: Settings) -> Iterator[Line]:
    """Two lines for each of our algorithms and each peer; both sides see the same training counts."""
    for name in ("ap", "kos"):
        dataset = real(name)
        if dataset.missing:
            yield skipped("thinned counts", dataset.name, dataset.missing)
            continue
        folds = [_fold(dataset.load(), seed) for seed in range(settings.repeats)]
        ours = {inference: _scored(folds, lambda *task, how=inference: _fit(how, *task)) for inference in _OURS}
        for peer in COUNT_PEERS:
            if peer.missing:
                yield skipped("thinned counts", dataset.name, peer.missing)
                continue
            seconds, perplexity = _scored(folds, peer.fit)
            for inference, (own_seconds, own_perplexity) in ours.items():
                what = f"{inference} ({_OURS[inference]}), K = {_N_COMPONENTS}"
                yield Line(f"{what}: processor time", dataset.name, own_seconds, seconds, peer.name)
                yield Line(
                    f"{what}: perplexity of held-out tokens",
                    dataset.name,
                    own_perplexity,
                    perplexity,
                    peer.name,
                    peer_over_ours=False,
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
        fitted = fit(fold.train.matrix, _N_COMPONENTS, seed)
        seconds.append(fitted.seconds)
        perplexities.append(float(np.exp(-poisson_rows(fitted, fold).sum() / fold.size)))
    return Sample.of(seconds, "s"), Sample.of(perplexities, "")


def _fit(inference: str, counts: Any, n_components: int, seed: int) -> Fitted:
    import time

    from partwise import GammaPoissonNMF

    began = time.process_time()
    model = GammaPoissonNMF(n_components, inference=inference, random_state=seed, progress=False).fit(counts)
    activations = model.transform(counts)
    return Fitted(activations, model.components_, time.process_time() - began)
