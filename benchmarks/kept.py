"""``python -m benchmarks.kept``: write the tables, the picture and the lines of the README from the kept results.

``python -m benchmarks --keep`` writes ``results/NAME.json``; everything else here is made from those files alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks import defaults_counts
from benchmarks.harness.line import Line, Sample
from benchmarks.harness.processes import ROOT
from benchmarks.harness.table import machine, section, under_load
from benchmarks.suite import available

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "images" / "benchmarks.svg"
README = ROOT / "README.md"
DEFAULTS = RESULTS / "defaults_binary.json"
# The lines of the README, lost ones included: benchmark, beginnings of what was measured, data and peer; in words.
CHOSEN = (
    (
        "allocation_race",
        "seconds to the perplexity of 200 iterations, K = 100",
        "newsgroups20",
        "tomotopy",
        "LDA (`AllocationNMF`) on 18,048 newsgroup posts, 100 topics: CPU seconds to the same perplexity",
    ),
    (
        "allocation_many",
        "seconds to the perplexity of 200 iterations, K = 1000",
        "newsgroups20",
        "tomotopy",
        "the same with 1,000 topics",
    ),
    (
        "allocation_threads",
        "seconds to the perplexity of 200 iterations, K = 100",
        "newsgroups20",
        "tomotopy",
        "the same with 100 topics on two threads: seconds",
    ),
    (
        "poisson_target",
        "seconds to the target, K = 50",
        "nips",
        "scikit",
        "`PoissonNMF`: time to the likelihood that scikit-learn reaches",
    ),
    (
        "allocation_peers",
        "vb, 10 updates, K = 20: held",
        "ap",
        "gensim",
        "`AllocationNMF` (LDA), `vb`, 10 updates: perplexity of new documents",
    ),
    ("allocation_peers", "vb, 10 updates, K = 20: proc", "ap", "gensim", "the same: CPU time"),
    (
        "new_rows",
        "new rows per second, K = 100, whole",
        "newsgroups20",
        "scikit",
        "`AllocationNMF`: new posts per CPU second, 100 topics (higher is better)",
    ),
    ("new_rows", "new rows per second, K = 100, whole", "newsgroups20", "tomotopy", "the same"),
    (
        "allocation_curve",
        "gibbs: held-out perplexity after 100",
        "ap",
        "tomotopy",
        "`AllocationNMF`, `gibbs`: perplexity of new documents after equal time",
    ),
    (
        "allocation_tokens",
        "one sweep, gibbs-partial, K = 100",
        "nips",
        "tomotopy",
        "`AllocationNMF`, `gibbs-partial`: one sweep on two threads",
    ),
    (
        "gamma_poisson_peers",
        "vem (variational EM), K = 20: perp",
        "ap",
        "hpfrec",
        "`GammaPoissonNMF`: held-out counts, exp of the negative log-likelihood per token",
    ),
    ("gamma_poisson_peers", "vem (variational EM), K = 20: proc", "ap", "hpfrec", "the same: CPU time"),
    (
        "likelihood_error",
        "error of log p",
        "nips100",
        "left",
        "log-likelihood of an unseen document: error after equal time",
    ),
)
# What each row of the picture compares, and the packages that it compares with.
COMPARED = {
    "allocation_curve": "LDA, perplexity at equal time",
    "allocation_heldout": "LDA, perplexity after 400 sweeps",
    "allocation_many": "LDA, 1,000 topics: time, memory",
    "allocation_peers": "LDA, time and perplexity",
    "allocation_race": "LDA, time to the same perplexity",
    "allocation_threads": "LDA, the same on two threads",
    "allocation_tokens": "LDA, time of a sweep",
    "batches_peers": "cells in batches",
    "binary_held_out": "binary, log-loss of held-out cells",
    "binary_nbmf_mm": "binary, time to the same likelihood",
    "gamma_poisson_peers": "gamma-Poisson, time and prediction",
    "gamma_poisson_sweep": "gamma-Poisson, time of a sweep",
    "new_rows": "LDA, new rows per second",
    "poisson_iteration": "Poisson NMF, time of an iteration",
    "poisson_target": "Poisson NMF, time to the same likelihood",
    "recommend": "lists, NDCG@20 and time",
}
PACKAGES = ("tomotopy", "scikit-learn", "gensim", "lda", "cNMF", "nbmf-mm", "hpfrec", "poismf", "implicit", "cmfrec")
COSTS = ("ns", "ms", "s", "CPU s", "rows/s", "MB")
_HEAD = "| | data | partwise | other tool | partwise is | measured by |\n|---|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Point:
    """A line in the picture: how many times better, whether in time or memory, and whether measured under load."""

    advantage: float
    cost: bool
    loaded: bool


def load() -> list[dict[str, Any]]:
    """Results that are kept, in the order of the suite."""
    files = [RESULTS / f"{name}.json" for name in available()]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def keep(result: dict[str, Any]) -> None:
    """Keep a result, in the place of an earlier one, or only of those of its lines that were measured again."""
    file = RESULTS / f"{result['name']}.json"
    run = {name: result[name] for name in ("environment", "seconds", "others_cores", "only")}
    lines = [line | {"run": run} for line in result["lines"]]
    if result["only"] and file.exists():
        before = json.loads(file.read_text())
        earlier = {"only": "", **{name: before[name] for name in ("environment", "seconds", "others_cores")}}
        lines = _merged([{"run": earlier} | line for line in before["lines"]], lines)
    result = result | {"lines": lines, "failed": False if result["only"] else result["failed"]}
    (RESULTS / f"{result['name']}.json").write_text(json.dumps(result, indent=1) + "\n")


def _merged(before: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Earlier lines, each replaced by what was measured in its place; a line without a figure has no peer yet."""
    found: list[dict[str, Any]] = []
    for old in before:
        names = ("what", "data", "threads", "peer_name") if old["ours"] else ("what", "data", "threads")
        same = [line for line in fresh if all(line[name] == old[name] for name in names)]
        found += [line for line in same if line not in found] or ([] if same else [old])
    return found + [line for line in fresh if line not in found]


def pages(results: list[dict[str, Any]]) -> dict[Path, str]:
    """Texts that are made from results, and where they stand."""
    texts = {RESULTS / f"{result['name']}.md": section(result) for result in results}
    texts[RESULTS / "machine.md"] = machine(results) + "\n"
    for question in ("documents", "tokens"):
        scores = RESULTS / f"defaults_{question}.json"
        texts[scores.with_suffix(".md")] = defaults_counts.report(question, json.loads(scores.read_text()))
    table = f"<!-- benchmarks -->\n{_HEAD}" + "".join(_chosen(results)) + "<!-- end of benchmarks -->"
    texts[README] = re.sub(
        r"<!-- benchmarks -->.*<!-- end of benchmarks -->", lambda _: table, README.read_text(), flags=re.DOTALL
    )
    return texts


def _chosen(results: list[dict[str, Any]]) -> list[str]:
    by_name = {result["name"]: result for result in results}
    rows = []
    for name, what, data, peer, words in CHOSEN:
        if name not in by_name:
            continue
        lines = [Line.from_json(stored) for stored in by_name[name]["lines"]]
        # Of several the last: that of the longest time.
        *_, line = (
            line
            for line in lines
            if re.match(rf"{re.escape(what)}(?!\d)", line.what)  # K = 100 is not K = 1000
            and line.data.startswith(data)
            and line.peer_name.startswith(peer)
        )
        rows.append(
            f"| {words} | {line.data} | {figure(line.ours)} | {figure(line.peer)} ({line.peer_name}) |"
            f" {in_words(advantage(line), time=line.ours is not None and line.ours.unit in ('s', 'ms', 'rows/s'))} |"
            f" `python -m benchmarks {name}` |\n"
        )
    return [*rows, _bits()]


def _bits() -> str:
    """The line of BinaryNMF: log-loss of its defaults and of nbmf-mm, means over all tables."""
    found = json.loads(DEFAULTS.read_text())
    ours, peer = (
        fmean(fmean(loss for loss, _ in table[method].values()) for table in found.values())
        for method in ("BinaryNMF", "nbmf-mm")
    )
    return (
        f"| `BinaryNMF`: log-loss per held-out cell | mean of {len(found)} tables | {ours:.3f} | {peer:.3f} (nbmf-mm) |"
        f" {in_words(peer / ours)} | `python -m benchmarks.defaults_binary` |\n"
    )


def figure(sample: Sample | None) -> str:
    """A median with three digits and its unit; thousands have a comma."""
    if sample is None or sample.median is None:
        return str(sample)
    return f"{float(f'{sample.median:.3g}'):,g} {sample.unit}".strip()


def in_words(times: float, time: bool = False) -> str:
    """An advantage in words, of a time or of an error: '48 times as fast', '7% better', '43% slower'."""
    better, worse = ("faster", "slower") if time else ("better", "worse")
    if times >= 1.5:
        return f"{float(f'{times:.2g}'):g} times as fast" if time else f"{times:.0f} times more accurate"
    share = 1 - 1 / times if times >= 1 and not time else times - 1 if times >= 1 else 1 / times - 1
    return f"{share:.0%} {better if times >= 1 else worse}"


def advantage(line: Line) -> float:
    """How many times better than the peer: below 1 the line is lost."""
    if line.ratio is None:
        raise ValueError(f"{line.what} has no ratio.")
    # Of lists and of rows per second more is better: there ours over the peer's is the advantage itself.
    greater_is_better = any(word in line.what for word in ("NDCG", "recovery", "per second"))
    return line.ratio if line.peer_over_ours or greater_is_better else 1.0 / line.ratio


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw one row per benchmark and package, and one point per line: how many times better than the package."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows: dict[str, list[Point]] = {}
    for result in results:
        loaded = under_load(result)
        for line in map(Line.from_json, result["lines"]):
            # Comparisons with our own code are in the tables.
            if line.ours is not None and line.ratio is not None and line.peer_name.startswith(PACKAGES):
                peer = re.split("[ ,]", line.peer_name)[0]
                point = Point(advantage(line), line.ours.unit in COSTS, loaded)
                rows.setdefault(f"{COMPARED.get(result['name'], result['name'])}: {peer}", []).append(point)
    with matplotlib.rc_context({"svg.hashsalt": "partwise", "font.size": 8}):
        figure, axes = pyplot.subplots(figsize=(7.2, 0.25 * len(rows) + 1.1), layout="constrained")
        _points(axes, rows)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _points(axes: Axes, rows: dict[str, list[Point]]) -> None:
    for height, points in enumerate(rows.values()):
        for point in points:
            color = "#0072B2" if point.advantage >= 1 else "#D55E00"
            marker, fill = "o" if point.cost else "D", "none" if point.loaded else "full"
            axes.plot(point.advantage, height, marker, color=color, fillstyle=fill, markersize=5 if point.cost else 4)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", yticks=range(len(rows)), yticklabels=list(rows), ylim=(len(rows) - 0.5, -0.5))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(
        "partwise is better by this factor (orange: worse)\n"
        "circle: time or memory; diamond: accuracy\nhollow: measured on a busy machine"
    )
    axes.grid(axis="x", color="0.9")


def main() -> None:
    """Write everything."""
    results = load()
    for path, text in pages(results).items():
        path.write_text(text)
    draw(results, PICTURE)


if __name__ == "__main__":
    main()
