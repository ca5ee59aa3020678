"""``python -m benchmarks.scaling_model``: fits the cost model of docs/explanation/scaling.md to the kept results.

Seconds of a pass over rows = nonzeros (a + b K) / threads + blocks c F K / threads. The rates a and b are fitted to the
small runs of ``scale_growth``, and c, of a number of a block's sums, is known; the large runs, and Dask, are predicted.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness.processes import ROOT

_RESULTS = ROOT / "benchmarks" / "results"
_PICTURE = ROOT / "docs" / "images" / "scaling.svg"
_N_FEATURES = 10_000
# Of a zeroed and added number: two passes over memory, measured by itself.
_SECONDS_A_SUM = 1.0e-9


@dataclass(frozen=True)
class Run:
    """Nonzeros, components, threads and seconds of an iteration, and whether the model was fitted to it."""

    name: str
    nonzeros: float
    n_components: int
    threads: int
    seconds: float
    fitted: bool


def runs() -> list[Run]:
    """What the benchmarks measured."""
    found = []
    for benchmark in (json.loads(path.read_text()) for path in sorted(_RESULTS.glob("scale_*.json"))):
        for line in benchmark["lines"]:
            if not line["what"].startswith(("iteration, ", "one iteration")):
                continue
            k = int(line["what"].rpartition("= ")[2])
            if benchmark["name"] == "scale_growth":
                size = float(line["what"].split()[1])
                found.append(Run("one thread", size, k, 1, min(line["ours"]["values"]), size < 5e7))
            elif benchmark["name"] == "scale_dask":
                size = float(line["data"].split()[-2])
                n_threads = 1 if "one" in line["peer_name"] else 2
                peer = statistics.median(line["peer"]["values"])
                found.append(Run(line["peer_name"].removeprefix("partwise, "), size, k, n_threads, peer, False))
                if n_threads == 2:
                    ours = statistics.median(line["ours"]["values"])
                    found.append(Run("Dask, two workers", size, k, 2, ours, False))
    return found


def terms(run: Run) -> list[float]:
    """What a and b are multiplied by, and what is known."""
    blocks = run.nonzeros / max(2**17, 8 * _N_FEATURES)
    known = blocks * _SECONDS_A_SUM * _N_FEATURES * run.n_components / run.threads
    return [run.nonzeros / run.threads, run.nonzeros * run.n_components / run.threads, known]


def main() -> None:
    """Print the table, and draw the picture."""
    measured = runs()
    fitted = [run for run in measured if run.fitted]
    # Relative errors count.
    rows = np.array([terms(run) for run in fitted])
    seconds = np.array([run.seconds for run in fitted])
    weights = 1.0 / seconds
    (a, b), *_ = np.linalg.lstsq(rows[:, :2] * weights[:, None], (seconds - rows[:, 2]) * weights, rcond=None)
    print(f"a = {1e9 * a:.2f} ns, b = {1e9 * b:.3f} ns per part")
    print("| run | nonzeros | K | measured | model | model / measured |\n|---|---|---|---|---|---|")
    predicted = [float(np.dot(terms(run), [a, b, 1.0])) for run in measured]
    for run, model in zip(measured, predicted, strict=True):
        role = " (fitted)" if run.fitted else ""
        print(
            f"| {run.name}{role} | {run.nonzeros:.0e} | {run.n_components} | {run.seconds:.3g} s | {model:.3g} s |"
            f" {model / run.seconds:.2f} |"
        )
    _draw(measured, predicted, _PICTURE)


def _draw(measured: list[Run], predicted: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "partwise"
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for fitted, marker, color, label in ((True, "o", "#0072B2", "fitted"), (False, "s", "#D55E00", "predicted")):
        chosen = [(m, run.seconds) for run, m in zip(measured, predicted, strict=True) if run.fitted == fitted]
        axes.scatter(*zip(*chosen, strict=True), marker=marker, color=color, label=label)
    ends = [0.5 * min(predicted), 2 * max(predicted)]
    axes.plot(ends, ends, "k:", linewidth=1, label="model = measured")
    axes.set(xscale="log", yscale="log", xlabel="seconds per iteration, cost model")
    axes.set_ylabel("seconds per iteration, measured")
    axes.legend()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
