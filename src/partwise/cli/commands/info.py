"""``partwise info``: what a model file, a checkpoint or a data file holds."""

from pathlib import Path

import typer

from partwise.cli.files import is_safetensors
from partwise.cli.options import option
from partwise.cli.output import Outcome
from partwise.cli.reading import ReadArguments

EXAMPLES = (
    "partwise info counts.npz",
    "partwise info topics.partwise --top 5",
    "partwise info catalogue.tsv --transpose --json",
)


def command(
    file: Path = typer.Argument(..., metavar="FILE", help="A model file, a checkpoint, or data."),
    top: int = option("Features shown of each part of a model.", 8, min=1),
    *,
    reading: ReadArguments,
) -> Outcome:
    """Describe a file: data, a model or a checkpoint.

    Reads all data and checks them as a fit would, so you know whether they can be fitted.
    """
    if not is_safetensors(file):
        from partwise.cli.describe import data_facts, data_lines

        facts = data_facts(reading.read(file))
        return Outcome({"file": file, "kind": "data", **facts}, data_lines(str(file), facts))
    from partwise.io.arrays import load_arrays

    reading.refuse(f"{file} holds a model or a checkpoint, not data: drop it.")
    _, metadata = load_arrays(file)
    return _checkpoint(file) if metadata.get("kind") == "partwise checkpoint" else _model(file, top)


def _model(path: Path, top: int) -> Outcome:
    from partwise.cli.describe import fit_line, model_facts, part_lines
    from partwise.contract.model_file import load
    from partwise.plotting import top_features

    model = load(path)
    facts = model_facts(model)
    ranked = [[{"feature": name, "share": share} for name, share in part] for part in top_features(model, n=top)]
    distinctive = [[name for name, _ in part] for part in model.top_features(top)]
    names = "with names" if facts["has_feature_names"] else "without names"
    lines = [
        f"{path}: {facts['model']} with {facts['n_components']} parts of {facts['n_features']} features ({names})",
        "parameters: " + ", ".join(f"{name}={value}" for name, value in facts["parameters"].items()),
        f"status: {model.status_}",
        f"fit: {fit_line(facts)}",
        *part_lines(model, n=top),
    ]
    parts = {"parts": model.part_labels(), "top_features": ranked, "distinctive_features": distinctive}
    return Outcome({"file": path, "kind": "model", **facts, **parts}, lines)


def _checkpoint(path: Path) -> Outcome:
    from partwise.core.checkpoint import read_checkpoint

    stored = read_checkpoint(path)
    latest = stored.trace.latest("objective")
    identity = stored.identity
    facts = {
        "file": path,
        "kind": "checkpoint",
        "algorithm": identity.algorithm,
        "data": identity.data_summary,
        "n_iter": len(stored.trace),
        "objective": latest[0][1] if latest else None,
        "seed": identity.key.seed,
    }
    lines = [
        f"{path}: checkpoint of {identity.algorithm.rpartition('.')[2]} after {len(stored.trace)} iterations",
        f"data: {identity.data_summary}; seed {identity.key.seed}",
        *([f"objective: {latest[0][1]:.8g}"] if latest else []),
    ]
    return Outcome(facts, lines)
