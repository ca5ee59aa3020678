"""What the paper gives: its dictionary, its three algorithms, and their colours in its figures."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from partwise import GammaPoissonNMF
from partwise.core.keys import Key
from partwise.gamma_poisson import GammaPoissonModel

# Eq. 50, features x components.
DICTIONARY = np.array([[0.638, 0.075], [0.009, 0.568], [0.044, 0.126], [0.309, 0.231]])
ALGORITHMS = {"mcem-c": "tab:red", "mcem-h": "tab:green", "mcem-ch": "tab:blue"}


def counts(scale: float, seed: int = 0, n_samples: int = 100) -> Any:
    """A data set of the model with ``scale`` times the paper's dictionary, shapes and rates 1."""
    return GammaPoissonModel(scale * DICTIONARY).simulate(Key(seed).for_stage("data"), n_samples)


class Dictionaries:
    """Keeps the dictionary after each iteration, and the CPU seconds."""

    def __init__(self) -> None:
        self._began = time.process_time()
        self.kept: list[np.ndarray[Any, Any]] = []
        self.seconds: list[float] = []

    def __call__(self, iteration: int, state: Any, trace: Any) -> None:
        """Called after each iteration of a fit."""
        self.kept.append(state.dictionary.copy())
        self.seconds.append(time.process_time() - self._began)


@cache
def compile_kernels(name: str) -> None:
    """A fit of a few samples, so that no compilation is timed."""
    settings: dict[str, Any] = {} if name == "auto" else {"max_iter": 2, "tol": 0.0}
    GammaPoissonNMF(3, inference=name, random_state=0, progress=False, **settings).fit(counts(1, n_samples=20))


def followed(X: Any, n_components: int, name: str, n_iterations: int, n_draws: int) -> Dictionaries:
    """A fit as in the paper, half of the draws of an iteration burn-in, and all its dictionaries."""
    compile_kernels(name)
    seen = Dictionaries()
    GammaPoissonNMF(
        n_components,
        inference=name,
        draws_per_iter=n_draws // 2,
        burn_in_per_iter=n_draws // 2,
        max_iter=n_iterations,
        random_state=0,
        callbacks=[seen],
        progress=False,
    ).fit(X)
    return seen
