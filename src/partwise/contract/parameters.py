"""Parameters that most estimators take, as scikit-learn parameter constraints, and the check of them."""

import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from partwise.core.checkpoint import Checkpoint

Method = TypeVar("Method", bound=Callable[..., Any])

POSITIVE = Interval(Real, 0, None, closed="neither")
AT_LEAST_0 = Interval(Integral, 0, None, closed="left")
AT_LEAST_1 = Interval(Integral, 1, None, closed="left")

COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [AT_LEAST_1],
    "max_iter": [AT_LEAST_0],
    "tol": [Interval(Real, 0, None, closed="left")],
    "active_threshold": [Interval(Real, 0, 1, closed="both"), None],
    "random_state": ["random_state", np.random.Generator],
    "n_jobs": [Integral, None],
    "engine": [str, HasMethods(["map_reduce", "for_each"]), HasMethods(["submit"]), HasMethods(["scale"]), None],
    "progress": ["boolean", None],
    "callbacks": [tuple, list],
    "checkpoint": [str, os.PathLike, Checkpoint, None],
    "resume": ["boolean"],
}
"""Constraints of parameters that most estimators have."""

CHAIN_CONSTRAINTS: dict[str, list[Any]] = {
    "max_iter": [AT_LEAST_0, StrOptions({"auto"})],
    "n_draws": [AT_LEAST_1],
    "burn_in": [AT_LEAST_0],
    "thin": [AT_LEAST_1],
    "n_chains": [AT_LEAST_1],
    "max_memory": [POSITIVE],
}
"""Constraints for models with samplers of labels."""

KNOWN_PART_CONSTRAINTS: dict[str, list[Any]] = {
    "seeds": [Mapping, str, os.PathLike, None],
    "seed_weight": [POSITIVE],
    "fixed_parts": ["array-like", None],
}
"""Constraints for models that accept prior knowledge about parts."""


def checks_parameters(method: Method) -> Method:
    """Make `fit` or `partial_fit` check the estimator's parameters first: scikit-learn's decorator, with types."""
    return cast(Method, _fit_context(prefer_skip_nested_validation=True)(method))
