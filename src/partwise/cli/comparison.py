"""A comparison in lines, in JSON and in a table, and the commands to run next."""

from __future__ import annotations

import dataclasses
import inspect
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.cli.models import OPTIONS, fixed_settings, option_name
from partwise.cli.output import aligned, in_options

if TYPE_CHECKING:
    from partwise.cli.reading import ReadArguments
    from partwise.selection import Comparison, Row


# Columns after the score, and what they mean.
_COLUMNS = {
    "worse by": "difference from the best candidate, same unit, ± its standard error (rows are paired); - for the best",
    "stability": "mean cosine of the parts of different restarts, 1 = the same parts; - without restarts",
    "active": "parts that explain a noticeable share of the data",
    "by itself": "number of parts that the model would choose by its own criterion (in brackets)",
    "new rows": "log-likelihood per {unit}, in nats, of rows left out of the fit: half of a row, given its other half",
    "marginal": "log-likelihood per {unit}, in nats, of new rows, activations integrated out",
    "coherence": "how often the top features of a part occur together, from -1 to 1 (NPMI)",
    "diversity": "share of different features among the top features of all parts",
    "seconds": "time of all fits of this candidate",
}


def comparison_lines(found: Comparison) -> list[str]:
    """Each model at its best, the best one first, with a legend; what each rule recommends; the sentence and notes."""
    table = found.table()
    rows = {(row.model, row.rank): row for row in table}
    lines = []
    for name in sorted(found.models, key=lambda name: rows[found.standings.best_of(name)].behind):
        best = found.standings.best_of(name)
        shown = [best, found.choice] if found.choice.model == name and found.choice in rows else [best]
        for choice in dict.fromkeys(shown):
            row, own = rows[choice], found.own_rank(name)
            new = found.new_rows.get(name) if choice == best else None
            said = "-" if own is None else f"{own[0]} ({own[1]})"
            fresh = ["-", "-"] if new is None else [_number(new.completion, 4), _number(new.likelihood, 4)]
            numbers = _number(row.coherence, 2), _number(row.diversity, 2), f"{row.seconds:.1f}"
            lines.append([*_scores(row), _number(row.stability, 2), f"{row.n_active:g}", said, *fresh, *numbers])
    if found.metric is None:
        score, kind = f"held-out log-likelihood per {found.unit}", "counts" if found.unit == "token" else "cells"
        meaning = f"of held-out {kind}, in nats (natural logarithms), ± its standard error"
    else:
        score, meaning = found.scale, "of lists of held-out features, ± its standard error"
        lines.append([*_scores(table[-1]), *["-"] * (len(_COLUMNS) - 1)])
    legend = {"model": "", "parts": "", score: f"{meaning}; higher is better", **_COLUMNS}
    shown_columns = [place for place in range(len(legend)) if any(line[place] != "-" for line in lines)]
    cells = [list(legend), *lines]
    text = ["Each model at its best number of parts, the best model first:", ""]
    text += aligned([[line[place] for place in shown_columns] for line in cells])
    told = [(name, legend[name]) for name in (cells[0][place] for place in shown_columns) if legend[name]]
    text += ["", *(f"  {name}: {note.format(unit=found.unit)}" for name, note in told)]
    text += [f"left out: {name}: {in_options(why, {'models': '--models'})}" for name, why in found.left_out.items()]
    best, simple, stable = (found.answers[rule] for rule in ("best", "simple", "stable"))
    agreed = "No candidate has parts known to be stable"
    if found.is_stable(stable):
        agreed = f"Most parts that restarts agree on: {stable}"
    text += ["", f"Best prediction: {best}. Fewest parts that do as well: {simple}. {agreed}."]
    return [*text, "", found.sentence, *found.notes]


def _scores(row: Row) -> list[str]:
    """Model, number of parts, score, and difference to the best score."""
    behind = f"{row.behind:.4f} ± {row.behind_std_error:.4f}" if row.behind or row.behind_std_error else "-"
    return [row.model, str(row.rank or "-"), f"{row.score:.4f} ± {row.std_error:.4f}", behind]


def comparison_facts(found: Comparison) -> dict[str, Any]:
    """The same facts for JSON, with all candidates."""
    told = "unit", "scale", "sentence", "notes", "untried", "rule", "n_fits", "stopped"
    sure = "confidence", "rank_share", "model_share"
    return {
        **{name: getattr(found, name) for name in (*told, *sure)},
        "recommended": found.recommended._asdict(),
        "choice": found.choice._asdict(),
        "answers": {rule: choice._asdict() for rule, choice in found.answers.items()},
        "noise": None if found.noise is None else dataclasses.asdict(found.noise),
        "indistinguishable": [rival._asdict() for rival in found.indistinguishable()],
        "own_ranks": {name: found.own_rank(name) for name in found.models},
        "new_rows": {name: _numbers(new) for name, new in found.new_rows.items()},
        "left_out": dict(found.left_out),
        "candidates": [dataclasses.asdict(row) for row in found.table()],
    }


def _numbers(record: Any) -> dict[str, Any]:
    """Fields of a record, without arrays."""
    return {name: value for name, value in dataclasses.asdict(record).items() if name != "rows"}


def write_candidates(path: Path, found: Comparison) -> None:
    """All candidates as a table, one line per candidate."""
    from partwise.io import write_columns

    rows = [dataclasses.asdict(row) for row in found.table()]
    write_columns(path, {name: [row[name] for row in rows] for name in rows[0]})


def _number(value: float, digits: int) -> str:
    return "-" if value != value else f"{value:.{digits}f}"


def next_commands(found: Comparison, data: Path, reading: ReadArguments, saved: Path | None) -> list[str]:
    """Commands to run next: a further comparison, a fit of the choice or a report, a model that has parts.

    Parameters
    ----------
    found
        The comparison, whose choice is fitted.
    data
        The file that it read.
    reading
        How it was read.
    saved
        The model file that was written, if one was.
    """
    source = [str(data), *reading.words()]
    commands = []
    if found.untried:
        ranks = ",".join(str(rank) for rank in found.untried)
        further = ["--models", found.choice.model, "--ranks", ranks, "--seed", str(found.seed)]
        commands.append(["compare", *source, *further])
    if saved is None:
        commands.append(["fit", *source, "-o", _model_file(data), *_fit_words(found)])
    else:
        commands.append(["report", str(saved), *source, "-o", f"{saved.stem}.html"])
    if found.instead is not None:
        commands.append(["fit", *source, "-o", _model_file(data), *_fit_words(found.choose(*found.instead))])
    return [shlex.join(["partwise", *words]) for words in commands]


def _fit_words(found: Comparison) -> list[str]:
    """Options of the `partwise fit` that gives the same model as `partwise compare --save`."""
    model, rank = found.choice
    words = ["--model", model, "-k", str(rank), "--seed", str(found.fit_seed)]
    estimator = found.estimator()
    defaults = {name: parameter.default for name, parameter in inspect.signature(type(estimator)).parameters.items()}
    usual = {**defaults, **fixed_settings(model)}
    for name, value in estimator.get_params(deep=False).items():
        if name not in ("n_components", "random_state") and value != usual[name]:
            text = value if isinstance(value, str) else json.dumps(value)
            words += [option_name(name), text] if name in OPTIONS else ["--set", f"{name}={text}"]
    return words


def _model_file(data: Path) -> str:
    """``counts.csv.gz`` gives ``counts.partwise``, in the current folder."""
    return str(Path(data.name.lstrip(".").partition(".")[0] or "model").with_suffix(".partwise"))
