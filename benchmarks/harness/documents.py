"""Documents and models of the likelihood benchmarks: drawn by seed, never the shortest."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.data import real

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Documents:
    """Rows of counts and a Gamma-Poisson model of them: ``estimator(counts, *model)``."""

    name: str
    counts: Any
    model: tuple[Floats, Floats, Floats]

    @property
    def lengths(self) -> Floats:
        """Tokens of each document."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.float64).ravel()

    def rows(self, rows: Any) -> Documents:
        """Some of the documents."""
        return Documents(self.name, self.counts[rows], self.model)


def published(name: str) -> Documents | str:
    """A model of the folder ``gap`` of PARTWISE_DATA with its documents, or why it cannot be had."""
    folder = os.environ.get("PARTWISE_DATA")
    if not folder:
        return "PARTWISE_DATA is not set"
    if not (Path(folder) / "gap" / f"{name}.npz").exists():
        return f"PARTWISE_DATA has no file gap/{name}.npz"
    from partwise.datasets import load_gap

    gap = load_gap(name)
    return Documents(name, gap.counts.matrix.tocsr(), (gap.dictionary, gap.shape, gap.rate))


def drawn(documents: Documents, n: int, *, most_tokens: float = np.inf, seed: int = 0) -> Documents:
    """``n`` documents drawn by seed from the longer half of those of at most so many tokens."""
    lengths = documents.lengths
    allowed = lengths[lengths <= most_tokens]
    longer = np.flatnonzero((lengths <= most_tokens) & (lengths >= np.median(allowed)))
    return documents.rows(np.random.default_rng(seed).choice(longer, n, replace=False))


def held_out(n_components: int, n_documents: int, *, n_sweeps: int, seed: int = 0) -> tuple[Documents, float] | str:
    """Documents of nips_uci7605 and a model that was fitted to all others, and seconds of the fit; or why not."""
    dataset = real("nips_uci7605")
    if dataset.missing:
        return dataset.missing
    from partwise import BetaGammaPFA

    counts = dataset.load()
    order = np.random.default_rng(seed).permutation(counts.shape[0])
    model = BetaGammaPFA(n_components, burn_in=n_sweeps, n_draws=n_sweeps // 4, random_state=seed, progress=False)
    seconds = cpu_seconds(model.fit, counts[np.sort(order[n_documents:])])[0]
    parameters = model.components_.T, model.shape_, model.rate_
    return Documents("nips_uci7605", counts[np.sort(order[:n_documents])], parameters), seconds


def cpu_seconds(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[float, Any]:
    """Processor time of a call, which others on the machine hardly touch, and what it returned."""
    began = time.process_time()
    result = function(*arguments, **options)
    return time.process_time() - began, result
