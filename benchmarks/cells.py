"""A study of single cells from .h5ad to .h5ad by the command: wall time, processor time and memory of each step.

``python -m benchmarks.cells FOLDER`` simulates 50,000 cells x 15,000 genes with 5% nonzeros: four batches, eight cell
types and four programmes. It then compares numbers of parts for eight minutes, fits with batches, finds markers, takes
a consensus of 20 restarts, draws figures and writes the cells with their activations. It prints the output of each
step, and a table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_K = "12"
STEPS: dict[str, tuple[str, ...]] = {
    "compare": (
        *("compare", "cells.h5ad", "--models", "poisson,gamma-poisson", "--ranks", "4,8,12,16", "--rule", "best"),
        *("--time-budget", "8m", "--restarts", "2", "--plot", "ranks.png", "-o", "comparison"),
    ),
    "fit without batches": ("fit", "cells.h5ad", "-k", _K, "--tol", "1e-5", "-o", "plain.partwise"),
    "fit": ("fit", "cells.h5ad", "-k", _K, "--batch", "batch", "--tol", "1e-5", "-o", "programmes.partwise"),
    "markers": (
        *("markers", "programmes.partwise", "cells.h5ad", "--batch", "batch", "-o", "markers.csv"),
        *("--volcano", "volcano.png"),
    ),
    "consensus": (
        *("fit", "cells.h5ad", "-k", _K, "--batch", "batch", "--tol", "1e-4", "--consensus", "--n-restarts", "20"),
        *("--max-samples", "5000", "-o", "consensus.partwise"),
    ),
    "structure plot": (
        *("plot", "programmes.partwise", "cells.h5ad", "--batch", "batch", "--kind", "structure"),
        *("--groups", "group", "-o", "structure.png"),
    ),
    "transform": ("transform", "programmes.partwise", "cells.h5ad", "--batch", "batch", "-o", "with_programmes.h5ad"),
}


@dataclass(frozen=True)
class Measured:
    """What a step took."""

    wall: float
    processor: float
    memory: float
    output: str


def simulate(path: Path, n_cells: int, n_genes: int, mean_total: float) -> None:
    """Write the cells, and beside them the true programmes."""
    import anndata
    import pandas as pd

    from partwise.datasets import simulate_batches

    table, _, dictionary = simulate_batches(n_cells, n_genes, mean_total=mean_total, random_state=0)
    cells = anndata.AnnData(
        table.matrix.astype(np.float32),
        obs=pd.DataFrame(dict(table.metadata), index=table.row_labels),
        var=pd.DataFrame(index=table.column_labels),
    )
    cells.write_h5ad(path, compression="gzip")
    np.save(path.with_suffix(".npy"), dictionary)
    print(f"{n_cells:,} x {n_genes:,} cells, {table.matrix.nnz / (n_cells * n_genes):.1%} nonzeros")


def run(step: tuple[str, ...], folder: Path) -> Measured:
    """Run one command of partwise on two threads, and measure it."""
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "partwise", *step, "--threads", "2"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"partwise {' '.join(step)}: {output}")
    wall, processor = time.perf_counter() - began, used.ru_utime + used.ru_stime
    return Measured(wall, processor, used.ru_maxrss / 2**20, output)


def main() -> None:
    """Simulate the cells unless they are there, and run all steps, or those that are named."""
    from benchmarks.suite.batches_peers import recovery
    from partwise import load

    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--cells", type=int, default=50_000)
    asked.add_argument("--genes", type=int, default=15_000)
    asked.add_argument("--mean-total", type=float, default=800.0)
    asked.add_argument("--steps", nargs="*", choices=list(STEPS), default=list(STEPS))
    given = asked.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    data = given.folder / "cells.h5ad"
    if not data.exists():
        simulate(data, given.cells, given.genes, given.mean_total)
    lines = ["| step | wall, s | processor, s | peak memory, GB |", "|---|---|---|---|"]
    found = {}
    for name in given.steps:
        found[name] = one = run(STEPS[name], given.folder)
        lines.append(f"| {name} | {one.wall:.0f} | {one.processor:.0f} | {one.memory:.2f} |")
        print(f"$ partwise {' '.join(STEPS[name])}\n{one.output}{lines[-1]}\n", flush=True)
    wall, processor = sum(one.wall for one in found.values()), sum(one.processor for one in found.values())
    lines.append(f"| all | {wall:.0f} | {processor:.0f} | {max(one.memory for one in found.values()):.2f} |")
    print("\n".join(lines))
    truth = np.load(data.with_suffix(".npy")).T
    for model in ("plain", "programmes", "consensus"):
        if (path := given.folder / f"{model}.partwise").exists():
            print(f"{model}: smallest correlation with a true part {recovery(load(path).components_, truth):.3f}")


if __name__ == "__main__":
    main()
