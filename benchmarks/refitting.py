"""Refitting samples to a made-up catalogue of 86 parts: presence, mass on absent parts, coverage, alarm, time.

Run ``python -m benchmarks.refitting`` in the root of the repository. Each line that is done is kept in
``benchmarks/results/refitting.jsonl``, and a run that was stopped goes on from there. With SigProfilerAssignment
installed in some Python, ``--sigprofiler PYTHON`` adds its results on the same samples. ``--table`` prints the table of
the docs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise import PoissonNMF
from partwise.plotting import signature_channels
from partwise.refit import lacking

Floats = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results" / "refitting.jsonl"
SIZES = 200, 1000, 5000, 20000
N_SAMPLES, PIECE = 100, 50
N_PARTS = 86
LEFT_OUT = 7
_METHODS = "presence", "sigprofiler", "alarm"


def catalogue(n_parts: int = N_PARTS, seed: int = 0) -> Floats:
    """Parts x 96 channels: kinds of substitution times contexts from a small pool, so that many parts are alike.

    The median part has a cosine of 0.65 with its nearest neighbour, one in ten of 0.86 or more.
    """
    generator = np.random.default_rng(seed)
    pool = np.array([generator.dirichlet(np.full(16, c)) for c in (0.3, 0.3, 0.5, 0.5, 1, 1, 2, 2, 5, 20)])
    parts = []
    for k in range(n_parts):
        kinds = generator.dirichlet(np.full(6, 0.5 if k % 4 else 5.0))
        contexts = pool[generator.integers(0, len(pool), 6)]
        part = (kinds[:, None] * contexts).ravel() * generator.gamma(4, 0.25, 96) + 1e-4 / 96
        parts.append(part / part.sum())
    return np.array(parts)


def samples(parts: Floats, size: int, piece: int, *, with_part: int | None = None) -> tuple[Floats, Floats]:
    """Activations and counts of a piece of the samples of a size: 3 to 8 parts, shares uniform on the simplex."""
    generator = np.random.default_rng([size, piece, len(parts)])
    most = min(8, len(parts))
    present = np.zeros((PIECE, len(parts)), bool)
    for row in present:
        row[generator.choice(len(parts), generator.integers(3, most + 1), replace=False)] = True
    if with_part is not None:
        present[:, with_part] = True
    activations = generator.gamma(1.0, 1.0, present.shape) * present
    activations *= size / activations.sum(axis=1, keepdims=True)
    return activations, generator.poisson(activations @ parts).astype(np.float64)


def scores(truth: Floats, found: Floats, present: NDArray[np.bool_], total: float) -> dict[str, Any]:
    """F1 of presence of each sample, and the share of the counts on absent parts."""
    right = (present & (truth > 0)).sum(axis=1)
    f1 = 2.0 * right / np.maximum(present.sum(axis=1) + (truth > 0).sum(axis=1), 1)
    return {
        "f1": f1.tolist(),
        "absent": float(found[truth == 0].sum()) / total,
        "n_found": float(present.sum(axis=1).mean()),
    }


def ours(parts: Floats, size: int, piece: int) -> dict[str, Any]:
    """Presence posterior with its defaults."""
    truth, counts = samples(parts, size, piece)
    model = PoissonNMF.from_components(parts, presence=True, n_jobs=2)
    start, cpu = time.perf_counter(), time.process_time()
    found = model.presence(counts)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    inside = (found.lower <= truth) & (truth <= found.upper)
    large = truth > 50
    return {
        **scores(truth, found.mean, found.probability > 0.5, float(counts.sum())),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "covered": float(inside.mean()),
        "covered_large": int(inside[large].sum()),
        "n_large": int(large.sum()),
        "probability": float(found.probability.sum()),
        "n_present": int((truth > 0).sum()),
    }


def alarm(parts: Floats, size: int, piece: int) -> dict[str, Any]:
    """False alarms with all parts, and power without one that is present everywhere."""
    _, counts = samples(parts, size, piece)
    full = lacking(PoissonNMF.from_components(parts, n_jobs=2), counts)
    truth, counts = samples(parts, size, piece, with_part=LEFT_OUT)
    without = lacking(PoissonNMF.from_components(np.delete(parts, LEFT_OUT, axis=0), n_jobs=2), counts)
    many = truth[:, LEFT_OUT] > 0.1 * size
    return {
        "false": int((full.p_values <= 0.05).sum()),
        "cohort_false": full.cohort_p_value <= 0.05,
        "power": int((without.p_values[many] <= 0.05).sum()),
        "n_power": int(many.sum()),
        "cohort_power": without.cohort_p_value <= 0.05,
    }


_PEER = """
import sys
from SigProfilerAssignment import Analyzer
if __name__ == "__main__":
    Analyzer.cosmic_fit(samples=sys.argv[1], output=sys.argv[3], signature_database=sys.argv[2], make_plots=False,
                        export_probabilities=False, cpu=1, add_background_signatures=False)
"""


def sigprofiler(parts: Floats, size: int, piece: int, python: str) -> dict[str, Any]:
    """SigProfilerAssignment without its background signatures, in a Python that has it."""
    truth, counts = samples(parts, size, piece)
    names = [f"P{k}" for k in range(len(parts))]
    order = sorted((channel, f) for f, channel in enumerate(signature_channels()))  # the only one that it knows
    with tempfile.TemporaryDirectory() as folder:
        for name, columns, heads in (
            ("samples.txt", counts.astype(int), [f"S{n}" for n in range(PIECE)]),
            ("parts.txt", parts, names),
        ):
            rows = ["\t".join(["Type", *heads])]
            rows += ["\t".join([channel, *map(str, columns[:, f])]) for channel, f in order]
            Path(folder, name).write_text("\n".join(rows) + "\n")
        Path(folder, "run.py").write_text(_PEER)
        start = time.perf_counter()
        subprocess.run(
            [python, "run.py", "samples.txt", "parts.txt", "out"], cwd=folder, check=True, capture_output=True
        )
        seconds = time.perf_counter() - start
        (table,) = Path(folder, "out").rglob("Assignment_Solution_Activities.txt")
        head, *lines = [line.split("\t") for line in table.read_text().splitlines()]
    found = np.zeros_like(truth)
    for line in lines:
        for name, value in zip(head[1:], line[1:], strict=True):
            found[int(line[0][1:]), names.index(name)] = float(value)
    return {**scores(truth, found, found > 0, float(counts.sum())), "seconds": seconds}


def run(methods: dict[str, Any]) -> None:
    """Do what is not in the file of results yet."""
    done = {(line["method"], line["n_parts"], line["size"], line["piece"]) for line in results()}
    for piece in range(N_SAMPLES // PIECE):
        for size in SIZES:
            for name, (function, n_parts) in methods.items():
                if (name, n_parts, size, piece) not in done:
                    line = {"method": name, "n_parts": n_parts, "size": size, "piece": piece}
                    line |= function(catalogue()[:n_parts], size, piece)
                    RESULTS.parent.mkdir(exist_ok=True)
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(line) + "\n")


def results() -> list[dict[str, Any]]:
    """All lines of the file of results."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table() -> str:
    """The table of the docs, in Markdown."""
    heads = ["parts", "counts", "F1", "F1 of SigProfilerAssignment", "counts on absent parts"]
    heads += ["intervals cover all parts", "intervals cover present parts above 50 counts"]
    heads += ["false alarms", "power of the alarm"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    found = results()
    for n_parts in sorted({line["n_parts"] for line in found}):
        for size in SIZES:
            of_size = [line for line in found if line["n_parts"] == n_parts and line["size"] == size]
            own, peer, rung = ([line for line in of_size if line["method"] == name] for name in _METHODS)
            if own:
                cells = [str(n_parts), f"{size:,}", _f1(own), _f1(peer), f"{_mean(own, 'absent'):.2%}"]
                cells += [f"{_mean(own, 'covered'):.1%}", f"{_share(own, 'covered_large', 'n_large'):.1%}"]
                told = f"{sum(line['false'] for line in rung)} of {PIECE * len(rung)}"
                cells += [told, f"{_share(rung, 'power', 'n_power'):.0%}"] if rung else ["", ""]
                rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _mean(lines: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([line[name] for line in lines]))


def _share(lines: list[dict[str, Any]], part: str, whole: str) -> float:
    return float(sum(line[part] for line in lines) / max(sum(line[whole] for line in lines), 1))


def _f1(lines: list[dict[str, Any]]) -> str:
    values = np.array([value for line in lines for value in line["f1"]])
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(values.size):.3f}" if values.size else ""


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="print the table of the docs")
    parser.add_argument("--sigprofiler", metavar="PYTHON", help="a Python that has SigProfilerAssignment")
    parser.add_argument("--only", choices=_METHODS, help="run this alone")
    given = parser.parse_args()
    if given.table:
        print(table())
        return
    methods: dict[str, Any] = {"presence": (ours, N_PARTS), "alarm": (alarm, N_PARTS)}
    if given.sigprofiler:
        methods["sigprofiler"] = (partial(sigprofiler, python=given.sigprofiler), N_PARTS)
    run({name: methods[name] for name in methods if given.only in (None, name)})
    if given.only in (None, "presence"):
        run({"presence": (ours, 8)})


if __name__ == "__main__":
    main()
