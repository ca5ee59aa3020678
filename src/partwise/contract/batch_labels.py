"""Batch labels: where data carry them, and which parts follow a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.errors import InvalidInputError
from partwise.io.table import Table
from partwise.kernels.arrays import Floats

Labels = NDArray[np.str_]

# Columns with one of these names are taken for batches.
_BATCH_COLUMNS = ("batch", "batch_id", "sample", "sample_id", "donor", "donor_id", "plate")
# A part follows a batch from this squared correlation on.
_MOSTLY = 0.5


@dataclass(frozen=True)
class BatchPart:
    """A part that follows a batch: squared correlation of its shares with membership in that batch."""

    part: str
    batch: str
    r2: float

    def __str__(self) -> str:
        """The finding in words."""
        return f"{self.part} is mostly batch {self.batch} (R2 {self.r2:.2g})"


def batch_labels(batch: Any, X: Any, n_samples: int) -> Labels:
    """The batch of each sample as text.

    Parameters
    ----------
    batch
        One label per sample, or the name of an obs column where ``X`` has them.
    X
        The data as they were given.
    n_samples
        Samples of the data.
    """
    if isinstance(batch, str):
        columns = _sample_columns(X)
        if columns is None:
            raise InvalidInputError(
                f"batch={batch!r} names an obs column, but X is a {type(X).__name__}, which has none: pass one label"
                " per sample."
            )
        if batch not in columns:
            known = ", ".join(map(str, columns)) or "none"
            raise InvalidInputError(f"batch={batch!r} is not an obs column of X; its columns are: {known}.")
        batch = columns[batch]
    values = np.asarray(batch, dtype=np.object_)
    if values.shape != (n_samples,):
        raise InvalidInputError(f"batch has shape {values.shape}: pass one label for each of the {n_samples} samples.")
    missing = [value is None or value != value or value == "" for value in values]
    if any(missing):
        raise InvalidInputError(f"batch[{missing.index(True)}] is missing: label that sample, or leave it out.")
    return _texts(values)


def _sample_columns(X: Any) -> Any:
    """Metadata of samples by name: from a table, or obs of AnnData; None if the data carry none."""
    return X.metadata if isinstance(X, Table) else getattr(X, "obs", None)


def _texts(values: Any) -> Labels:
    return np.asarray(np.asarray(values, dtype=np.object_), dtype=np.str_)


def known_batches(X: Any, n_samples: int) -> Labels | None:
    """Labels from an obs column whose name suggests batches; None if there is no usable one."""
    columns = _sample_columns(X)
    for name in () if columns is None else columns:
        if str(name).lower() in _BATCH_COLUMNS:
            labels = _texts(columns[name])
            if labels.shape == (n_samples,) and 1 < np.unique(labels).size <= n_samples // 10:
                return labels
    return None


def parts_of_batches(shares: Floats, parts: Sequence[str], batches: Labels) -> list[BatchPart]:
    """Parts whose shares follow membership in one batch.

    Parameters
    ----------
    shares
        Samples x parts: how much of each sample a part makes up.
    parts
        Names of the parts.
    batches
        The batch of each sample.
    """
    names, codes = np.unique(batches, return_inverse=True)
    members = (codes[:, None] == np.arange(names.size)).astype(np.float64)
    members -= members.mean(axis=0)
    centred = shares - shares.mean(axis=0)
    sizes = np.sqrt(np.outer((centred**2).sum(axis=0), (members**2).sum(axis=0)))
    products = centred.T @ members
    correlation = np.divide(products, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    best = correlation.argmax(axis=1)
    return [
        BatchPart(part, str(names[b]), float(correlation[k, b] ** 2))
        for k, (part, b) in enumerate(zip(parts, best, strict=True))
        if correlation[k, b] > 0 and correlation[k, b] ** 2 >= _MOSTLY
    ]
