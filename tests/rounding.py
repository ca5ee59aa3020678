"""Estimators that round their input and are otherwise the originals: scikit-learn's checks pass reals to everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise import AllocationNMF, BetaGammaPFA, GammaPoissonNMF, NegativeBinomialNMF


def rounded(X: Any) -> Any:
    """The same object with whole numbers in it; what is not numeric is left for the estimator to refuse."""
    if sp.issparse(X) and X.dtype.kind == "f":
        coo = X.tocoo(copy=True)
        coo.data = np.round(coo.data)
        return coo.asformat(X.format)
    if (isinstance(X, np.ndarray) and X.dtype.kind == "f") or hasattr(X, "columns"):
        return X.round()
    if not isinstance(X, np.ndarray) or X.dtype.kind == "O":
        try:
            return np.round(np.asarray(X, dtype=np.float64))
        except (TypeError, ValueError):
            return X
    return X


class Rounding:
    """Rounds what every method takes."""

    def _data(self, X: Any, **options: Any) -> Any:
        return super()._data(rounded(X), **options)  # type: ignore[misc]


class RoundingPFA(Rounding, BetaGammaPFA):
    pass


class RoundingNMF(Rounding, GammaPoissonNMF):
    pass


class RoundingAllocation(Rounding, AllocationNMF):
    pass


class RoundingNegativeBinomial(Rounding, NegativeBinomialNMF):
    pass
