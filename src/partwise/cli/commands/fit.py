"""``partwise fit``: fit a model to data and write it to a file."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from partwise._registry import model_names
from partwise.cli.describe import consensus_facts, fit_line, model_facts, part_lines
from partwise.cli.files import (
    batch_argument,
    check_outputs,
    check_table_name,
    part_names,
    write_activations,
    write_parts,
)
from partwise.cli.models import build_estimator, find_model, fixed_settings, option_name, read_parts, refitted
from partwise.cli.options import Batch, DataFile, EngineArguments, ProgressBar, Seed, Threads, option
from partwise.cli.output import Outcome, say
from partwise.cli.reading import ReadArguments, table_size

if TYPE_CHECKING:
    from partwise.io import Table
    from partwise.restarts import Consensus
    from partwise.storage.csr_folder import MappedCounts

EXAMPLES = (
    "partwise fit counts.npz -o topics.partwise --components 10 --seed 1",
    "partwise fit counts.npz -o topics.partwise -k 10 --activations activations.csv --parts parts.csv",
    "partwise fit counts.npz -o topics.partwise -k 10 --checkpoint fit.checkpoint --resume",
    "partwise fit catalogue.tsv --transpose -o signatures.partwise -k 4 --batch batches.csv",
    "partwise fit counts.npz -o topics.partwise -k 10 --consensus --n-restarts 20",
    "partwise fit counts.npz -o topics.partwise -k 10 --engine dask --threads 2",
    "partwise fit catalogue.tsv --transpose -o refit.partwise --components-file signatures.tsv",
)

_CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class ModelArguments:
    """Which model is fitted, and how."""

    model: str = option(
        "poisson",
        "--model",
        metavar="NAME",
        autocompletion=lambda: list(model_names()),
        help=f"Which model to fit: {', '.join(sorted(model_names()))} (lda: topics, the same as allocation).",
    )
    components: int | None = option(
        None,
        "--components",
        "-k",
        metavar="K",
        min=1,
        help="Number of parts; by default that of the model (poisson: 10).",
    )
    inference: str | None = option(
        None, "--inference", metavar="NAME", help="Algorithm, for poisson: coordinate (fast) or multiplicative."
    )
    init: str | None = option(None, "--init", metavar="NAME", help="Start, for poisson: random or nndsvd.")
    max_iter: int | None = option(None, "--max-iter", metavar="N", min=0, help="Most iterations.")
    tol: float | None = option(
        None, "--tol", metavar="X", min=0.0, help="Stop at less gain per count and iteration than this."
    )
    settings: list[str] | None = option(
        None, "--set", metavar="NAME=VALUE", help="Any other parameter of the model; may be repeated."
    )
    preset: str | None = option(
        None, "--preset", metavar="NAME", help="Settings with a name: paper, for those of the model's paper."
    )
    components_file: Path | None = option(
        None,
        "--components-file",
        metavar="FILE",
        help="Keep these parts and fit only activations: a table of features x parts, or a model file.",
    )

    n_restarts: int | None = option(
        None, "--n-restarts", metavar="N", min=2, help="Random starts of --consensus; 50 by default."
    )
    consensus: bool = option(
        False, "--consensus", help="Fit from many random starts and keep the parts that the fits agree on."
    )

    def estimator(self, running: dict[str, Any]) -> Any:
        """The estimator, with further parameters that say how it runs; None leaves a default."""
        cls, fixed = find_model(self.model), fixed_settings(self.model)
        own = {name: getattr(self, name) for name in ("inference", "init", "max_iter", "tol")}
        options = {"n_components": self.components, **own, **running, **fixed}
        if self.components_file is not None:
            if not cls.declares.given_parts:
                raise typer.BadParameter(f"{cls.__name__} cannot take given parts.", param_hint="--components-file")
            for name in ("n_components", *own, "checkpoint"):
                if options[name] is not None:
                    why = "with --components-file there are no parts to fit: drop it."
                    raise typer.BadParameter(why, param_hint=option_name(name))
        return build_estimator(cls, options, self.settings or (), self.preset)

    def fitted(self, estimator: Any, table: Table | MappedCounts, given: dict[str, Any]) -> Any:
        """The estimator, fitted to data (with further arguments of `fit`) or made of the parts that were given."""
        if self.components_file is None:
            from partwise.errors import InterruptedFitWarning

            with warnings.catch_warnings():
                # Said at the end, with the name of the file.
                warnings.simplefilter("ignore", InterruptedFitWarning)
                return estimator.fit(table, **given)
        if given:
            raise typer.BadParameter("with --components-file there is nothing to fit: drop it.", param_hint="--batch")
        return refitted(estimator, read_parts(self.components_file), table, self.components_file)


@dataclass(frozen=True)
class CheckpointArguments:
    """Whether, where and how often the running fit is written."""

    checkpoint: Path | None = option(
        None, "--checkpoint", metavar="FILE", help="Write the running fit here now and then."
    )
    checkpoint_every: float = option(
        _CHECKPOINT_SECONDS, "--checkpoint-every", metavar="SECONDS", min=0.0, help="How often."
    )
    resume: bool = option(
        False, "--resume", help="Go on from the checkpoint if it is there: same bits as without a stop."
    )

    def parameters(self) -> dict[str, Any]:
        """What estimators are told."""
        if self.checkpoint is None:
            changed = self.checkpoint_every != _CHECKPOINT_SECONDS
            for option, given in {"--resume": self.resume, "--checkpoint-every": changed}.items():
                if given:
                    raise typer.BadParameter("it needs --checkpoint FILE.", param_hint=option)
            return {"checkpoint": None, "resume": None}
        from partwise import Checkpoint

        return {"checkpoint": Checkpoint(self.checkpoint, seconds=self.checkpoint_every), "resume": self.resume or None}


def command(
    data: DataFile,
    *,
    output: Path = typer.Option(..., "--output", "-o", metavar="MODEL", help="The model file to write."),
    chosen: ModelArguments,
    activations: Path | None = typer.Option(
        None, "--activations", metavar="FILE", help="Write the table of samples x parts."
    ),
    parts: Path | None = typer.Option(None, "--parts", metavar="FILE", help="Write the table of features x parts."),
    batch: Batch = None,
    checkpoints: CheckpointArguments,
    engine: EngineArguments,
    seed: Seed = 0,
    threads: Threads = 1,
    progress: ProgressBar = None,
    reading: ReadArguments,
) -> Outcome:
    """Fit a model to data, and write it to a file.

    `transform` and `info` read that file. Tables are written as .csv, .tsv (.gz) or .parquet, by name. Ctrl-C ends
    the fit after the iteration at hand, writes the model so far, and exits with 1.
    """
    running = {"random_state": seed, "n_jobs": threads, "engine": engine.chosen(), "progress": progress}
    estimator = chosen.estimator({**running, **checkpoints.parameters()})
    tables = {"--activations": activations, "--parts": parts}
    for name, path in tables.items():
        check_table_name(name, path)
    checkpoint = checkpoints.checkpoint
    check_outputs({"--output": output, **tables, "--checkpoint": checkpoint}, [data, chosen.components_file])
    table = reading.open(data)
    if checkpoints.resume and checkpoint is not None and not checkpoint.exists():
        say(f"there is no checkpoint {checkpoint} yet: starting anew")
    start = time.perf_counter()
    batches = batch_argument(estimator, batch, table)
    agreed = _consensus(chosen, estimator, table, batches)
    fitted = chosen.fitted(estimator, table, batches) if agreed is None else agreed.model
    seconds = time.perf_counter() - start
    fitted.save(output)
    interrupted = fitted.status_.code == "interrupted"
    size, names = table_size(table), part_names(fitted)
    if parts is not None:
        write_parts(parts, fitted.components_, fitted.known_features, names)
    if activations is not None and not interrupted:
        # Those of the fit, where only the fit knows what to make of missing cells.
        of_fit = fitted.declares.missing == "fit" and size["n_missing"] > 0
        write_activations(
            activations, fitted.kept_activations if of_fit else fitted.transform(table, **batches), table, names
        )
    facts = model_facts(fitted)
    heading = [f"{type(fitted).__name__}: {fitted.status_}", f"{fit_line(facts)}, {seconds:.1f} s"]
    if agreed is not None:
        heading = [str(agreed), f"Restarts that found each part: {', '.join(map(str, agreed.members))}."]
        facts["consensus"] = consensus_facts(agreed)
    written = [path for path in (output, parts, None if interrupted else activations) if path is not None]
    return Outcome(
        {"data": {"source": table.source, **size}, **facts, "seconds": seconds, "written": written},
        [*heading, *part_lines(fitted)],
        written,
        failure=_interrupted_sentence(fitted.n_iter_, output, checkpoint, activations) if interrupted else "",
    )


def _consensus(chosen: ModelArguments, estimator: Any, table: Any, batches: dict[str, Any]) -> Consensus | None:
    """The consensus of many restarts, where it is asked for."""
    if not chosen.consensus:
        if chosen.n_restarts is not None:
            raise typer.BadParameter("it needs --consensus.", param_hint="--n-restarts")
        return None
    from partwise.restarts import consensus

    if chosen.components_file is not None or estimator.checkpoint is not None:
        raise typer.BadParameter("it takes neither --components-file nor --checkpoint.", param_hint="--consensus")
    return consensus(estimator, table, n_restarts=chosen.n_restarts or 50, **batches)


def _interrupted_sentence(n_iter: int, output: Path, checkpoint: Path | None, activations: Path | None) -> str:
    skipped = "" if activations is None else f" ({activations} was not written)"
    remedy = (
        "run it again to finish it, with --checkpoint FILE and --resume if it takes long"
        if checkpoint is None
        else "run the same command with --resume to finish it"
    )
    iterations = f"{n_iter} iteration{'' if n_iter == 1 else 's'}"
    return f"interrupted after {iterations}: {output} holds the model so far{skipped}; {remedy}."
