"""``partwise recommend``: the features that each sample is most likely to have next."""

from pathlib import Path

from partwise.cli.files import check_outputs, table_outcome
from partwise.cli.options import DataFile, ModelFile, OnlyRows, RunArguments, option, to_write
from partwise.cli.output import Outcome
from partwise.cli.reading import ReadArguments, row_positions

EXAMPLES = (
    "partwise recommend topics.partwise counts.npz -o lists.csv",
    "partwise recommend topics.partwise counts.npz --top 5 --row 0 --row 3",
    "partwise recommend topics.partwise new_counts.npz --top 20 -o lists.csv --threads 2",
)


def command(
    model: ModelFile,
    data: DataFile,
    output: Path | None = to_write("Table to write, one line per row and place in its list: .csv, .tsv or .parquet."),
    top: int = option("Length of the lists.", 10, "--top", "-n", min=1),
    row: OnlyRows = None,
    seen: bool = option("Also list features that the row already has.", False),
    *,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """List the likeliest features that samples do not have yet.

    The highest expected counts come first (for yes/no data, the highest probabilities of a yes). A sample without
    counts gets the most frequent features of the training data. Features are matched by name.
    """
    check_outputs({"--output": output}, [model, data], tables=["--output"])
    fitted = run.opened(model)
    table = reading.read(data)
    checked = fitted.checked_data(table, caller="recommend")
    if row:
        import numpy as np

        positions = row_positions(table.row_labels, table.shape[0], row)
        pieces = [fitted.recommend(checked.rows(n, n + 1), top, exclude_seen=not seen).columns() for n in positions]
        names = table.row_labels if table.row_labels is not None else np.arange(table.shape[0])
        for n, piece in zip(positions, pieces, strict=True):
            piece["sample"] = [str(names[n])] * len(piece["place"])
        columns = {name: [value for piece in pieces for value in piece[name]] for name in pieces[0]}
    else:
        columns = fitted.recommend(checked, top, exclude_seen=not seen).columns()
    sizes = {"n_samples": len(row or ()) or table.shape[0], "n_lines": len(columns["place"])}
    return table_outcome({"model": model, "data": data, **sizes}, columns, output)
