"""Tables of a consensus with the names and the layout of cNMF's, so that scripts made for its output go on working."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from partwise.io.writing_tables import format_cells, write_rows
from partwise.restarts.consensus import Consensus


def write_cnmf_tables(
    found: Consensus, folder: str | os.PathLike[str], name: str, *, density_threshold: float = 0.5, samples: Any = None
) -> list[Path]:
    """Write usages, spectra and spectra per million, tab-separated, as cNMF's consensus step does.

    Parameters
    ----------
    found
        The consensus.
    folder
        Where to write; it is made if it is not there.
    name
        Name of the run, with which each file begins.
    density_threshold
        The threshold that was used, which is part of the names.
    samples
        Names of the samples; positions from 0 by default.

    Returns
    -------
    list of Path
        The files: ``NAME.usages.k_K.dt_T.consensus.txt`` (samples x parts, activations),
        ``NAME.spectra.k_K.dt_T.consensus.txt`` (parts x features, shares) and ``NAME.gene_spectra_tpm.k_K.dt_T.txt``
        (parts x features, per million). Parts are numbered from 1, as there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, partwise
    >>> from partwise.restarts import write_cnmf_tables
    >>> X = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((20, 4), 5.0)))
    >>> found = partwise.consensus(partwise.PoissonNMF(2, random_state=0), X, n_restarts=3)
    >>> for path in write_cnmf_tables(found, tempfile.mkdtemp(), "run"):
    ...     print(path.name)
    run.usages.k_2.dt_0_5.consensus.txt
    run.spectra.k_2.dt_0_5.consensus.txt
    run.gene_spectra_tpm.k_2.dt_0_5.txt
    """
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    ending = f"k_{found.n_components}.dt_{f'{density_threshold:g}'.replace('.', '_')}"
    parts = [str(k + 1) for k in range(found.n_components)]
    features = found.model.feature_labels()
    rows = [str(n) for n in range(len(found.activations))] if samples is None else [str(label) for label in samples]
    tables = {
        f"{name}.usages.{ending}.consensus.txt": (found.activations, rows, parts),
        f"{name}.spectra.{ending}.consensus.txt": (found.shares, parts, features),
        f"{name}.gene_spectra_tpm.{ending}.txt": (1e6 * found.shares, parts, features),
    }
    for file, (matrix, names, columns) in tables.items():
        rows_of = zip(names, map(np.asarray, matrix), strict=True)
        lines = ([label, *format_cells(row, neutralise=False)] for label, row in rows_of)
        write_rows(where / file, "\t", [["", *columns], *lines])
    return [where / file for file in tables]
