"""``partwise match``: which references the parts of a model are like."""

from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.files import check_outputs, table_outcome
from partwise.cli.models import read_parts
from partwise.cli.options import ModelFile, option, to_write
from partwise.cli.output import Outcome

EXAMPLES = (
    "partwise match topics.partwise signatures.tsv",
    "partwise match topics.partwise signatures.tsv -o matches.csv --most 2",
)


def command(
    model: ModelFile,
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="A table of features x parts, or another model file.")
    ],
    output: Path | None = to_write("Table to write, one line per part: .csv, .tsv or .parquet."),
    most: int = option("Largest number of references in a mixture.", 3, min=1, max=3),
) -> Outcome:
    """Compare the parts of a model with references.

    Prints for each part the best reference and its cosine, the runner-up, and the mixture of up to three references
    that comes closest. Features are matched by name. Several parts may have the same reference.
    """
    check_outputs({"--output": output}, [model, reference], tables=["--output"])
    from partwise.contract.model_file import load
    from partwise.refit import match

    found = match(load(model), read_parts(reference), most=most)
    facts = {"model": model, "reference": reference, "n_parts": len(found)}
    return table_outcome(facts, found.table(), output, form=".3f", named=True)
