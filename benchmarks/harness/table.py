"""The table, as Markdown to read and as JSON to work with."""

from __future__ import annotations

from typing import Any

from benchmarks.harness.environment import BUSY
from benchmarks.harness.line import Line

_HEAD = ("measured", "data", "threads", "partwise", "peer", "ratio (least, most)", "goal", "reached", "remark")


def markdown(environment: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The whole table; one section for each benchmark."""
    parts = _header(environment, results)
    for result in results:
        parts += ["", f"## {result['title']}", ""]
        if result["lines"]:
            parts += ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
            parts += ["| " + " | ".join(_cells(Line.from_json(line))) + " |" for line in result["lines"]]
        if result["failed"]:
            parts += ["", "**Ended with an error**; the lines that were measured before it are above."]
        others = result["others_cores"]
        busy = "" if others is None else f" Others used {others:.2f} cores meanwhile."
        parts += ["", f"`python -m benchmarks {result['name']}`, {result['seconds']:.0f} s.{busy}"]
    return "\n".join(parts) + "\n"


def _header(environment: dict[str, Any], results: list[dict[str, Any]]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    lines = [
        f"Measured {environment['date']}, commit {environment['commit']}.",
        f"{environment['processor']}, {environment['cores']} cores, {environment['memory_gb']} GB,"
        f" {environment['system']}. Python {environment['python']}, {versions}.",
        f"Repeats: {environment['repeats']}. Every figure is the median of the repeats, and every ratio the median of"
        " the ratios of pairs of measurements taken one after the other, with the least and the most of them. One"
        " thread each unless said.",
    ]
    busiest = max((result["others_cores"] or 0.0 for result in results), default=0.0)
    if busiest > BUSY:
        lines.append(f"**Measured under load:** other processes used up to {busiest:.2f} cores; not a final table.")
    return [line for text in lines for line in (text, "")][:-1]


def _cells(line: Line) -> list[str]:
    ratios = line.ratios
    ratio = "" if ratios is None else f"{line.ratio:.3g} ({min(ratios):.3g}, {max(ratios):.3g})"
    peer = "" if line.peer is None else f"{line.peer} ({line.peer_name})"
    reached = {None: "", True: "yes", False: "**no**"}[line.reached]
    ours = "" if line.ours is None else str(line.ours)
    goal = "" if line.goal is None else str(line.goal)
    cells = [line.what, line.data, line.threads, ours, peer, ratio, goal, reached, line.note]
    return [cell.replace("|", "\\|") for cell in cells]
