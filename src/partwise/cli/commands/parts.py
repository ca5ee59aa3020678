"""``partwise parts``: the parts of a model by their features; name, merge and drop them."""

from pathlib import Path
from typing import Any

from partwise.cli.files import check_outputs
from partwise.cli.options import ModelFile, option, to_write
from partwise.cli.output import Outcome, refuse_if

EXAMPLES = (
    "partwise parts topics.partwise --top 12",
    "partwise parts topics.partwise -o named.partwise --name-parts",
    "partwise parts topics.partwise -o merged.partwise --merge 1,2 --drop 3",
    "partwise parts topics.partwise --table parts.csv --by probability",
)
_RANKINGS = ("relevance", "probability", "lift")


def command(
    model: ModelFile,
    *,
    output: Path | None = to_write("Model file to write.", "MODEL"),
    names: Path | None = option("Names of parts: a table with the columns part and name (.csv, .tsv)."),
    name_parts: bool = option("Name parts by their most distinctive features.", False),
    merge: list[str] | None = option("Merge parts: numbers from 0, or names (repeatable).", metavar="A,B"),
    drop: list[str] | None = option("Drop a part (repeatable).", metavar="A"),
    by: str = option(
        "Order features by relevance (frequent and distinctive), probability or lift.",
        "relevance",
        autocompletion=lambda: list(_RANKINGS),
    ),
    top: int = option("Features of each part.", 10, min=1),
    table: Path | None = option("Write part, feature and value as a table: .csv, .tsv or .parquet."),
) -> Outcome:
    """Show the parts of a model; name, merge or drop them.

    Parts are merged first, then dropped, then named; numbers are those of MODEL. Other commands show the names.
    """
    from partwise.contract.model_file import load
    from partwise.io import write_columns

    refuse_if(by not in _RANKINGS, "--by", f"{by!r} is not one of {', '.join(_RANKINGS)}.")
    refuse_if(names is not None and name_parts, "--name-parts", "--names gives the names already: drop one of the two.")
    changed = bool(names is not None or name_parts or merge or drop)
    refuse_if(changed and output is None, "--output", "give the model file to write.")
    check_outputs({"--output": output, "--table": table}, [model, names], tables=["--table"])
    fitted = _changed(load(model), merge or [], drop or [])
    if names is not None or name_parts:
        fitted.name_parts(names)
    if output is not None:
        fitted.save(output)
    ranked = fitted.top_features(top, by=by)
    labels, weights = fitted.part_labels(), fitted.part_weights()
    facts: list[dict[str, Any]] = [
        {"part": k, "name": labels[k], "share": float(weights[k]), "features": dict(ranked[k])}
        for k in range(len(labels))
    ]
    if table is not None:
        rows = [(labels[k], feature, value) for k in range(len(labels)) for feature, value in ranked[k]]
        write_columns(table, dict(zip(("part", "feature", by), zip(*rows, strict=True), strict=True)))
    lines = [(str(one["part"]), one["name"], f"{one['share']:.4f}", ", ".join(one["features"])) for one in facts]
    told = {"model": model, "by": by, "parts": facts, "output": output, "table": table}
    return Outcome(told, [("part", "name", "share", f"features by {by}"), *lines], [output, table])


def _changed(model: Any, merge: list[str], drop: list[str]) -> Any:
    """The model after merging and dropping. Both use the part numbers of the original model."""
    groups = [[model.part_position(part) for part in text.split(",")] for text in merge]
    dropped = [model.part_position(part) for part in drop]
    twice = sorted({k for group in groups for k in group}.intersection(dropped))
    refuse_if(twice, "--drop", f"part {min(twice, default=0)} is also in --merge: drop it or merge it, not both.")
    if groups:
        removed = [k for group in groups for k in group if k != min(group)]
        dropped = [k - sum(one < k for one in removed) for k in dropped]
        model = model.merge_parts(groups)
    return model.drop_parts(dropped) if dropped else model
