"""What a posterior adds to predictions: standard deviations, and whether chains agree."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise.binary.fitted import BinaryEstimator, Floats, checked_cells
from partwise.binary.inference.diagnostics import Diagnostic, diagnose
from partwise.errors import InvalidInputError
from partwise.io.optional import require


class UncertainEstimator(BinaryEstimator):
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

    def diagnostics(self) -> dict[str, Diagnostic]:
        """Rank-normalised R-hat and effective sample sizes of what does not depend on how parts are numbered.

        Returns
        -------
        dict
            ``Diagnostic(mean, r_hat, ess_bulk, ess_tail)`` of each of ``log_joint``, ``log_likelihood``, ``n_active``
            and ``missing_probability``. An R-hat above 1.01 says that chains do not agree yet: raise ``burn_in``.
        """
        return {name: diagnose(values) for name, values in self._chains().items()}

    def to_arviz(self) -> Any:
        """The same quantities, chains x draws, as an ``arviz.InferenceData`` (the extra ``arviz``).

        The log-likelihood of the observed cells is called ``data_log_likelihood`` there.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # said by arviz about its own future when it is imported
            arviz = require("arviz", "arviz", "to_arviz")
        chains = self._chains()
        # Under its own name arviz takes it for the pointwise log-likelihood that its scores need.
        chains["data_log_likelihood"] = chains.pop("log_likelihood")
        return arviz.from_dict(posterior=chains)

    def _chains(self) -> dict[str, Floats]:
        check_is_fitted(self, "components_")
        if not hasattr(self, "log_joint_draws_"):
            raise InvalidInputError(f"inference={self.inference!r} has no chains: use 'gibbs' or 'gibbs-partial'.")
        names = ("log_joint", "log_likelihood", "n_active", "missing_probability")
        chains = {name: np.asarray(getattr(self, f"{name}_draws_")) for name in names}
        return {name: values for name, values in chains.items() if not np.isnan(values).any()}
