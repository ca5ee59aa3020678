"""Real files of every format, written by SciPy, anndata, pandas, pyarrow, or literally as the format is documented."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

ROWS = [f"cell {n}" for n in range(7)]
COLUMNS = ["naïve", "b,c", "日本", 'quo"te', "e"]


def counts() -> Any:
    """Seven samples x five features with an empty row and an empty column."""
    dense = np.random.default_rng(0).poisson(0.8, (7, 5))
    dense[3], dense[:, 2] = 0, 0
    return dense


def compress(source: Path) -> Path:
    target = source.with_name(source.name + ".gz")
    target.write_bytes(gzip.compress(source.read_bytes()))
    return target


def write_npz(folder: Path, layout: str = "csr", **options: Any) -> Path:
    sp.save_npz(folder / f"{layout}.npz", sp.csr_array(counts()).asformat(layout), **options)
    return folder / f"{layout}.npz"


def write_npy(folder: Path) -> Path:
    np.save(folder / "dense.npy", counts())
    return folder / "dense.npy"


def write_mtx(folder: Path) -> Path:
    scipy.io.mmwrite(folder / "counts.mtx", sp.coo_array(counts()))
    return folder / "counts.mtx"


def write_dense_mtx(folder: Path) -> Path:
    scipy.io.mmwrite(folder / "dense.mtx", counts().astype(float) / 2)
    return folder / "dense.mtx"


def write_10x(folder: Path, *, version: int = 3) -> Path:
    """A directory as Cell Ranger 2 (genes.tsv) or 3 (features.tsv, all compressed) writes it."""
    target = folder / f"filtered_{version}"
    target.mkdir()
    scipy.io.mmwrite(target / "matrix.mtx", sp.coo_array(counts().T))
    (target / "barcodes.tsv").write_text("".join(f"{name}-1\n" for name in ROWS))
    lines = [f"ENSG{f:011d}\t{name}" + "\tGene Expression" * (version == 3) + "\n" for f, name in enumerate(COLUMNS)]
    (target / ("features.tsv" if version == 3 else "genes.tsv")).write_text("".join(lines))
    if version == 3:
        for file in list(target.iterdir()):
            compress(file)
            file.unlink()
    return target


def annotated(*, sparse: str | None = "csr") -> Any:
    import anndata
    import pandas as pd

    matrix = counts().astype(np.float32)
    values = matrix if sparse is None else getattr(sp, f"{sparse}_matrix")(matrix)
    data = anndata.AnnData(np.log1p(values), obs=pd.DataFrame(index=ROWS), var=pd.DataFrame(index=COLUMNS))
    data.layers["counts"] = values
    return data


def write_h5ad(folder: Path, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        annotated(**options).write_h5ad(folder / "cells.h5ad")
    return folder / "cells.h5ad"


def write_zarr(folder: Path, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        annotated(**options).write_zarr(folder / "cells.zarr")
    return folder / "cells.zarr"


def frame() -> Any:
    import pandas as pd

    return pd.DataFrame(counts(), index=ROWS, columns=COLUMNS)


def write_csv(folder: Path) -> Path:
    frame().to_csv(folder / "wide.csv")
    return folder / "wide.csv"


def write_tsv_gz(folder: Path) -> Path:
    frame().to_csv(folder / "wide.tsv.gz", sep="\t")
    return folder / "wide.tsv.gz"


def long_frame() -> Any:
    long = frame().reset_index(names="sample").melt("sample", var_name="feature", value_name="count")
    return long[long["count"] > 0]


def write_long(folder: Path) -> Path:
    long_frame().to_csv(folder / "long.csv", index=False)
    return folder / "long.csv"


def write_parquet(folder: Path) -> Path:
    long_frame().to_parquet(folder / "long.parquet", index=False)
    return folder / "long.parquet"


def write_docword(folder: Path) -> Path:
    entries = sp.coo_array(counts())
    triples = zip(entries.row + 1, entries.col + 1, entries.data, strict=True)
    text = f"7\n5\n{entries.nnz}\n" + "".join(f"{d} {w} {count}\n" for d, w, count in triples)
    (folder / "docword.toy.txt").write_text(text)
    return folder / "docword.toy.txt"


def write_ldac(folder: Path) -> Path:
    lines = []
    for row in counts():
        terms = np.flatnonzero(row)
        lines.append(" ".join([str(len(terms)), *(f"{term}:{row[term]}" for term in terms)]) + "\n")
    (folder / "toy.ldac").write_text("".join(lines))
    return folder / "toy.ldac"


def dense(matrix: Any) -> Any:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
