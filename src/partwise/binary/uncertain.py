"""What estimators of bits that sample or have posteriors share: how sure they are, and what a fit leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise.binary.fitted import BinaryEstimator, Floats, checked_cells
from partwise.binary.inference.moments import beta_moments, dirichlet_moments
from partwise.binary.inference.posterior import Posterior
from partwise.binary.model import BinaryModel
from partwise.core.chains import ChainedEstimator, check_chains
from partwise.core.data import BinaryMatrix
from partwise.core.estimator import check_array_is
from partwise.errors import InvalidInputError

_ACTIVE = 0.01


class UncertainEstimator(ChainedEstimator, BinaryEstimator):
    """Base of the estimators of bits that know how sure they are."""

    inference: str

    components_std_: Floats
    activations_: Floats
    activations_std_: Floats
    component_cells_: Floats
    online_averages_: Floats
    n_samples_seen_: int
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

    def _store_online(self, model: BinaryModel, averages: Floats, n_seen: int) -> None:
        self.online_averages_, self.n_samples_seen_ = averages, n_seen
        counts = averages * n_seen
        if model.kind == "dir-beta":
            moments, shares = beta_moments(counts, model.alpha, model.beta), counts.sum(axis=(0, 2))
        else:
            moments, shares = dirichlet_moments(counts, model.concentration), counts.sum(axis=0)
        self._store_dictionary(moments.mean, np.sqrt(moments.variance), shares)

    def _store(self, data: BinaryMatrix, posterior: Posterior) -> None:
        self._store_cells(data, posterior.probability)
        self._store_dictionary(posterior.dictionary, posterior.dictionary_std, posterior.component_cells)
        self.activations_ = posterior.activations
        if posterior.activations_std is not None and posterior.probability_std is not None:
            self.activations_std_, self.probabilities_std_ = posterior.activations_std, posterior.probability_std

    def _store_dictionary(self, dictionary: Floats, std: Floats | None, component_cells: Floats) -> None:
        self._store_components(dictionary, component_cells)
        if std is not None:
            self.components_std_ = np.ascontiguousarray(std.T)
        self.component_cells_ = component_cells
        active = component_cells >= self._active_share() * max(float(component_cells.sum()), 1e-300)
        self.active_components_ = np.flatnonzero(active)
        self.n_active_components_ = int(self.active_components_.size)

    def _active_share(self) -> float:
        return _ACTIVE if self.active_threshold is None else float(self.active_threshold)

    def _probabilities(self, activations: Floats, columns: Any = slice(None)) -> Floats:
        found: Floats = activations @ self.components_[:, columns]
        return found

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not np.all((self.components_ >= 0) & (self.components_ <= 1)):
            raise ValueError("its components are not probabilities")
        if hasattr(self, "online_averages_"):
            n_dimensions = self.online_averages_.ndim
            shape = (self.n_features_in_, self.n_components_, 2)[:n_dimensions]
            check_array_is(self.online_averages_, "online_averages_", shape)
        if hasattr(self, "log_joint_draws_"):
            check_chains(self._chains())
