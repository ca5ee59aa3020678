"""Draws pictures of the papers from the results that are kept beside them.

``python docs/images/draw_papers.py`` draws docs/papers/*/*.png whose computation takes hours.
``python docs/images/draw_papers.py keep PAPER FOLDER`` keeps what these need of ``FOLDER/results.json``, which
``partwise reproduce PAPER --full -o FOLDER`` writes, finished or not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from partwise.plotting import save_figure

PAPERS = Path(__file__).parents[1] / "papers"
DIGITS = 6
# A palette makes files a third as large. Lines and text need no more colours.
_COLORS = 128
Steps = Mapping[str, Any]
# Iterations of Figures 2 and 3 of the GaP paper that are kept, evenly spaced on the logarithmic axis of their picture.
_ITERATIONS = 250


class Kept:
    """A notebook of kept steps, which collects the figures that an experiment draws from them."""

    quick = False

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.figures: dict[str, Any] = {}

    def step(self, name: str, *_: Any) -> Any:
        """The kept result of a step."""
        return self._steps[name]

    def figure(self, name: str, figure: Any) -> None:
        """Take a figure that is drawn."""
        self.figures[name] = figure

    def table(self, *_: Any) -> None:
        """Nothing: pages have the tables."""

    section = table


def keep_l2r(steps: Steps) -> dict[str, Any]:
    """Results by collection: divergence and error by draws, error by length, document completion, and Figure 3."""
    from partwise.reproduce.l2r._methods import FULL

    kept: dict[str, Any] = {"by_draws": {}, "lengths": {}, "by_length": {}, "completion": {}}
    for name in FULL.small:
        known = {step.removeprefix(f"{name}, "): value for step, value in steps.items() if step.startswith(f"{name}, ")}
        for step, value in known.items():
            kind, _, rest = step.partition(", ")
            if step.endswith(" times") and kind.endswith(" enumerable documents"):
                method, draws, _ = rest.rsplit(", ", 2)
                curve = kept["by_draws"].setdefault(name, {}).setdefault(method, {})
                curve[draws.removesuffix(" draws")] = {key: value[key] for key in ("divergence", "error")}
            elif step == "mean length of enumerable documents":
                kept["lengths"][name] = value
            elif kind.endswith(" documents of all lengths") and rest != "exact":
                lines = kept["by_length"].setdefault(name, {"n_draws": FULL.draws[1], "lengths": [], "errors": {}})
                if rest == "mean lengths":
                    lines["lengths"] = value
                else:
                    lines["errors"][rest.rpartition(", ")[0]] = value
            elif rest == "completion":
                kept["completion"][name] = value
    return {**kept, "figure3": _figure3(steps)}


def _figure3(steps: Steps) -> dict[str, Any]:
    """By collection: the reference, and totals by method and draws."""
    from partwise.reproduce.l2r._methods import FULL

    totals = {}
    for name in FULL.large:
        head = f"{name}, {FULL.large_documents} documents, all words, "
        known = {step.removeprefix(head): value for step, value in steps.items() if step.startswith(head)}
        if "auto" not in known:
            continue
        by_method: dict[str, Any] = {}
        for step, value in known.items():
            if step != "auto":
                method, draws, _ = step.rsplit(", ", 2)
                by_method.setdefault(method, {})[draws.removesuffix(" draws")] = value
        totals[name] = {"reference": known["auto"], "totals": by_method}
    return totals


def draw_l2r(kept: dict[str, Any]) -> dict[str, Any]:
    """Figures 1 to 3, error by length, and document completion."""
    from partwise.reproduce.l2r import _pictures
    from partwise.reproduce.l2r._methods import FULL

    curves = kept["by_draws"]
    return {
        "figure1": _pictures.left_to_right_beside_direct(curves, kept["lengths"], FULL.draws[-1]),
        "figure2": _pictures.curves_by_draws(curves, "divergence", "KL divergence"),
        "figure2_error": _pictures.curves_by_draws(curves, "error", "RMS error of log p (nats)"),
        "length": _pictures.errors_by_length(kept["by_length"]),
        "completion": _pictures.completion(kept["completion"]),
        "figure3": _pictures.totals_by_draws(kept["figure3"]),
    }


def keep_gap(steps: Steps) -> dict[str, Any]:
    """Steps of Figures 2 and 3, and the curves of Figure 4 by algorithm and seed.

    Column norms of Figure 4 are those of the first seed, which the picture shows.
    """
    from partwise.reproduce.gap import nips

    curves: dict[str, list[Any]] = {}
    for name in (*nips.PUBLISHED, *nips.OURS):
        for seed in range(5):
            head = f"figure 4: {name} {seed}"
            parts = [value for step, value in steps.items() if step == head or step.startswith(f"{head} to ")]
            if parts:
                curve = {key: [value for part in parts for value in part[key]] for key in parts[0]}
                if seed:
                    del curve["norms"]
                curves.setdefault(name, []).append(curve)
    scales = {step: _thinned(value) for step, value in steps.items() if step.startswith("scale ")}
    return {"figure4": curves, "figures2_and_3": scales}


def _thinned(fit: dict[str, Any]) -> dict[str, Any]:
    """A fit of Figures 2 and 3 with some of its iterations: those whose cost is known among them."""
    if "chosen" not in fit:
        return fit
    last = len(fit["seconds"])
    some = sorted({*fit["chosen"], *(round(last ** (at / _ITERATIONS)) - 1 for at in range(_ITERATIONS + 1))})
    short = {key: [fit[key][at] for at in some] for key in ("seconds", "norms")}
    return {**fit, **short, "chosen": [some.index(at) for at in fit["chosen"]]}


def draw_gap(kept: dict[str, Any]) -> dict[str, Any]:
    """Figure 4 and likelihoods against time; and Figures 2 and 3, if their steps are kept."""
    from partwise.reproduce.gap import nips, scales

    notebook, results = Kept(kept.get("figures2_and_3", {})), kept["figure4"]
    if kept.get("figures2_and_3"):
        scales.make(notebook)
    figures = {"figure4": nips.column_norms(results), "likelihood_against_time": nips.likelihoods(results)}
    return {**notebook.figures, **figures}


def keep_nbmf(steps: Steps) -> dict[str, Any]:
    """Of Figure 10 the scores, of Figure 11 the curves: by data set and method, one for each split.

    And the steps of the sensitivity to the concentration.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    curves: dict[str, dict[str, list[Any]]] = {}
    for step, value in steps.items():
        if step.startswith("fig10, "):
            for method, fit in value.items():
                scores.setdefault(step.split(", ")[2], {}).setdefault(method, []).append(fit["perplexity"])
        elif step.startswith("fig11, "):
            _, dataset, method, _ = step.split(", ")
            curves.setdefault(dataset, {}).setdefault(method, []).append(value)
    concentration = {step: value for step, value in steps.items() if step.startswith("concentration, ")}
    return {"figure10": scores, "figure11": curves, "concentration": concentration}


def draw_nbmf(kept: dict[str, Any]) -> dict[str, Any]:
    """Figure 11; and Figure 10 and the sensitivity to the concentration, if their scores are kept."""
    from partwise.reproduce.nbmf import concentration, convergence, prediction

    notebook = Kept(kept.get("concentration", {}))
    if kept.get("concentration"):
        concentration.make(notebook)
    pictures = {**notebook.figures, "figure11_convergence": convergence.picture(kept["figure11"])}
    if kept.get("figure10"):
        pictures["figure10_prediction"] = prediction.picture(kept["figure10"])
    return pictures


KEEP: dict[str, Callable[[Steps], dict[str, Any]]] = {"gap": keep_gap, "l2r": keep_l2r, "nbmf": keep_nbmf}
DRAW: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"gap": draw_gap, "l2r": draw_l2r, "nbmf": draw_nbmf}


def rounded(value: Any) -> Any:
    """The same with numbers of a few digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() else short
    return value


def keep(paper: str, folder: Path) -> None:
    """Keep what the pictures need of the results of a run, rounded; what the run does not have stays as it was."""
    kept = PAPERS / paper / "results.json"
    before = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    steps = json.loads((folder / "results.json").read_text("utf-8"))["steps"]
    found = rounded(KEEP[paper]({name: step["result"] for name, step in steps.items()}))
    found = {**found, **before, **{name: value for name, value in found.items() if value}}
    lines = [f"{json.dumps(name)}: {json.dumps(found[name], separators=(',', ':'))}" for name in found]
    kept.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def draw(paper: str, folder: Path) -> list[Path]:
    """Draw the pictures of a paper into a folder."""
    kept = json.loads((PAPERS / paper / "results.json").read_text("utf-8"))
    written = []
    for name, figure in DRAW[paper](kept).items():
        written.append(folder / f"{name}.png")
        save_figure(figure, written[-1])
        Image.open(written[-1]).convert("RGB").quantize(_COLORS).save(written[-1], optimize=True)
    return written


if __name__ == "__main__":
    if sys.argv[1:2] == ["keep"]:
        keep(sys.argv[2], Path(sys.argv[3]))
    for results in sorted(PAPERS.glob("*/results.json")):
        print(*draw(results.parent.name, results.parent), sep="\n")
