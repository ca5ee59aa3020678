"""What the paper gives: its dictionary, its three algorithms, and their colours in our figures."""

import time
from collections.abc import Container
from functools import cache
from typing import Any

import numpy as np

from partwise import GammaPoissonNMF
from partwise.core.keys import Key
from partwise.gamma_poisson import GammaPoissonModel
from partwise.kernels.arrays import Floats

# Eq. 50, features x components.
DICTIONARY = np.array([[0.638, 0.075], [0.009, 0.568], [0.044, 0.126], [0.309, 0.231]])
ALGORITHMS = {"mcem-c": "#D55E00", "mcem-ch": "#0072B2", "mcem-h": "#009E73"}


def counts(scale: float, seed: int = 0, n_samples: int = 100) -> Any:
    """A data set of the model with ``scale`` times the paper's dictionary, shapes and rates 1."""
    return GammaPoissonModel(scale * DICTIONARY).simulate(Key(seed).for_stage("data"), n_samples)


class Dictionaries:
    """A callback that keeps the dictionary and the CPU seconds so far, after each iteration or after some of them.

    Parameters
    ----------
    wanted
        Iterations whose dictionaries are kept; all by default.
    """

    def __init__(self, wanted: Container[int] | None = None) -> None:
        self._wanted, self._began = wanted, time.process_time()
        self.kept: dict[int, Floats] = {}
        self.seconds: dict[int, float] = {}

    def __call__(self, iteration: int, state: Any, trace: Any) -> None:
        """Called after each iteration of a fit."""
        self.seconds[iteration] = time.process_time() - self._began
        if self._wanted is None or iteration in self._wanted:
            # The state of online EM is a statistic.
            dictionary = getattr(state, "dictionary", None)
            self.kept[iteration] = (state.statistic if dictionary is None else dictionary).copy()


@cache
def compile_kernels(name: str) -> None:
    """A fit of a few samples, so that no compilation is timed."""
    settings: dict[str, Any] = {} if name == "thorough" else {"max_iter": 2, "tol": 0.0}
    GammaPoissonNMF(3, inference=name, random_state=0, progress=False, **settings).fit(counts(1, n_samples=20))


def followed(X: Any, n_components: int, name: str, n_iterations: int, n_draws: int) -> Dictionaries:
    """A fit as in the paper, half of the draws of an iteration burn-in, and all its dictionaries."""
    compile_kernels(name)
    seen = Dictionaries()
    how: dict[str, Any] = {"draws_per_iter": n_draws // 2, "burn_in_per_iter": n_draws // 2, "callbacks": [seen]}
    model = GammaPoissonNMF(n_components, inference=name, max_iter=n_iterations, random_state=0, progress=False, **how)
    model.fit(X)
    return seen
