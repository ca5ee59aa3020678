"""Refitting samples to made-up catalogues of 86 parts: presence, mass on absent parts, coverage, alarm, time.

Run ``python -m benchmarks.refitting`` in the root of the repository. Each line that is done is kept in
``benchmarks/results/refitting.jsonl``, and a run that was stopped goes on from there. With SigProfilerAssignment
installed in some Python, ``--sigprofiler PYTHON`` adds its results on the same samples. ``--table`` prints the tables
of the docs.
"""

from __future__ import annotations

import argparse
import json
import resource
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
PIECE = 50
N_PARTS = 86
LEFT_OUT = 7
# Samples on which nothing was tried while the alarm was made: 1,000 of each size, and 200 for its power.
ALARM_PIECES, POWER_PIECES = range(100, 120), range(100, 104)
_METHODS = "presence", "sigprofiler", "alarm", "power"
WORLDS = {
    "prior": (0, "shares uniform on the simplex, as the prior has them"),
    "other catalogue": (1, "the same with another catalogue"),
    "uneven": (1, "log-normal activations, one part dominant"),
    "over-dispersed": (1, "the same, with negative binomial counts of size 50"),
}
"""Seed of the catalogue, and what samples are like. The prior was tuned on the first alone."""
_SPREAD, _DOMINANCE, _SIZE_OF_NOISE = 1.5, 5.0, 50.0


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


def samples(
    parts: Floats, size: int, piece: int, *, world: str = "prior", with_part: int | None = None
) -> tuple[Floats, Floats]:
    """Activations and counts of a piece of the samples of a size, with 3 to 8 parts each."""
    generator = np.random.default_rng([size, piece, len(parts)])
    most = min(8, len(parts))
    present = np.zeros((PIECE, len(parts)), bool)
    for row in present:
        row[generator.choice(len(parts), generator.integers(3, most + 1), replace=False)] = True
    if with_part is not None:
        present[:, with_part] = True
    if world in ("uneven", "over-dispersed"):
        activations = generator.lognormal(0.0, _SPREAD, present.shape) * present
        activations[np.arange(PIECE), np.argmax(activations, axis=1)] *= _DOMINANCE
    else:
        activations = generator.gamma(1.0, 1.0, present.shape) * present
    activations *= size / activations.sum(axis=1, keepdims=True)
    rates = activations @ parts
    if world == "over-dispersed":
        rates = rates * generator.gamma(_SIZE_OF_NOISE, 1.0 / _SIZE_OF_NOISE, rates.shape)
    return activations, generator.poisson(rates).astype(np.float64)


def scores(truth: Floats, found: Floats, present: NDArray[np.bool_], total: float) -> dict[str, Any]:
    """F1 of presence of each sample, and the share of the counts on absent parts."""
    right = (present & (truth > 0)).sum(axis=1)
    f1 = 2.0 * right / np.maximum(present.sum(axis=1) + (truth > 0).sum(axis=1), 1)
    return {
        "f1": f1.tolist(),
        "absent": float(found[truth == 0].sum()) / total,
        "n_found": float(present.sum(axis=1).mean()),
    }


def ours(parts: Floats, size: int, piece: int, world: str = "prior") -> dict[str, Any]:
    """Presence posterior with its defaults."""
    truth, counts = samples(parts, size, piece, world=world)
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


def alarm(parts: Floats, size: int, piece: int, world: str = "prior") -> dict[str, Any]:
    """False alarms with all parts."""
    _, counts = samples(parts, size, piece, world=world)
    found = lacking(PoissonNMF.from_components(parts, n_jobs=2), counts)
    return {"false": int((found.p_values <= 0.05).sum()), "cohort_false": found.cohort_p_value <= 0.05}


def power(parts: Floats, size: int, piece: int, world: str = "prior") -> dict[str, Any]:
    """Alarms without a part that makes a tenth or more of a sample."""
    truth, counts = samples(parts, size, piece, world=world, with_part=LEFT_OUT)
    found = lacking(PoissonNMF.from_components(np.delete(parts, LEFT_OUT, axis=0), n_jobs=2), counts)
    many = truth[:, LEFT_OUT] > 0.1 * size
    return {
        "power": int((found.p_values[many] <= 0.05).sum()),
        "n_power": int(many.sum()),
        "cohort_power": found.cohort_p_value <= 0.05,
    }


_PEER = """
import sys
from SigProfilerAssignment import Analyzer
if __name__ == "__main__":
    Analyzer.cosmic_fit(samples=sys.argv[1], output=sys.argv[3], signature_database=sys.argv[2], make_plots=False,
                        export_probabilities=False, cpu=1, add_background_signatures=False)
"""


def sigprofiler(parts: Floats, size: int, piece: int, world: str = "prior", *, python: str) -> dict[str, Any]:
    """SigProfilerAssignment without its background signatures, in a Python that has it."""
    truth, counts = samples(parts, size, piece, world=world)
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
        start, cpu = time.perf_counter(), _children_seconds()
        subprocess.run(
            [python, "run.py", "samples.txt", "parts.txt", "out"], cwd=folder, check=True, capture_output=True
        )
        seconds, cpu_seconds = time.perf_counter() - start, _children_seconds() - cpu
        (table,) = Path(folder, "out").rglob("Assignment_Solution_Activities.txt")
        head, *lines = [line.split("\t") for line in table.read_text().splitlines()]
    found = np.zeros_like(truth)
    for line in lines:
        for name, value in zip(head[1:], line[1:], strict=True):
            found[int(line[0][1:]), names.index(name)] = float(value)
    measured = {"seconds": seconds, "cpu_seconds": cpu_seconds}
    return {**scores(truth, found, found > 0, float(counts.sum())), **measured}


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(world: str, name: str, function: Any, n_parts: int, pieces: range) -> None:
    """Do what is not in the file of results yet."""
    done = {
        (line.get("world", "prior"), line["method"], line["n_parts"], line["size"], line["piece"]) for line in results()
    }
    for piece in pieces:
        for size in SIZES:
            if (world, name, n_parts, size, piece) not in done:
                line = {"world": world, "method": name, "n_parts": n_parts, "size": size, "piece": piece}
                line |= function(catalogue(seed=WORLDS[world][0])[:n_parts], size, piece, world)
                RESULTS.parent.mkdir(exist_ok=True)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def results() -> list[dict[str, Any]]:
    """All lines of the file of results."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def table() -> str:
    """The tables of the docs, in Markdown."""
    return f"{_presence_table()}\n\n{_alarm_table()}"


def _presence_table() -> str:
    heads = ["samples", "counts", "F1", "F1, SPA", "counts on absent parts", "the same, SPA"]
    heads += ["coverage, all parts", "coverage, present parts above 50 counts"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for world in WORLDS:
        for n_parts in (8, N_PARTS):
            for size in SIZES:
                own, peer = (_lines(world, name, n_parts, size) for name in _METHODS[:2])
                if own:
                    cells = [f"{world}, {n_parts} parts", f"{size:,}", _f1(own), _f1(peer)]
                    cells += [f"{_mean(own, 'absent'):.2%}", f"{_mean(peer, 'absent'):.2%}" if peer else ""]
                    cells += [f"{_mean(own, 'covered'):.1%}"]
                    cells += [f"{_share(own, 'covered_large', 'n_large'):.1%}"]
                    rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _alarm_table() -> str:
    heads = ["samples", "counts", "false alarms", "false alarms of the cohort", "power", "power of the cohort"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for world in WORLDS:
        for size in SIZES:
            rung, strong = (_lines(world, name, N_PARTS, size) for name in _METHODS[2:])
            if rung:
                number = PIECE * len(rung)
                rate = sum(line["false"] for line in rung) / number
                cells = [world, f"{size:,}", f"{rate:.1%} ± {np.sqrt(rate * (1 - rate) / number):.1%} of {number:,}"]
                cells += [f"{sum(line['cohort_false'] for line in rung)} of {len(rung)}"]
                if strong:
                    cells += [f"{_share(strong, 'power', 'n_power'):.0%} of {sum(line['n_power'] for line in strong)}"]
                    cells += [f"{sum(line['cohort_power'] for line in strong)} of {len(strong)}"]
                rows.append(f"| {' | '.join(cells + [''] * (len(heads) - len(cells)))} |")
    return "\n".join(rows)


def _lines(world: str, method: str, n_parts: int, size: int) -> list[dict[str, Any]]:
    wanted = (world, method, n_parts, size)
    return [
        line
        for line in results()
        if (line.get("world", "prior"), line["method"], line["n_parts"], line["size"]) == wanted
    ]


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
    parser.add_argument("--table", action="store_true", help="print the tables of the docs")
    parser.add_argument("--sigprofiler", metavar="PYTHON", help="a Python that has SigProfilerAssignment")
    parser.add_argument("--only", choices=_METHODS, help="run this alone")
    parser.add_argument("--worlds", nargs="*", choices=WORLDS, default=list(WORLDS), help="which samples; default: all")
    given = parser.parse_args()
    if given.table:
        print(table())
        return
    methods: dict[str, Any] = {
        "presence": (ours, range(2)),
        "alarm": (alarm, ALARM_PIECES),
        "power": (power, POWER_PIECES),
    }
    if given.sigprofiler:
        methods["sigprofiler"] = (partial(sigprofiler, python=given.sigprofiler), range(2))
    for world in given.worlds:
        for name, (function, pieces) in methods.items():
            # Noise beyond Poisson rings the alarm, as it should.
            if given.only in (None, name) and not (world == "over-dispersed" and name in ("alarm", "power")):
                run(world, name, function, N_PARTS, pieces)
        if given.only in (None, "presence") and world == "prior":
            run(world, "presence", ours, 8, range(2))


if __name__ == "__main__":
    main()
