"""BinaryNMF: perplexity of held-out cells beside nbmf-mm, and what it costs to take such cells for zeros.

Held-out cells are those of the authors' first split. nbmf-mm has its defaults: ten parts, a mode under Beta(1.2, 1.2).
Whether the values under its mask matter is tried by turning them over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.harness.bits import Bits, Floats, published_bits
from benchmarks.harness.line import Line, Sample, Settings, skipped

_DATA = ("lastfm", "parliament", "animals")
_COMPONENTS = 10
# none of these is a figure of speed, and seeds differ little
_MOST_SEEDS = 3

_OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "flat priors, as in the paper": {"model": "beta-dir", "beta_prior": (1.0, 1.0), "concentration": 1.0},
    "beta_prior=(0.1, 0.1)": {"beta_prior": (0.1, 0.1)},
    "the model and prior of nbmf-mm": {
        "n_components": _COMPONENTS,
        "model": "dir-beta",
        "inference": "map",
        # a mode of log odds adds these to counts, as a mode of probabilities adds 1.2 - 1
        "beta_prior": (0.2, 0.2),
        "concentration": 1e-9,
    },
}


def measure(settings: Settings) -> Iterator[Line]:
    """Defaults, what predicts better, and nbmf-mm's own model and prior; then hidden cells as zeros."""
    try:
        import nbmf_mm
    except ImportError:
        yield skipped("held-out perplexity", "lastfm", "nbmf-mm is not installed (the group bench)")
        return
    seeds = range(min(settings.repeats, _MOST_SEEDS))
    name = f"nbmf-mm {nbmf_mm.__version__}"
    for dataset in _DATA:
        bits = published_bits(dataset)
        if isinstance(bits, str):
            yield skipped("held-out perplexity", dataset, bits)
            continue
        masked = [_masked(bits, nbmf_mm.NBMFMM(random_state=seed), 0.0) for seed in seeds]
        yield from _defaults(bits, [bits.perplexity(found) for found in masked], name)
        yield _zeros_ours(seeds, bits)
        yield _zeros_theirs(bits, masked, nbmf_mm.NBMFMM, name)


def _defaults(bits: Bits, peer: list[float], name: str) -> Iterator[Line]:
    from partwise import BinaryNMF

    for what, chosen in _OPTIONS.items():
        fits = [BinaryNMF(random_state=seed, progress=False, **chosen).fit(bits.train) for seed in range(len(peer))]
        ours = [bits.perplexity(fit.predict_proba()) for fit in fits]
        yield _line(f"held-out perplexity, {what}", bits, ours, peer, name)


def _zeros_ours(seeds: range, bits: Bits) -> Line:
    """What it costs to take held-out cells for zeros, shown with our own variational Bayes."""
    from partwise import BinaryNMF

    def score(train: Floats, seed: int) -> float:
        model = BinaryNMF(_COMPONENTS, inference="vb", random_state=seed, progress=False)
        return bits.perplexity(model.fit(train).predict_proba())

    ours = [score(bits.train, seed) for seed in seeds]
    zeros = [score(np.nan_to_num(bits.train), seed) for seed in seeds]
    what = f'held-out perplexity, inference="vb", K = {_COMPONENTS}'
    return _line(what, bits, ours, zeros, "the same, held-out cells taken for zeros")


def _zeros_theirs(bits: Bits, masked: list[Floats], peer_class: Any, name: str) -> Line:
    """nbmf-mm with its mask beside the same without, hidden cells being zeros; the mask must hide every value."""
    turned = _masked(bits, peer_class(random_state=0), 1.0)
    ours = [bits.perplexity(found) for found in masked]
    zeros = [
        bits.perplexity(_probabilities(peer_class(random_state=seed).fit(np.nan_to_num(bits.train))))
        for seed in range(len(masked))
    ]
    line = _line(f"held-out perplexity, {name} with its mask", bits, ours, zeros, "without, held-out cells zeros")
    change = float(np.abs(masked[0] - turned).max())
    return replace(line, note=f"turning hidden cells over changes a probability by {change:g} at most")


def _masked(bits: Bits, model: Any, hidden: float) -> Floats:
    model.fit(np.where(bits.held_out, hidden, bits.whole), mask=(~bits.held_out).astype(np.float64))
    return _probabilities(model)


def _probabilities(model: Any) -> Floats:
    found: Floats = np.asarray(model.W_ @ model.components_)
    return found


def _line(what: str, bits: Bits, ours: list[float], peer: list[float], peer_name: str) -> Line:
    samples = Sample.of(ours, "nats"), Sample.of(peer, "nats")
    return Line(what, bits.name, *samples, peer_name, peer_over_ours=False, threads="")
