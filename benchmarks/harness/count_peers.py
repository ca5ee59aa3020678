"""Poisson factorizations of others, one thread each: a fit of counts leaves activations and components."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.contract.offers import Offers

Floats = NDArray[np.float64]


class Fitted(Offers):
    """What is needed for a score, and the processor seconds that it took."""

    def __init__(self, activations: Floats, components: Floats, seconds: float) -> None:
        self.activations_, self.components_, self.seconds = activations, components, seconds
        self.n_components_ = len(components)


@dataclass(frozen=True)
class CountPeer:
    """A package, its settings in words, and how it fits ``(counts, n_components, seed)``."""

    package: str
    name: str
    fit: Callable[[Any, int, int], Fitted]

    @property
    def missing(self) -> str:
        return "" if importlib.util.find_spec(self.package) else f"{self.package} is not installed"


def _hpfrec(counts: Any, n_components: int, seed: int) -> Fitted:
    from hpfrec import HPF

    model = HPF(
        n_components,
        ncores=1,
        stop_crit="train-llk",
        reindex=False,
        verbose=False,
        random_seed=seed + 1,
        keep_all_objs=False,
        keep_data=False,
        produce_dicts=False,
    )
    return _timed(counts, model, ("Theta", "Beta"))


def _poismf(penalty: float) -> Callable[[Any, int, int], Fitted]:
    def fit(counts: Any, n_components: int, seed: int) -> Fitted:
        from poismf import PoisMF

        model = PoisMF(n_components, method="tncg", l2_reg=penalty, nthreads=1, reindex=False, random_state=seed + 1)
        return _timed(counts, model, ("A", "B"))

    return fit


def _timed(counts: Any, model: Any, factors: tuple[str, str]) -> Fitted:
    matrix = counts.astype(np.float64).tocoo()
    began = time.process_time()
    model.fit(matrix)
    seconds = time.process_time() - began
    activations, dictionary = (np.asarray(getattr(model, name), dtype=np.float64) for name in factors)
    return Fitted(activations, dictionary.T, seconds)


COUNT_PEERS = (
    CountPeer("hpfrec", "hpfrec, stops by its training likelihood", _hpfrec),
    CountPeer("poismf", "poismf, tncg, its penalty", _poismf(1e3)),
    # Its own penalties are for rankings; a small one predicts counts better, so it is measured as well.
    CountPeer("poismf", "poismf, tncg, l2_reg=1", _poismf(1.0)),
)
