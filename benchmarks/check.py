"""``python -m benchmarks.check [NAME ...] [--keep]``: has an algorithm become slower than it was?

Each algorithm does a fixed amount of work on data from a seed. Its processor time is divided by that of a fixed kernel
that is run in turns with it, so machines and their load mostly cancel, and compared with the multiple that was kept
in ``benchmarks/results/check.json``. Not a timed test: it is run by hand, by ``make bench-check``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numba import njit

from benchmarks.harness.algorithms import N_COMPONENTS, Work, algorithms, counts_of
from benchmarks.harness.processes import ROOT

KEPT = ROOT / "benchmarks" / "results" / "check.json"
# The best of so many turns; a multiple more than so many times the kept one is a slow-down.
TURNS = 7
ALLOWED = 1.3


@njit(nogil=True)
def _yardstick(indptr: Any, indices: Any, activations: Any, dictionary: Any) -> float:
    """``sum(log(activations[n] @ dictionary[f]))`` over nonzeros: arithmetic, gathers and a logarithm."""
    total = 0.0
    for n in range(len(indptr) - 1):
        for position in range(indptr[n], indptr[n + 1]):
            rate = 0.0
            for k in range(activations.shape[1]):
                rate += activations[n, k] * dictionary[indices[position], k]
            total += math.log(rate)
    return total


def yardstick() -> Work:
    """The fixed kernel on fixed data, about a tenth of a second."""
    counts = counts_of()
    rng = np.random.default_rng(0)
    factors = [rng.random((n, N_COMPONENTS)) for n in counts.shape]

    def work() -> None:
        for _ in range(20):
            _yardstick(counts.indptr, counts.indices, *factors)

    return work


def multiple(work: Work, unit: Work, turns: int = TURNS) -> float:
    """Least processor time of the work over least of the unit, taken in turns after a first run of both."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns + 1):
        for function, taken in zip((work, unit), seconds, strict=True):
            began = time.process_time()
            function()
            taken.append(time.process_time() - began)
    return min(seconds[0][1:]) / min(seconds[1][1:])


def verdicts(measured: Mapping[str, float], kept: Mapping[str, float]) -> Iterator[tuple[str, bool]]:
    """A line for each algorithm, and whether it is a slow-down."""
    for name, now in measured.items():
        before = kept.get(name)
        if before is None:
            yield f"{name}: {now:.3g}, nothing kept", False
        else:
            slower = now > ALLOWED * before
            yield f"{name}: {now:.3g}, kept {before:.3g}{': SLOWER' if slower else ''}", slower


def main() -> int:
    """Measure, compare, and exit with 1 if anything is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of the algorithms (default: all)")
    parser.add_argument("--keep", action="store_true", help="keep what is measured as the multiples to compare with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # ten iterations never converge
    everything, unit = algorithms(), yardstick()
    unknown = [name for name in arguments.names if name not in everything]
    if unknown:
        parser.error(f"there is no algorithm {unknown[0]!r}: choose from {', '.join(map(repr, everything))}")
    kept: dict[str, float] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    slower = False
    for name in arguments.names or everything:
        measured = {name: multiple(everything[name], unit)}
        if arguments.keep:
            kept |= {name: round(measured[name], 4)}
        for line, is_slower in verdicts(measured, kept):
            print(line, flush=True)
            slower |= is_slower
    if arguments.keep:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
