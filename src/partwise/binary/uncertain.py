"""What a posterior adds to predictions: standard deviations, and whether chains agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise.binary.fitted import BinaryEstimator, Floats, checked_cells
from partwise.core.chains import ChainedEstimator
from partwise.errors import InvalidInputError


class UncertainEstimator(ChainedEstimator, BinaryEstimator):
    """Base of the estimators of bits that know how sure they are."""

    inference: str

    probabilities_std_: Floats
    log_joint_draws_: Floats
    log_likelihood_draws_: Floats
    n_active_draws_: Floats
    missing_probability_draws_: Floats

    def predict_std(self, *, cells: tuple[Any, Any] | None = None) -> Floats:
        """Posterior standard deviation of the probability of each cell of the training matrix.

        Parameters
        ----------
        cells
            Rows and columns of some cells; by default all.

        Returns
        -------
        ndarray
            Samples x features, or one number a cell. Not there after maximum likelihood.
        """
        check_is_fitted(self, "components_")
        whole = getattr(self, "probabilities_std_", None)
        if whole is None:
            raise InvalidInputError(
                f"inference={self.inference!r} gives no posterior standard deviations here: use 'gibbs', 'cvb0' or 'vb'"
                " on a whole matrix."
            )
        picked: Floats = whole.copy() if cells is None else whole[checked_cells(cells, whole.shape)]
        return picked

    def _chains(self) -> dict[str, Floats]:
        check_is_fitted(self, "components_")
        if not hasattr(self, "log_joint_draws_"):
            raise InvalidInputError(f"inference={self.inference!r} has no chains: use 'gibbs' or 'gibbs-partial'.")
        names = ("log_joint", "log_likelihood", "n_active", "missing_probability")
        chains = {name: np.asarray(getattr(self, f"{name}_draws_")) for name in names}
        return {name: values for name, values in chains.items() if not np.isnan(values).any()}
