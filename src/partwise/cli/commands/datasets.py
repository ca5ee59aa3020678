"""``partwise datasets``: data to try things on."""

import inspect
from pathlib import Path
from typing import Any

import typer

from partwise.cli.files import check_outputs
from partwise.cli.models import parsed_settings
from partwise.cli.options import Seed, option, to_write
from partwise.cli.output import Outcome, aligned, refuse_if
from partwise.cli.reading import table_size

EXAMPLES = (
    "partwise datasets",
    "partwise datasets digits -o digits.npz",
    "partwise datasets simulated-allocation -o simulated.npz --samples 50 --components 3 --seed 1",
    "partwise datasets simulated-binary -o bits.csv --set model=dir-dir --set missing=0.1",
)


def _names() -> list[str]:
    from partwise.datasets import describe_datasets

    return list(describe_datasets())


def command(
    name: str | None = typer.Argument(
        None, metavar="NAME", autocompletion=_names, help="The data set to write; without it, all are listed."
    ),
    output: Path | None = to_write("File to write, samples x features; its ending sets the format."),
    samples: int | None = option("Number of samples, for simulated data (default 100).", min=1),
    features: int | None = option("Number of features (default 60).", metavar="F", min=1),
    components: int | None = option("Number of parts (default 4).", None, "--components", "-k", metavar="K", min=1),
    settings: list[str] | None = option(
        "Any other parameter of the simulation (repeatable).", None, "--set", metavar="NAME=VALUE"
    ),
    seed: Seed = 0,
) -> Outcome:
    """List data sets, or write one to a file.

    Bundled data come with every installation, and simulated data are drawn from a model of partwise. Published data are
    read from the folder that PARTWISE_DATA names. Nothing is downloaded.
    """
    from partwise.datasets import describe_datasets, load_dataset
    from partwise.datasets.named import SIMULATED
    from partwise.io import write_matrix

    described = describe_datasets()
    if name is None:
        refuse_if(output is not None, "NAME", "say which data set to write; `partwise datasets` lists them.")
        return Outcome({"available": described}, aligned(list(described.items())))
    refuse_if(name not in described, "NAME", f"there is no data set {name!r}; `partwise datasets` lists them.")
    if output is None:
        raise typer.BadParameter("say where to write it.", param_hint="--output")
    check_outputs({"--output": output}, [])
    sizes = {"n_samples": samples, "n_features": features, "n_components": components}
    options: dict[str, Any] = {part: size for part, size in sizes.items() if size is not None}
    if name in SIMULATED:
        own_options = {"n_samples", "n_features", "n_components", "random_state"}
        allowed = set(inspect.signature(SIMULATED[name]).parameters) - own_options
        options |= {"random_state": seed, **parsed_settings(settings or [], allowed, name)}
    elif options or settings:
        raise typer.BadParameter(f"{name} is not simulated: it takes no sizes and no --set.", param_hint="NAME")
    table = load_dataset(name, **options)
    written = write_matrix(output, table)
    return Outcome({"name": name, **table_size(table), "written": written}, written=written)
