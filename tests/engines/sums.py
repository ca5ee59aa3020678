"""Terms on which the order of a sum shows, and the order that is documented."""

from __future__ import annotations

from typing import Any

import numpy as np


def reference(terms: list[Any]) -> Any:
    """The tree of the documentation, level by level."""
    while len(terms) > 1:
        pairs = [terms[j] + terms[j + 1] for j in range(0, len(terms) - 1, 2)]
        terms = pairs + ([terms[-1]] if len(terms) % 2 else [])
    return terms[0]


def adversarial(n_terms: int) -> list[float]:
    """Terms of very different sizes that nearly cancel, so that nearly every order gives other bits."""
    generator = np.random.default_rng(n_terms)
    return (generator.normal(size=n_terms) * 10.0 ** generator.integers(-12, 12, size=n_terms)).tolist()
