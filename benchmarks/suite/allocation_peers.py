"""AllocationNMF: processor time and held-out perplexity beside lda, gensim and scikit-learn.

K = 20 on ap, the same priors; four fifths of the documents are for training. Perplexity is by `partwise.likelihood.smc`
given each model's topics, the same for all. Variational fits of the peers have ten passes, within each of which they
go over a document until it settles; ours have ten updates, or as many as their own rule asks for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import real, small_counts
from benchmarks.harness.line import Line, Sample, Settings, skipped
from benchmarks.harness.topic_peers import PASSES, SWEEPS, TOPIC_PEERS, Floats
from benchmarks.harness.topics import ALPHA, ETA
from benchmarks.suite.allocation_heldout import perplexity

_N_COMPONENTS, _MOST_DOCUMENTS = 20, 100
# Algorithms in words, and the most iterations of those that have a rule to stop.
_OURS = {"gibbs": {f"gibbs, {SWEEPS} sweeps": SWEEPS}, "vb": {"vb": 500, f"vb, {PASSES} updates": PASSES}}


def measure(settings: Settings) -> Iterator[Line]:
    """Two lines a peer: processor time, and perplexity as a share of the peer's."""
    dataset = real("ap")
    if dataset.missing:
        yield skipped("topics", dataset.name, dataset.missing)
        return
    splits = [_split(dataset.load(), seed) for seed in range(settings.repeats)]
    for inference, peers in TOPIC_PEERS.items():
        ours = {
            words: _scored(splits, lambda *task, how=inference, most=most: _fit(how, most, *task))
            for words, most in _OURS[inference].items()
        }
        for peer in peers:
            if peer.missing:
                yield skipped(inference, dataset.name, peer.missing)
                continue
            seconds, reached = _scored(splits, peer.fit)
            for words, (own_seconds, own_perplexity) in ours.items():
                what = f"{words}, K = {_N_COMPONENTS}"
                yield Line(f"{what}: processor time", dataset.name, own_seconds, seconds, peer.name)
                held_out = f"{what}: held-out perplexity"
                yield Line(held_out, dataset.name, own_perplexity, reached, peer.name, peer_over_ours=False)


def _split(counts: Any, seed: int) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(counts.shape[0])
    cut = 4 * counts.shape[0] // 5
    return counts[order[:cut]], counts[order[cut:]][:_MOST_DOCUMENTS]


def _scored(splits: list[tuple[Any, Any]], fit: Any) -> tuple[Sample, Sample]:
    fit(small_counts(), 2, 0)
    found = [(*fit(train, _N_COMPONENTS, seed), held_out) for seed, (train, held_out) in enumerate(splits)]
    perplexities = [perplexity(held_out, dictionary) for _, dictionary, held_out in found]
    return Sample.of([seconds for seconds, _, _ in found], "s"), Sample.of(perplexities, "")


def _fit(inference: str, most: int, counts: Any, n_components: int, seed: int) -> tuple[float, Floats]:
    from partwise import AllocationNMF

    model = AllocationNMF(
        n_components,
        dictionary_concentration=ETA,
        activation_concentration=ALPHA,
        inference=inference,
        burn_in=3 * SWEEPS // 4,
        n_draws=SWEEPS // 4,
        n_chains=1,
        max_iter=most,
        random_state=seed,
        progress=False,
    )
    began = time.process_time()
    model.fit(counts)
    return time.process_time() - began, model.components_.T
