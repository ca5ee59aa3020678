"""Tables, as Markdown to read."""

from __future__ import annotations

from typing import Any

from benchmarks.harness.environment import BUSY
from benchmarks.harness.line import Line

_HEAD = ("measured", "data", "threads", "partwise", "peer", "ratio (least, most)", "goal", "reached", "remark")
_HOW = (
    "Every figure is the median of the repeats, and every ratio the median of the ratios of pairs of measurements taken"
    " one after the other, with the least and the most of them. One thread each unless said."
)


def markdown(results: list[dict[str, Any]]) -> str:
    """The whole table; one section for each benchmark."""
    sections = [f"## {result['title']}\n\n{section(result)}" for result in results]
    return "\n".join([f"{machine(results)}\n\n{_HOW}\n", *sections])


def machine(results: list[dict[str, Any]]) -> str:
    """Machine and versions of all results in one paragraph. Where they differ, all are named."""
    found: dict[str, list[str]] = {}
    for environment in (result["environment"] for result in results):
        memory = f"{environment['memory_gb']} GB"
        facts = {"Processor": environment["processor"], "Cores": str(environment["cores"]), "Memory": memory}
        facts |= {"System": environment["system"], "Python": environment["python"]}
        for name, value in (facts | environment["versions"]).items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    words = [f"{name}{':' if name[0].isupper() else ''} {' or '.join(values)}" for name, values in found.items()]
    return f"{'. '.join(words[:5])}. Packages: {', '.join(words[5:])}."


def section(result: dict[str, Any]) -> str:
    """The lines of a benchmark, and the command, day and load behind them."""
    parts = []
    if result["lines"]:
        parts += ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
        parts += ["| " + " | ".join(_cells(Line.from_json(line))) + " |" for line in result["lines"]]
        parts.append("")
    if result["failed"]:
        parts += ["**Ended with an error**; the lines that were measured before it are above.", ""]
    parts.append("\n\n".join(_footer(result["name"], *run) for run in _runs(result)))
    return "\n".join(parts) + "\n"


def _runs(result: dict[str, Any]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Runs behind a table, the latest last, each with the lines that it measured."""
    found: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for line in [line for line in result["lines"] if line["ours"]] or [{}]:
        run = line.get("run", result)
        found.setdefault(run["environment"]["date"], (run, []))[1].append(line)
    return [found[date] for date in sorted(found)]


def _footer(name: str, run: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    environment, others, only = run["environment"], run["others_cores"], run.get("only")
    busy = "" if others is None else f" Others used {others:.2f} cores meanwhile."
    if _busy(run, lines):
        busy += " **Measured under load:** not a final table."
    return (
        f"`python -m benchmarks {name} --repeats {environment['repeats']}{f' --only {only!r}' if only else ''}`,"
        f" {environment['date']}, commit {environment['commit']}, {run['seconds']:.0f} s.{busy}"
    )


def under_load(result: dict[str, Any]) -> bool:
    """Whether others used more cores than the threads that were measured left to them, in any of its runs."""
    return any(_busy(*run) for run in _runs(result))


def _busy(run: dict[str, Any], lines: list[dict[str, Any]]) -> bool:
    threads = max((int(line["threads"].split()[0]) for line in lines if line.get("threads")), default=0)
    return threads > 0 and (run["others_cores"] or 0.0) + threads > run["environment"]["cores"] + BUSY


def _cells(line: Line) -> list[str]:
    ratios = line.ratios
    ratio = "" if ratios is None else f"{line.ratio:.3g} ({min(ratios):.3g}, {max(ratios):.3g})"
    peer = "" if line.peer is None else f"{line.peer} ({line.peer_name})"
    reached = {None: "", True: "yes", False: "**no**"}[line.reached]
    ours = "" if line.ours is None else str(line.ours)
    goal = "" if line.goal is None else str(line.goal)
    cells = [line.what, line.data, line.threads, ours, peer, ratio, goal, reached, line.note]
    return [cell.replace("|", "\\|") for cell in cells]
