"""BinaryNMF beside nbmf-mm: seconds to the same training likelihood, held-out perplexity, cells taken for zeros.

nbmf-mm calls "beta-dir" what has its Dirichlet factor on the samples, which is Dir-Beta here. The target is what it
reaches by maximum likelihood (alpha = beta = 1) with its default stopping rule and ten parts; our EM starts from
factors of its own, and its clock stands still while NumPy compares. Perplexities are those of the authors' first split.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.bits import Bits, Floats, mean_log_likelihood, published_bits
from benchmarks.harness.line import Line, Sample, Settings, skipped
from benchmarks.harness.measuring import StoppedClock

_COMPONENTS = 10
_LARGEST_RUN = 5000


def measure(settings: Settings) -> Iterator[Line]:
    """``inference="em"`` and the defaults, against nbmf-mm."""
    bits = published_bits("lastfm")
    if isinstance(bits, str):
        yield skipped("seconds to the same likelihood", "lastfm", bits)
        return
    try:
        import nbmf_mm
    except ImportError:
        yield skipped("seconds to the same likelihood", "lastfm", "nbmf-mm is not installed (the group bench)")
        return
    name = f"nbmf-mm {nbmf_mm.__version__}"
    yield _target(settings, bits, nbmf_mm.NBMFMM, name)
    yield from _held_out(settings, bits, nbmf_mm.NBMFMM, name)
    for table in (bits, published_bits("parliament")):
        if not isinstance(table, str):
            yield _zeros_ours(settings, table)
    yield _zeros_theirs(settings, bits, nbmf_mm.NBMFMM, name)


def _target(settings: Settings, bits: Bits, peer_class: Any, name: str) -> Line:
    from partwise import BinaryNMF

    BinaryNMF(_COMPONENTS, model="dir-beta", inference="em", max_iter=3, tol=0, random_state=0).fit(bits.whole)
    ours: list[float | None] = []
    peer: list[float | None] = []
    iterations = []
    for seed in range(settings.repeats):
        model = peer_class(_COMPONENTS, alpha=1.0, beta=1.0, random_state=seed)
        began = time.perf_counter()
        model.fit(bits.whole)
        peer.append(time.perf_counter() - began)
        target = mean_log_likelihood(bits.whole, model.W_ @ model.components_)

        def done(state: Any, trace: Any, target: float = target) -> bool:
            # rows are the features of Dir-Beta
            return mean_log_likelihood(bits.whole, state.columns @ state.rows.T) >= target

        clock = StoppedClock(done)
        fit = BinaryNMF(
            _COMPONENTS,
            model="dir-beta",
            inference="em",
            max_iter=_LARGEST_RUN,
            tol=0.0,
            random_state=seed,
            progress=False,
            callbacks=[clock],
        )
        fit.fit(bits.whole)
        ours.append(clock.seconds)
        iterations.append((clock.iterations, model.n_iter_))
    mine, theirs = np.median(iterations, axis=0)
    return Line(
        f"seconds to the same training likelihood, em, K = {_COMPONENTS}",
        bits.name,
        Sample.of(ours, "s"),
        Sample.of(peer, "s"),
        f"{name}, alpha = beta = 1",
        note=f"{mine:.0f} iterations of ours, {theirs:.0f} of its",
    )


def _held_out(settings: Settings, bits: Bits, peer_class: Any, name: str) -> Iterator[Line]:
    """Our defaults, Dir-Dir, and the model and prior that are nbmf-mm's default, beside its default."""
    from partwise import BinaryNMF

    options: dict[str, dict[str, Any]] = {
        "defaults": {},
        'model="dir-dir"': {"model": "dir-dir"},
        "its model and prior": {
            "n_components": _COMPONENTS,
            "model": "dir-beta",
            "inference": "map",
            "nonparametric": False,
            "beta_prior": (1.2, 1.2),
        },
    }
    seeds = range(min(settings.repeats, 3))
    peer = [bits.perplexity(_masked(bits, peer_class(random_state=seed), 0.0)) for seed in seeds]
    for what, chosen in options.items():
        fits = [BinaryNMF(random_state=seed, progress=False, **chosen).fit(bits.train) for seed in seeds]
        ours = [bits.perplexity(fit.predict_proba()) for fit in fits]
        yield Line(
            f"held-out perplexity, {what}",
            bits.name,
            Sample.of(ours, "nats"),
            Sample.of(peer, "nats"),
            name,
            peer_over_ours=False,
        )


def _zeros_ours(settings: Settings, bits: Bits) -> Line:
    """What it costs to take held-out cells for zeros, shown with our own variational Bayes."""
    from partwise import BinaryNMF

    def score(train: Floats, seed: int) -> float:
        model = BinaryNMF(_COMPONENTS, inference="vb", nonparametric=False, random_state=seed, progress=False)
        return bits.perplexity(model.fit(train).predict_proba())

    ours = [score(bits.train, seed) for seed in range(settings.repeats)]
    zeros = [score(np.nan_to_num(bits.train), seed) for seed in range(settings.repeats)]
    return Line(
        f'held-out perplexity, inference="vb", K = {_COMPONENTS}',
        bits.name,
        Sample.of(ours, "nats"),
        Sample.of(zeros, "nats"),
        "the same, held-out cells taken for zeros",
        peer_over_ours=False,
    )


def _zeros_theirs(settings: Settings, bits: Bits, peer_class: Any, name: str) -> Line:
    """Whether the values under nbmf-mm's mask change what it fits: they must not."""
    changes = []
    for seed in range(min(settings.repeats, 3)):
        zeros, ones = (_masked(bits, peer_class(random_state=seed, max_iter=100), value) for value in (0.0, 1.0))
        changes.append(float(np.abs(zeros - ones).max()))
    largest = max(changes)
    verdict = "its mask hides them" if largest == 0 else "values that are hidden change its fit"
    return Line(
        f"largest change of a probability of {name} when hidden zeros become ones",
        bits.name,
        Sample.of(changes, ""),
        note=verdict,
    )


def _masked(bits: Bits, model: Any, hidden: float) -> Floats:
    model.fit(np.where(bits.held_out, hidden, bits.whole), mask=(~bits.held_out).astype(np.float64))
    found: Floats = np.asarray(model.W_ @ model.components_)
    return found
