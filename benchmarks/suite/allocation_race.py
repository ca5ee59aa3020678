"""AllocationNMF: processor time to the held-out perplexity of tomotopy's LDA after 200 and 1,000 iterations.

One chain with default settings beside tomotopy's defaults, on one thread, start included. 1,000 iterations are left out
where 200 took tomotopy more than 20 s. K = 1,000 is in allocation_many, two threads are in allocation_threads.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.line import Line, Settings
from benchmarks.harness.race import race


def measure(settings: Settings) -> Iterator[Line]:
    """Three corpora."""
    yield from race(settings, (20, 100))
