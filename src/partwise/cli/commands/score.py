"""``partwise score``: how well a model predicts data, sample by sample and in all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.output import show, show_json
from partwise.cli.parameters import DataFile, Json, ModelFile, ProgressBar, Seed, Threads
from partwise.cli.reading import ReadArguments

if TYPE_CHECKING:
    from partwise.io import Table
    from partwise.storage.mapped_counts import MappedCounts

EXAMPLES = (
    "partwise score topics.partwise new_counts.npz",
    "partwise score topics.partwise new_counts.npz -o rows.csv --json",
)


def command(
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Table to write, a line a sample: .csv, .tsv or .parquet."),
    ] = None,
    std_error: Annotated[
        float,
        typer.Option("--std-error", metavar="NATS", min=1e-6, help="Standard error asked for of a sample's value."),
    ] = 0.1,
    seed: Seed = 0,
    threads: Threads = 1,
    progress: ProgressBar = None,
    as_json: Json = False,
    *,
    reading: ReadArguments,
) -> None:
    """Say how well a model predicts data.

    A model with a prior on its activations gets the log-likelihood of each sample, activations integrated out: exact
    where that is affordable, else by sequential Monte Carlo with a standard error, and the perplexity per token. Others
    get document completion: half of each sample's tokens are given, the others predicted. So do models of bits, with
    cells in place of tokens.
    """
    from partwise.cli.files import check_outputs, check_table_name
    from partwise.core.persistence import load
    from partwise.io import write_columns

    check_table_name("--output", output)
    check_outputs({"--output": output}, [model, data])
    fitted = load(model)
    fitted.set_params(n_jobs=threads, progress=progress)
    has_rows = any(hasattr(fitted, name) for name in ("rate_", "log_likelihood", "completion"))
    if output is not None and not has_rows:
        name = type(fitted).__name__
        raise typer.BadParameter(f"{name} has one score for all samples and no table: drop it.", param_hint="--output")
    table = reading.open(data)
    if hasattr(fitted, "rate_"):
        facts, columns = _likelihood(fitted, table, std_error, seed, threads)
    elif hasattr(fitted, "log_likelihood"):
        facts, columns = _own_likelihood(fitted, table, std_error, seed)
    elif not has_rows:
        facts, columns = {"score": "held-out cells", "log_probability_per_cell": float(fitted.score(table))}, {}
    else:
        facts, columns = _completion(fitted, table, seed)
    if output is not None:
        labels = table.row_labels if table.row_labels is not None else [str(n) for n in range(table.shape[0])]
        write_columns(output, {"sample": labels, **columns})
    if as_json:
        show_json(
            {
                "command": "score",
                "model": str(model),
                "data": str(data),
                "n_samples": table.shape[0],
                **facts,
                "output": None if output is None else str(output),
            }
        )
        return
    for name, value in facts.items():
        show(f"{name.replace('_', ' ')}: {_shown(value)}")
    if output is not None:
        show(f"wrote {output}")


def _likelihood(
    fitted: Any, table: Table | MappedCounts, std_error: float, seed: int, threads: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    from partwise.likelihood.heldout import perplexity

    # As for all methods of the model: its own features, in its own order.
    data = fitted._data(table, reset=False, caller="score")
    found = perplexity(
        data, fitted.components_.T, fitted.shape_, fitted.rate_, rng=seed, std_error=std_error, n_jobs=threads
    )
    rows = found.log_likelihood
    facts = {
        "score": "log-likelihood",
        "log_likelihood": rows.total,
        "std_error": rows.total_std_error,
        "tokens": float(found.tokens.sum()),
        "perplexity": found.value,
        "perplexity_std_error": found.std_error,
    }
    return facts, {"tokens": found.tokens, "log_likelihood": rows.values, "std_error": rows.std_errors}


def _own_likelihood(
    fitted: Any, table: Table | MappedCounts, std_error: float, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of models whose likelihood is more than that of gamma distributed activations."""
    rows = fitted.log_likelihood(table, std_error=std_error, random_state=seed)
    tokens = fitted._data(table, reset=False, caller="score").row_sums
    facts = {
        "score": "log-likelihood",
        "log_likelihood": rows.total,
        "std_error": rows.total_std_error,
        "tokens": float(tokens.sum()),
    }
    return facts, {"tokens": tokens, "log_likelihood": rows.values, "std_error": rows.std_errors}


def _completion(fitted: Any, table: Table | MappedCounts, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    from partwise.core.keys import Key

    result = fitted.completion(table, key=Key(seed))
    facts = {
        "score": "document completion",
        "log_probability": float(result.values.sum()),
        "held_out_tokens": float(result.tokens.sum()),
        "log_probability_per_token": result.per_token,
    }
    return facts, {"held_out_tokens": result.tokens, "log_probability": result.values}


def _shown(value: Any) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)
