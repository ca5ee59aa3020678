"""``partwise fit``: fit a model to data and write it to a file."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise._registry import model_names
from partwise.cli.describe import consensus_facts, fit_line, model_facts, part_lines, write_presence
from partwise.cli.files import batch_argument, check_outputs, part_names, write_activations
from partwise.cli.models import build_estimator, find_model, fixed_settings, option_name, parsed, read_parts, refitted
from partwise.cli.options import Batch, DataFile, EngineArguments, RunArguments, Seed, option, to_write
from partwise.cli.output import Outcome, in_options, refuse_if, say
from partwise.cli.reading import Opened, ReadArguments, table_size

if TYPE_CHECKING:
    from partwise.restarts import Consensus

EXAMPLES = (
    "partwise fit counts.npz -o topics.partwise --components 10 --seed 1",
    "partwise fit counts.npz -o topics.partwise -k 10 --activations activations.csv --parts parts.csv",
    "partwise fit counts.npz -o topics.partwise -k 10 --checkpoint fit.checkpoint --resume",
    "partwise fit catalogue.tsv --transpose -o signatures.partwise -k 4 --batch batches.csv",
    "partwise fit counts.npz -o topics.partwise -k 10 --consensus --n-restarts 20",
    "partwise fit counts.npz -o topics.partwise -k 10 --engine dask --threads 2",
    "partwise fit catalogue.tsv --transpose -o refit.partwise --components-file signatures.tsv",
    "partwise fit catalogue.tsv --transpose -o refit.partwise --components-file signatures.tsv --presence "
    "--intervals intervals.csv",
)

_CHECKPOINT_SECONDS = 60.0
# File systems limit the length of a name, and the checkpoint adds a suffix to this one.
_LONGEST_NAME = 240


@dataclass(frozen=True)
class ModelArguments:
    """Which model is fitted, and how."""

    model: str = option(
        f"Which model to fit: {', '.join(sorted(model_names()))} (lda: topics, the same as allocation).",
        "poisson",
        autocompletion=lambda: list(model_names()),
    )
    components: int | None = option(
        "Number of parts; by default that of the model (poisson: 10).", None, "--components", "-k", metavar="K", min=1
    )
    inference: str | None = option("Algorithm of the model; for poisson: coordinate (fast) or multiplicative.")
    init: str | None = option("Starting point, for poisson: random or nndsvd.")
    max_iter: str | None = option(
        "Stop after this many iterations. For samplers only auto: stop when their chains agree.", metavar="N"
    )
    tol: float | None = option("Stop when an iteration gains less than this many nats per count (or cell).", min=0.0)
    settings: list[str] | None = option(
        "Any other parameter of the model (repeatable).", None, "--set", metavar="NAME=VALUE"
    )
    preset: str | None = option("Named settings: paper uses those of the model's paper.")
    components_file: Path | None = option(
        "Keep these parts and fit only activations: a table of features x parts, or a model file."
    )
    presence: bool = option("With --components-file: find out which parts are present in each sample.", False)
    allow: list[str] | None = option("With --presence: only this part may be present (repeatable).", metavar="PART")
    forbid: list[str] | None = option("With --presence: this part cannot be present (repeatable).", metavar="PART")
    always: list[str] | None = option("With --presence: this part is always present (repeatable).", metavar="PART")

    consensus: bool = option("Fit from many random starts and keep the parts that the fits agree on.", False)
    n_restarts: int | None = option("With --consensus: how many random starts; 50 by default.", min=2)
    max_samples: int | None = option("With --consensus: fit each restart to this many random samples.", min=2)

    def estimator(self, running: dict[str, Any]) -> Any:
        """Build the estimator. Further parameters say how it runs; None keeps the default."""
        cls, fixed = find_model(self.model), fixed_settings(self.model)
        own = {name: getattr(self, name) for name in ("inference", "init", "tol")}
        own["max_iter"] = None if self.max_iter is None else parsed(self.max_iter)
        options = {"n_components": self.components, **own, **running, **fixed}
        needs = {"presence": "components_file", "allow": "presence", "forbid": "presence", "always": "presence"}
        for name, needed in needs.items():
            lacking = getattr(self, name) and not getattr(self, needed)
            refuse_if(lacking, option_name(name), f"it needs {option_name(needed)}.")
        if self.components_file is not None:
            refuse_if(not cls.declares.given_parts, "--components-file", f"{cls.__name__} cannot take given parts.")
            for name in ("n_components", *own, "checkpoint"):
                why = "with --components-file there are no parts to fit: drop it."
                refuse_if(options[name] is not None, option_name(name), why)
        built = build_estimator(cls, options, self.settings or (), self.preset)
        fixed_sweeps = isinstance(own["max_iter"], int) and built.get_params().get("inference") in cls.declares.samplers
        why = "a sampler does burn_in + n_draws * thin sweeps: set these with --set, or pass --max-iter auto."
        refuse_if(fixed_sweeps, "--max-iter", why)
        return built

    def fitted(self, estimator: Any, table: Opened, given: dict[str, Any]) -> Any:
        """Fit the estimator to data (with further arguments of `fit`), or build it from the parts that were given."""
        if self.components_file is None:
            with warnings.catch_warnings():
                # Both are printed at the end: the first with the file's name, the second as the status of the model.
                warnings.filterwarnings("ignore", "Interrupted |Did not converge ")
                return estimator.fit(table, **given)
        refuse_if(given, "--batch", "with --components-file there is nothing to fit: drop it.")
        rules = {"presence": True, "allowed": self.allow, "forbidden": self.forbid or (), "always": self.always or ()}
        return refitted(estimator, read_parts(self.components_file), table, **(rules if self.presence else {}))


@dataclass(frozen=True)
class CheckpointArguments:
    """Whether, where and how often the fit is written to disk while it runs."""

    checkpoint: Path | None = option(
        "Write checkpoints to this file and keep it; by default MODEL.checkpoint, until the fit is done."
    )
    checkpoint_every: float = option("Time between checkpoints.", _CHECKPOINT_SECONDS, metavar="SECONDS", min=0.0)
    resume: bool = option(
        "Continue from the checkpoint, if there is one. The result is that of an uninterrupted fit.", False
    )

    def file(self, output: Path) -> Path:
        """The checkpoint that was named, or the one beside the model."""
        return self.checkpoint or output.with_name(f"{output.name[:_LONGEST_NAME]}.checkpoint")

    def parameters(self, output: Path) -> dict[str, Any]:
        """Arguments for the estimator."""
        from partwise import Checkpoint

        file = self.file(output)
        if self.resume and not file.exists():
            say(f"there is no checkpoint {file} yet: starting from the beginning")
        elif self.checkpoint is None and not self.resume and file.exists():
            say(f"{file} is a checkpoint of a stopped fit: add --resume to continue it; now starting over")
        how: dict[str, Any] = {"until_done": self.checkpoint is None, "announced": self._announce}
        return {"checkpoint": Checkpoint(file, seconds=self.checkpoint_every, **how), "resume": self.resume or None}

    def _announce(self, path: str) -> None:
        if self.checkpoint is None:
            say(f"the fit so far is kept in {path}: after a stop, run the same command with --resume")

    def remove(self, output: Path) -> None:
        """Remove the automatic checkpoint: the model has been written."""
        if self.checkpoint is None:
            self.file(output).unlink(missing_ok=True)


def command(
    data: DataFile,
    *,
    output: Path = to_write("The model file to write.", "MODEL", ...),
    chosen: ModelArguments,
    activations: Path | None = option("Write the table of samples x parts."),
    intervals: Path | None = option("With --presence: write presence, activation and its interval."),
    parts: Path | None = option("Write the table of features x parts."),
    batch: Batch = None,
    checkpoints: CheckpointArguments,
    engine: EngineArguments,
    seed: Seed = 0,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Fit a model to data, and write it to a file.

    All other commands read that file. Tables are written as .csv, .tsv (.gz) or .parquet; the file name decides. Ctrl-C
    (or SIGTERM) ends the fit after the current iteration, writes the model so far, and exits with 1. A fit that takes
    more than a minute writes MODEL.checkpoint until it is done; `--resume` continues from there.
    """
    from partwise.io import write_table

    running = {"random_state": seed, "n_jobs": run.threads, "engine": engine.chosen(), "progress": run.progress}
    estimator, checkpoint = _prepared(chosen, checkpoints, output, running)
    tables = {"--activations": activations, "--intervals": intervals, "--parts": parts}
    refuse_if(intervals is not None and not chosen.presence, "--intervals", "it needs --presence.")
    files = {"--output": output, **tables, "--checkpoint": checkpoint}
    check_outputs(files, [data, chosen.components_file], tables=list(tables))
    table = reading.open(data)
    start = time.perf_counter()
    batches = batch_argument(estimator, batch, table)
    agreed = _consensus(chosen, estimator, table, batches)
    fitted = chosen.fitted(estimator, table, batches) if agreed is None else agreed.model
    seconds = time.perf_counter() - start
    interrupted = fitted.status_.code == "interrupted"
    _save(fitted, output, checkpoint)
    if checkpoint is not None and not interrupted:
        checkpoints.remove(output)
    size, names = table_size(table), part_names(fitted)
    if parts is not None:
        write_table(parts, fitted.components_.T, fitted.known_features, names, corner="feature")
    lines = part_lines(fitted)
    if chosen.presence:
        lines = write_presence(fitted, table, activations, intervals, names)
    elif activations is not None and not interrupted:
        # Some models take missing cells in `fit` only: use the activations that the fit kept.
        of_fit = fitted.declares.missing == "fit" and size["n_missing"] > 0
        found = fitted.kept_activations if of_fit else fitted.transform(table, **batches)
        write_activations(activations, found, table, names)
    facts = model_facts(fitted)
    options = {name: option_name(name) for name in ("max_iter", "tol", "batch")}
    status = in_options(str(fitted.status_), options).replace("n_draws,", "n_draws with --set,")
    heading = [f"{type(fitted).__name__}: {status}", f"{fit_line(facts)}, {seconds:.1f} s"]
    if agreed is not None:
        heading = [str(agreed), f"Restarts that found each part: {', '.join(map(str, agreed.members))}."]
        facts["consensus"] = consensus_facts(agreed)
    written = [path for path in (output, parts, intervals, None if interrupted else activations) if path is not None]
    return Outcome(
        {"data": {"source": table.source, **size}, **facts, "seconds": seconds, "written": written},
        [*heading, *lines],
        written,
        failure=_interrupted_sentence(fitted.n_iter_, output, checkpoint, activations) if interrupted else "",
    )


def _prepared(
    chosen: ModelArguments, checkpoints: CheckpointArguments, output: Path, running: dict[str, Any]
) -> tuple[Any, Path | None]:
    """The estimator, and the checkpoint file of its fit. The file is None if there is no single fit to resume."""
    if chosen.components_file is None and not chosen.consensus:
        return chosen.estimator({**running, **checkpoints.parameters(output)}), checkpoints.file(output)
    refuse_if(checkpoints.resume, "--resume", "--components-file and --consensus run no single fit: drop it.")
    return chosen.estimator({**running, "checkpoint": checkpoints.checkpoint, "resume": None}), None


def _consensus(chosen: ModelArguments, estimator: Any, table: Any, batches: dict[str, Any]) -> Consensus | None:
    """Fit the consensus of many restarts if it was asked for."""
    if not chosen.consensus:
        for name in ("n_restarts", "max_samples"):
            refuse_if(getattr(chosen, name) is not None, option_name(name), "it needs --consensus.")
        return None
    from partwise.restarts import consensus

    other = chosen.components_file is not None or estimator.checkpoint is not None
    refuse_if(other, "--consensus", "it takes neither --components-file nor --checkpoint.")
    return consensus(estimator, table, n_restarts=chosen.n_restarts or 50, max_samples=chosen.max_samples, **batches)


def _save(fitted: Any, output: Path, checkpoint: Path | None) -> None:
    """Write the model; if that fails, name the checkpoint that holds the fit."""
    try:
        fitted.save(output)
    except OSError as error:
        if checkpoint is None or not checkpoint.exists():
            raise
        raise OSError(f"{error} {checkpoint} holds the fit: then run the same command with --resume.") from error


def _interrupted_sentence(n_iter: int, output: Path, checkpoint: Path | None, activations: Path | None) -> str:
    skipped = "" if activations is None else f" ({activations} was not written)"
    kept = checkpoint is not None and checkpoint.exists()
    remedy = "run the same command with --resume to finish it" if kept else "run it again to finish it"
    iterations = f"{n_iter} iteration{'' if n_iter == 1 else 's'}"
    return f"interrupted after {iterations}: {output} holds the model so far{skipped}; {remedy}."
