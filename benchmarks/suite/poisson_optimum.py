"""PoissonNMF: seconds to a stationary point.

The largest violation of the Karush-Kuhn-Tucker conditions, as in ``kkt_residual_``, falls below 1e-3. No peer gets
there: scikit-learn sets small entries to zero, which multiplicative updates cannot leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import Dataset, cases
from benchmarks.harness.line import Line, Sample, Settings, skipped
from benchmarks.harness.measuring import compile_kernels, fit_until, random_start

_RESIDUAL = 1e-3
_MOST_ITERATIONS = 1000


def measure(settings: Settings) -> Iterator[Line]:
    """The default algorithm alone, from the starts of the benchmark ``poisson_target``."""
    compiling = compile_kernels()
    for dataset, n_components in cases(synthetic=(10,), nips=(10, 50)):
        yield _line(settings, dataset, n_components, compiling)


def _line(settings: Settings, dataset: Dataset, n_components: int, compiling: float) -> Line:
    from partwise import CountMatrix
    from partwise.engines.local import LocalEngine
    from partwise.poisson.inference.passes import PoissonSide

    what = f"seconds to a KKT residual of {_RESIDUAL:g}, K = {n_components}"
    if dataset.missing:
        return skipped(what, dataset.name, dataset.missing)
    counts = dataset.load()
    data = CountMatrix.build(counts)
    samples, features = PoissonSide(data, LocalEngine()), PoissonSide(data.transposed, LocalEngine())

    def done(state: Any, trace: Any) -> bool:
        return (
            features.kkt_residual(state.dictionary, state.activations) < _RESIDUAL
            and samples.kkt_residual(state.activations, state.dictionary) < _RESIDUAL
        )

    clocks = [
        fit_until(done, counts, n_components, max_iter=_MOST_ITERATIONS, init=random_start(counts, n_components, seed))
        for seed in range(settings.repeats)
    ]
    iterations = [clock.iterations for clock in clocks if clock.seconds is not None]
    remark = f"{np.median(iterations):.0f} iterations; " if iterations else f"within {_MOST_ITERATIONS} iterations; "
    ours = Sample.of([clock.seconds for clock in clocks], "s")
    return Line(what, dataset.name, ours, note=f"{remark}compiling took {compiling:.1f} s")
