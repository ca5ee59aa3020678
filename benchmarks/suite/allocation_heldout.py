"""AllocationNMF: held-out perplexity beside tomotopy's LDA, both by the same estimator.

K = 20, the same priors and numbers of sweeps; four fifths of the documents are for training. Perplexity is the
exponential of minus the log-likelihood a token by `partwise.likelihood.smc` given each model's topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.topics import ALPHA, ETA, NAME, Topics

_N_COMPONENTS, _BURN_IN, _DRAWS, _MOST_DOCUMENTS = 20, 300, 100, 100


def measure(settings: Settings) -> Iterator[Line]:
    """Perplexity on two collections; the ratio is ours over the peer's."""
    for name in ("ap", "reuters395"):
        dataset, goal = real(name), Goal(1.005, "below")
        what = f"held-out perplexity, K = {_N_COMPONENTS}"
        if dataset.missing:
            yield skipped(what, dataset.name, dataset.missing, goal)
            continue
        counts = dataset.load()
        pairs = [_perplexities(counts, seed) for seed in range(settings.repeats)]
        ours, peer = (Sample.of(list(values), "") for values in zip(*pairs, strict=True))
        yield Line(what, dataset.name, ours, peer, NAME, peer_over_ours=False, goal=goal, threads="")


def _perplexities(counts: Any, seed: int) -> tuple[float, float]:
    from partwise import AllocationNMF

    order = np.random.default_rng(seed).permutation(counts.shape[0])
    cut = 4 * counts.shape[0] // 5
    train, held_out = counts[order[:cut]], counts[order[cut:]][:_MOST_DOCUMENTS]
    model = AllocationNMF(
        _N_COMPONENTS,
        dictionary_concentration=ETA,
        activation_concentration=ALPHA,
        burn_in=_BURN_IN,
        n_draws=_DRAWS,
        n_chains=1,
        random_state=seed,
        progress=False,
    ).fit(train)
    topics = Topics(train, _N_COMPONENTS, seed + 1)
    topics.seconds(_BURN_IN + _DRAWS, 1)
    return perplexity(held_out, model.components_.T), perplexity(held_out, topics.dictionary())


def perplexity(counts: Any, dictionary: Any) -> float:
    from scipy.special import gammaln

    from partwise.allocation.inference.marginal import log_length
    from partwise.likelihood import smc

    totals = np.asarray(counts.sum(axis=1)).ravel().astype(np.float64)
    found = smc(counts, dictionary, ALPHA, 1.0, rng=0, n_draws=64)
    # Given the lengths, and for tokens in order: the same for both models.
    lengths = log_length(totals, ALPHA * dictionary.shape[1], 1.0).sum()
    orders = gammaln(totals + 1.0).sum() - gammaln(counts.data + 1.0).sum()
    return float(np.exp(-(found.total - lengths - orders) / totals.sum()))
