"""``partwise score``: how well a model predicts data, sample by sample and in all."""

from pathlib import Path
from typing import Any

from partwise.cli.files import batch_argument, check_outputs
from partwise.cli.options import Batch, DataFile, ModelFile, RunArguments, Seed, option, to_write
from partwise.cli.output import Outcome, refuse_if
from partwise.cli.reading import Opened, ReadArguments

EXAMPLES = (
    "partwise score topics.partwise new_counts.npz",
    "partwise score topics.partwise new_counts.npz -o rows.csv --json",
)
_LABELS = {
    "score": "scored by",
    "held_out_tokens": "held-out tokens",
    "log_likelihood_per_token": "held-out log-likelihood per token",
    "log_likelihood_per_cell": "held-out log-likelihood per cell",
    "tokens": "all tokens",
    "marginal_log_likelihood": "log-likelihood of whole samples",
    "marginal_std_error": "its standard error",
    "coherence": "NPMI coherence",
}
_TOTALS = {"held_out_tokens", "tokens", "marginal_log_likelihood"}  # large numbers, shown with all their digits


def command(
    model: ModelFile,
    data: DataFile,
    output: Path | None = to_write("Table to write, with one line per sample: .csv, .tsv or .parquet."),
    std_error: float = option("Largest standard error of a sample's log-likelihood.", 0.1, metavar="NATS", min=1e-6),
    marginal: bool = option(
        "Also give the likelihood of whole samples, activations integrated out, if the model has it.",
        True,
        "--marginal/--no-marginal",
    ),
    batch: Batch = None,
    seed: Seed = 0,
    *,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Say how well a model predicts data.

    Count models get the held-out log-likelihood per token: the model sees half of each sample's tokens and predicts the
    others. Perplexity is the exponential of its negative. Models with a prior on activations also get the
    log-likelihood of each whole sample, with its activations integrated out. It is exact where that is affordable, and
    otherwise estimated with a standard error. Models of yes/no data get the held-out log-likelihood per cell. NPMI
    coherence and diversity describe the parts; choose models by the held-out log-likelihood.
    """
    from partwise.contract import CountModel
    from partwise.io import write_columns

    check_outputs({"--output": output}, [model, data], tables=["--output"])
    fitted = run.opened(model)
    why = f"{type(fitted).__name__} has one score for all samples and no table: drop it."
    refuse_if(output is not None and not isinstance(fitted, CountModel), "--output", why)
    table = reading.open(data)
    columns: dict[str, Any] = {}
    if isinstance(fitted, CountModel):
        batches = batch_argument(fitted, batch, table)
        facts, columns = _completion(fitted, table, seed, batches)
        if marginal and fitted.declares.marginal and not batches:
            more, further = _likelihood(fitted, table, std_error, seed)
            facts, columns = facts | more, columns | further
    else:
        facts = {"score": "held-out cells", "log_likelihood_per_cell": float(fitted.score(table))}
    facts |= _measures(fitted, table)
    if output is not None:
        labels = table.row_labels if table.row_labels is not None else [str(n) for n in range(table.shape[0])]
        write_columns(output, {"sample": labels, **columns})
    lines = [f"{_LABELS.get(name, name.replace('_', ' '))}: {_shown(name, value)}" for name, value in facts.items()]
    about = {"model": model, "data": data, "n_samples": table.shape[0]}
    return Outcome(about | facts | {"output": output}, lines, [output])


def _completion(
    fitted: Any, table: Opened, seed: int, batches: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    import numpy as np

    result = fitted.completion(table, random_state=seed, **batches)
    facts = {
        "score": "document completion",
        "held_out_tokens": float(result.tokens.sum()),
        "log_likelihood_per_token": result.per_token,
        "perplexity": float(np.exp(-result.per_token)),
    }
    return facts, {"held_out_tokens": result.tokens, "held_out_log_likelihood": result.values}


def _likelihood(fitted: Any, table: Opened, std_error: float, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Log-likelihood of whole samples, with activations integrated out."""
    rows = fitted.log_likelihood(table, std_error=std_error, random_state=seed)
    tokens = fitted.checked_data(table, caller="score").row_sums
    names = "tokens", "marginal_log_likelihood", "marginal_std_error"
    totals, values = (float(tokens.sum()), rows.total, rows.total_std_error), (tokens, rows.values, rows.std_errors)
    return dict(zip(names, totals, strict=True)), dict(zip(names, values, strict=True))


def _measures(fitted: Any, table: Opened) -> dict[str, Any]:
    """Numbers that describe the parts. Coherence would need another pass over the data, so data on disk get none."""
    import math

    from partwise.io import Table
    from partwise.metrics import diversity, part_measures

    found = part_measures(fitted, table) if isinstance(table, Table) else {"diversity": diversity(fitted)}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _shown(name: str, value: Any) -> str:
    unit = " nats" if "log_likelihood" in name or "std_error" in name else ""
    digits = 8 if name in _TOTALS else 5
    return f"{value:.{digits}g}{unit}" if isinstance(value, float) else str(value)
