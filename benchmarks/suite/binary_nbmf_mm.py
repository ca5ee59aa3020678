"""BinaryNMF beside nbmf-mm: seconds to the same training likelihood.

nbmf-mm calls "beta-dir" what has its Dirichlet factor on the samples, which is Dir-Beta here. The target is what it
reaches by maximum likelihood (alpha = beta = 1) with its default stopping rule and ten parts; our EM starts from
factors of its own, and its clock stands still while NumPy compares.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.bits import Bits, mean_log_likelihood, published_bits
from benchmarks.harness.line import Line, Sample, Settings, skipped
from benchmarks.harness.measuring import StoppedClock

_COMPONENTS = 10
_LARGEST_RUN = 5000


def measure(settings: Settings) -> Iterator[Line]:
    """``inference="em"`` against nbmf-mm."""
    bits = published_bits("lastfm")
    if isinstance(bits, str):
        yield skipped("seconds to the same likelihood", "lastfm", bits)
        return
    try:
        import nbmf_mm
    except ImportError:
        yield skipped("seconds to the same likelihood", "lastfm", "nbmf-mm is not installed (the group bench)")
        return
    yield _target(settings, bits, nbmf_mm.NBMFMM, f"nbmf-mm {nbmf_mm.__version__}")


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
