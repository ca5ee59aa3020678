"""``partwise compare``: score models and their number of parts on one scale."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from partwise._registry import compared_names
from partwise.cli.files import check_outputs
from partwise.cli.options import DataFile, EngineArguments, RunArguments, Seed, option, to_write
from partwise.cli.output import Outcome, fail, refuse_if
from partwise.cli.reading import ReadArguments

if TYPE_CHECKING:
    from partwise.selection import Comparison

EXAMPLES = (
    "partwise compare counts.npz --ranks 1-5 --models poisson,allocation -o comparison --save best.partwise",
    "partwise compare counts.npz --ranks 2,4 --models poisson --model poisson --rank 4 --save four.partwise",
    "partwise compare counts.npz --models poisson,negative-binomial --rule best --time-budget 1m",
    "partwise compare counts.npz --models poisson,gamma-poisson --ranks 2,4 --metric ndcg@20",
    "partwise compare counts.npz --ranks 1-5 --models poisson -o on_workers --engine dask --threads 2",
)

# A longer range is almost certainly a typing error.
_MOST_RANKS = 1000


def _name_lists(incomplete: str) -> list[str]:
    """Complete the last name of a comma-separated list."""
    before, comma, _ = incomplete.rpartition(",")
    return [before + comma + name for name in compared_names() if name not in before.split(",")]


@dataclass(frozen=True)
class CandidateArguments:
    """What is compared."""

    models: str | None = option(
        "Models to compare, such as poisson,allocation; by default all that suit the data.",
        metavar="NAME,...",
        autocompletion=_name_lists,
    )
    ranks: str | None = option("Each number of parts to try: 1-8 or 5,10; default 1, 2, 4, ...", metavar="K,K-K,...")
    n_restarts: int = option("How many times to fit each candidate that is not ruled out.", 3, "--restarts", min=1)
    kind: Literal["counts", "bits"] | None = option("Kind of data; by default bits (yes/no) if all are 0 or 1.")
    rule: Literal["best", "simple", "stable"] = option(
        "Recommend the best prediction, the fewest parts that do as well, or the most parts that restarts agree on.",
        "simple",
    )
    metric: str | None = option(
        "Score lists of N features, and compare with popularity: ndcg@20, precision@20, recall@20.", metavar="NAME@N"
    )
    effort: Literal["quick", "full"] = option("quick skips candidates that cannot win; full fits all.", "quick")
    max_fits: int | None = option("Stop after this many fits.", None, "--fits", min=1)
    max_seconds: str | None = option(
        "Start no fit that would end after this time, such as 5m or 1h.", None, "--time-budget", metavar="TIME"
    )

    def parameters(self) -> dict[str, Any]:
        """Arguments for `partwise.selection.compare`."""
        parse: dict[str, Callable[[str], Any]] = {"ranks": _parsed_ranks, "max_seconds": _parsed_time}
        parse["models"] = lambda names: [name.strip() for name in names.split(",")]
        given = vars(self)
        return given | {name: parse[name](given[name]) for name in parse if given[name] is not None}


@dataclass(frozen=True)
class ResultArguments:
    """What a comparison writes, and which model and number of parts to use instead of the recommended ones."""

    save: Path | None = option("Fit the recommended model to all data, and write it to this file.", metavar="MODEL")
    table: Path | None = option("Write all candidates to .csv, .tsv or .parquet.")
    plot: Path | None = option("Draw scores against the number of parts: .png, .pdf or .svg.", metavar="PICTURE")
    model: str | None = option("Use this model instead of the recommended one.", autocompletion=compared_names)
    rank: int | None = option("Use this number of parts instead of the recommended one.", metavar="K", min=1)

    def check(self, data: Path) -> None:
        """Refuse files that cannot be written."""
        files = {"--save": self.save, "--table": self.table, "--plot": self.plot}
        check_outputs(files, [data], tables=["--table"], pictures=["--plot"])

    def write(self, found: Comparison, X: Any, **running: Any) -> list[Path]:
        """Write the table, the picture and the model that were asked for."""
        if self.table is not None:
            from partwise.cli.comparison import write_candidates

            write_candidates(self.table, found)
        if self.plot is not None:
            from partwise.plotting import plot_rank_selection, save_figure

            label = found.scale if found.metric else f"held-out log-likelihood, {found.scale}"
            axes: Any = plot_rank_selection(found, ylabel=label)
            save_figure(axes.figure, self.plot)
        if self.save is not None:
            found.fit_best(X, **running).save(self.save)
        return [path for path in (self.table, self.plot, self.save) if path is not None]


def command(
    data: DataFile,
    *,
    output: Path | None = to_write("Folder for fits.csv, one line per fit; the same command continues there.", "DIR"),
    candidates: CandidateArguments,
    results: ResultArguments,
    engine: EngineArguments,
    seed: Seed = 0,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Recommend a model and the number of parts.

    Fits each candidate to most of the tokens or cells, and scores it on the rest. Recommends one, and says how sure
    you can be of the choice. Ctrl-C or `--time-budget` gives the best answer so far. With `--threads 4`, four fits run
    at the same time; with `--engine dask` they run on workers. `partwise report` shows the model that `--save` wrote.
    """
    from partwise.cli.comparison import comparison_facts, comparison_lines, next_commands
    from partwise.selection import compare

    results.check(data)
    running: dict[str, Any] = {"n_jobs": run.threads, "engine": engine.chosen(), "progress": run.progress}
    wanted = candidates.parameters()
    X = reading.read(data)
    start = time.perf_counter()
    try:
        found = compare(X, **wanted, **running, random_state=seed, output=output)
    except KeyboardInterrupt:
        remedy = f"the same command continues from {output}" if output else "give -o DIR to keep finished fits"
        fail(f"interrupted: {remedy}.")
    seconds = time.perf_counter() - start
    if results.model is not None or results.rank is not None:
        found = found.choose(results.model, results.rank)
    written = results.write(found, X, **running)
    facts = {"data": data, **comparison_facts(found), "seconds": seconds, "written": written}
    advice = [f"  {line}" for line in next_commands(found, data, reading, results.save)]
    heading = [f"{found.n_fits} fits in {seconds:.0f} s. Next:"]
    if found.stopped:
        kept = f"continues from {output}" if output else "starts from the beginning; give -o DIR to keep fits"
        again = f"The same command with --fits {found.n_fits} repeats this result; without a limit it {kept}."
        heading = [again, *heading]
    return Outcome(facts, comparison_lines(found), written, [*heading, *advice])


def _parsed_time(text: str) -> float:
    """Seconds of ``"90s"``, ``"5m"``, ``"1.5h"`` or ``"90"``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    refuse_if(not seconds > 0, "--time-budget", f"{text!r} is not a time: write it as 90s, 5m or 1h.")
    return seconds


def _parsed_ranks(text: str) -> list[int]:
    """``"1-3,8"`` is 1, 2, 3 and 8."""
    ranks: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"([1-9]\d*)(?:-([1-9]\d*))?", part.strip())
        refuse_if(not found, "--ranks", f"{part!r} is neither a number of parts nor a range such as 2-8.")
        first, last = (int(number or found[1]) for number in found.groups()) if found else (1, 1)
        why = "goes down" if last < first else f"has more than {_MOST_RANKS} numbers"
        refuse_if(not first <= last < first + _MOST_RANKS, "--ranks", f"the range {part.strip()} {why}.")
        ranks += range(first, last + 1)
    return ranks
