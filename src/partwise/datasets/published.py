"""Published data, read from the folder named by PARTWISE_DATA and checked against their documentation.

The environment variable PARTWISE_DATA names the folder. Nothing is downloaded.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io import Table, read
from partwise.kernels.arrays import Floats

DATA_VARIABLE = "PARTWISE_DATA"

Catalogue = Mapping[str, SimpleNamespace]


def _documented(kind: str) -> Catalogue:
    """What is documented about published data: the entries of ``catalogue.toml`` beside this module."""
    content = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))[kind]
    entries = {name: {"ones": None, **entry, "shape": tuple(entry["shape"])} for name, entry in content.items()}
    return MappingProxyType({name: SimpleNamespace(**entry) for name, entry in entries.items()})


COUNTS = _documented("counts")
"""Count matrices that `load_counts` reads: their documented sizes, and where to download them."""

BINARY = _documented("binary")
"""0/1 matrices that `load_binary` reads, features x samples; ``ones`` is None if no number is documented."""

GAP = _documented("gap")
"""Trained Gamma-Poisson models with their counts, which `load_gap` reads."""


def data_folder() -> Path:
    """The folder of published data, from the environment variable ``PARTWISE_DATA``.

    Returns
    -------
    Path
        An existing folder.

    Raises
    ------
    InvalidInputError
        The variable is not set, or it does not name a folder.

    Examples
    --------
    >>> from partwise.datasets import data_folder
    >>> data_folder().is_dir()
    True
    """
    name = os.environ.get(DATA_VARIABLE, "").strip()
    if not name:
        raise InvalidInputError(
            f"the environment variable {DATA_VARIABLE} is not set; set it to the folder that holds the data "
            "(in it: counts/, nbmf/, gap/)."
        )
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InvalidInputError(f"{DATA_VARIABLE} names {folder}, which is not a folder; correct it.")
    return folder


def lookup(catalogue: Catalogue, name: str) -> SimpleNamespace:
    """The entry of a data set, or an error that lists the known names."""
    if name not in catalogue:
        raise InvalidInputError(f"there is no data set called {name!r}; there are {', '.join(catalogue)}.")
    return catalogue[name]


def locate(relative: str, origin: str) -> Path:
    """The file of a data set, or an error that says where to download it."""
    by_hand = f"download it from {origin}, and write it as {relative} in that folder"
    try:
        path = data_folder() / relative
    except InvalidInputError as error:
        raise InvalidInputError(f"{str(error).removesuffix('.')}; for {relative}, {by_hand}.") from None
    if not path.is_file():
        raise FileNotFoundError(f"there is no {relative} in the folder {path.parents[1]}; {by_hand}.")
    return path


def check_documented(path: Path, what: str, found: object, documented: object) -> None:
    """Refuse a file whose sizes or totals differ from the documented ones."""
    if documented is not None and found != documented:
        raise FileFormatError(
            f"{path} has {what} {found}, and the published data have {documented}: it is another version or damaged; "
            "fetch it again."
        )


def load_counts(name: str) -> Table:
    """A published count matrix: documents x words, or samples x genes.

    Parameters
    ----------
    name
        ``"ap"``, ``"reuters395"``, ``"nips_uci7605"``, ``"nips2483"``, ``"newsgroups20"``, ``"mcf7_rnaseq"`` or
        ``"kos"``, read from ``counts/NAME.npz`` in the folder that ``PARTWISE_DATA`` names.

    Returns
    -------
    Table
        Sparse counts, with the vocabulary as column labels (``kos`` has none). The rows of ``newsgroups20`` are
        labelled with their newsgroup.

    Raises
    ------
    InvalidInputError, FileNotFoundError
        There is no such data set, or its file is missing; the message says where to get it.
    FileFormatError
        The file is damaged, or its sizes and totals are not the documented ones.

    Examples
    --------
    >>> from partwise.datasets import load_counts
    >>> load_counts("reuters395").shape
    (395, 4258)
    """
    entry = lookup(COUNTS, name)
    path = locate(f"counts/{name}.npz", entry.origin)
    table = read(path)
    values = table.matrix.data
    check_documented(path, "shape", table.shape, entry.shape)
    check_documented(path, "nonzeros", int(np.count_nonzero(values)), entry.nonzeros)
    check_documented(path, "total", int(values.sum(dtype=np.int64)), entry.total)
    check_documented(path, "largest count", int(values.max()), entry.largest)
    if name == "newsgroups20":
        labels = _arrays(path, "label", "label_names")
        table = replace(table, row_labels=labels["label_names"][labels["label"]])
    return table


def load_binary(name: str, *, transpose: bool = False) -> Table:
    """A published 0/1 matrix from the paper on nonnegative binary factorization. Some have missing cells.

    Parameters
    ----------
    name
        ``"animals"``, ``"lastfm"``, ``"paleo"``, ``"parliament"``, ``"unvotes"``, ``"unvotes_coldwar"``,
        ``"unvotes_coldwar_absna"`` or one of the ``extra_`` sets, read from ``nbmf/NAME.csv.gz`` in the folder that
        ``PARTWISE_DATA`` names.
    transpose
        False: as published, features x samples (F x N of the paper's Section 6.1), such as countries x roll calls.
        True: samples x features.

    Returns
    -------
    Table
        Dense, with labels; a missing cell is NaN.

    Raises
    ------
    InvalidInputError, FileNotFoundError
        There is no such data set, or its file is missing; the message says where to get it.
    FileFormatError
        The file is damaged, or its sizes and totals are not the documented ones.

    Examples
    --------
    >>> from partwise.datasets import load_binary
    >>> load_binary("animals", transpose=True).shape
    (50, 85)
    """
    entry = lookup(BINARY, name)
    path = locate(f"nbmf/{name}.csv.gz", entry.origin)
    table = read(path)
    check_documented(path, "shape", table.shape, entry.shape)
    check_documented(path, "missing cells", int(np.isnan(table.matrix).sum()), entry.missing)
    check_documented(path, "ones", int(np.nansum(table.matrix)), entry.ones)
    return table.transpose() if transpose else table


@dataclass(frozen=True, eq=False)
class TrainedGap:
    """Counts, and the Gamma-Poisson model trained on them.

    theta_k ~ Gamma(shape_k, rate_k), x_f ~ Poisson(Σ_k theta_k dictionary_fk).

    Attributes
    ----------
    counts
        Documents x words.
    dictionary
        Features x parts; columns sum to 1.
    shape, rate
        Parameters of the gamma prior of each part's activations.
    """

    counts: Table
    dictionary: Floats
    shape: Floats
    rate: Floats


def load_gap(name: str) -> TrainedGap:
    """A Gamma-Poisson model with five parts over 100 words, trained by the authors of the left-to-right paper.

    Parameters
    ----------
    name
        ``"nips100"`` or ``"twitter100"``, read from ``gap/NAME.npz`` in the folder that ``PARTWISE_DATA`` names.

    Returns
    -------
    TrainedGap
        Counts, dictionary, shape and rate.

    Raises
    ------
    InvalidInputError, FileNotFoundError
        There is no such data set, or its file is missing; the message says where to get it.
    FileFormatError
        The file is damaged, or its sizes and totals are not the documented ones.

    Examples
    --------
    >>> from partwise.datasets import load_gap
    >>> load_gap("twitter100").dictionary.shape
    (100, 5)
    """
    entry = lookup(GAP, name)
    path = locate(f"gap/{name}.npz", entry.origin)
    table = read(path)
    lengths = table.matrix.sum(axis=1)
    check_documented(path, "shape", table.shape, entry.shape)
    check_documented(path, "mean length", round(float(lengths.mean()), 3), entry.mean_length)
    check_documented(path, "largest length", int(lengths.max()), entry.largest_length)
    check_documented(path, "mean nonzeros", round(table.matrix.nnz / entry.shape[0], 3), entry.mean_nonzeros)
    model = _arrays(path, "phi", "p", "r")
    check_documented(path, "dictionary of shape", model["phi"].shape, (entry.n_components, entry.shape[1]))
    # Convert to (shape, rate) form: the published p stands for a scale of p / (1 - p).
    return TrainedGap(table, model["phi"].T.copy(), model["r"], (1.0 - model["p"]) / model["p"])


def _arrays(path: Path, *keys: str) -> dict[str, Any]:
    """Further arrays of an .npz file whose matrix has been read, and so checked, before."""
    with np.load(path, allow_pickle=False) as archive:
        absent = [key for key in keys if key not in archive]
        if absent:
            raise FileFormatError(f"{path} lacks the array {absent[0]!r} of the published data: fetch it again.")
        return {key: archive[key] for key in keys}
