"""Processor seconds and peak memory of ``partwise count`` on made-up CSV files of several sizes.

Run ``python -m benchmarks.count_memory 0.5 2`` in the root of the repository: sizes in GB (10^9 bytes).
Documents have 100 to 250 words of three million, by a Zipf-Mandelbrot law: new words keep turning up as in real text.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import string
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_WORDS, _DOCUMENTS = 3_000_000, 2000


def write_csv(path: Path, size: float) -> None:
    """Write documents until the file has so many bytes."""
    rng = np.random.default_rng(0)
    edges = np.cumsum((np.arange(N_WORDS) + 2.7) ** -1.25)
    words = [_spelled(rank) for rank in range(N_WORDS)]
    n_documents = 0
    with path.open("w") as file:
        file.write("id,year,text\n")
        while file.tell() < size:
            lengths = rng.integers(100, 250, _DOCUMENTS)
            drawn = np.searchsorted(edges, rng.random(lengths.sum()) * edges[-1]).tolist()
            start = 0
            for length in lengths.tolist():
                text = " ".join([words[rank] for rank in drawn[start : start + length]])
                file.write(f"document{n_documents},{2000 + n_documents % 20},{text}\n")
                start, n_documents = start + length, n_documents + 1


def _spelled(rank: int) -> str:
    """A word of four letters or more; common ones are short."""
    letters = ""
    while rank or len(letters) < 4:
        rank, letter = divmod(rank, 26)
        letters += string.ascii_lowercase[letter]
    return letters


def main() -> None:
    """Print one line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=float, nargs="*", default=[0.5, 2.0], metavar="GB")
    parser.add_argument("--keep-texts", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.sizes:
            source, target = Path(folder) / "texts.csv", Path(folder) / "counts.npz"
            # In a process of its own: a process begins with the peak of the one that started it.
            writer = multiprocessing.get_context("spawn").Process(target=write_csv, args=(source, size * 1e9))
            writer.start()
            writer.join()
            command = [sys.executable, "-m", "partwise", "count", str(source), "-o", str(target)]
            command += ["--text-column", "text", "--id-column", "id", "--time-column", "year"]
            command += ["--keep-texts"] * arguments.keep_texts
            begun = time.perf_counter()
            _, status, used = os.wait4(subprocess.Popen(command).pid, 0)
            took = time.perf_counter() - begun
            if status:
                raise SystemExit(f"partwise count ended with status {status}.")
            print(
                f"{source.stat().st_size / 1e9:.2f} GB: {used.ru_utime + used.ru_stime:.0f} CPU seconds ({took:.0f} s),"
                f" peak {used.ru_maxrss * 1024 / 1e9:.2f} GB, counts file {target.stat().st_size / 1e9:.2f} GB",
                flush=True,
            )


if __name__ == "__main__":
    main()
