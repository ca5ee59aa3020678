"""What a fitted `BinaryNMF` keeps, and what it computes for samples: priors, activations, standard deviations."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise.binary.inference.activations import Way, activations_of
from partwise.binary.inference.posterior import Posterior, beta_moments, dirichlet_moments
from partwise.binary.inference.starts import starts_of
from partwise.binary.model import BinaryModel, Estimated, Priors
from partwise.contract.bits import BitModel, checked_cells
from partwise.contract.model_file import check_array_is
from partwise.core.data import BinaryMatrix
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats

# Start of learning: parts that are fairly certain of their values.
_FIRST_BETA = 0.5
_WAYS: dict[str, Way] = {"gibbs": "sample", "gibbs-partial": "sample", "em": "mode", "map": "mode"}


@dataclass(eq=False, repr=False)
class BinarySamples(BitModel):
    """The priors of a model of bits, given and fitted, and what follows from them for samples."""

    _: KW_ONLY
    model: str = "dir-beta"
    inference: str = "gibbs"
    beta_prior: Sequence[float] | str = "estimate"
    concentration: float | str = "estimate"
    activation_concentration: float | str = "estimate"
    nonparametric: bool = True
    batch_size: int | None = None

    components_std_: Floats = field(init=False)
    activations_: Floats = field(init=False)
    activations_std_: Floats = field(init=False)
    component_cells_: Floats = field(init=False)
    beta_prior_: Floats = field(init=False)
    concentration_: Floats = field(init=False)
    activation_concentration_: Floats = field(init=False)
    online_averages_: Floats = field(init=False)
    probabilities_std_: Floats = field(init=False)
    chain_weights_: Floats = field(init=False)

    def _binary_model(self) -> BinaryModel:
        prior: Any = (_FIRST_BETA, _FIRST_BETA) if self.beta_prior == "estimate" else tuple(self.beta_prior)
        if len(prior) != 2 or not all(isinstance(part, Real) and 0 < float(part) < np.inf for part in prior):
            raise InvalidInputError(f"beta_prior must be two positive numbers (alpha, beta), got {self.beta_prior!r}.")
        if self.model == "dir-dir" and self.inference in ("cvb0", "cvb", "gibbs-partial"):
            raise InvalidInputError(
                f"inference={self.inference!r} needs a beta factor, which model='dir-dir' does not have: use 'gibbs',"
                " 'vb' or 'em', or another model."
            )
        if self.batch_size is not None and self.inference != "vb":
            raise InvalidInputError(f"batch_size is for inference='vb', not for {self.inference!r}: leave it out.")
        share = 1.0 / self.n_components if self.nonparametric else 1.0
        concentration, own = self.concentration, self.activation_concentration
        kinds: dict[Estimated, bool] = {
            "beta": self.beta_prior == "estimate" and self.model != "dir-dir",
            "concentration": concentration == "estimate",
            "activation_concentration": own == "estimate" and self.model == "dir-dir",
        }
        return BinaryModel(
            cast(Any, self.model),
            int(self.n_components),
            alpha=float(prior[0]),
            beta=float(prior[1]),
            concentration=share if isinstance(concentration, str) else concentration * share,
            activation_concentration=share if isinstance(own, str) else own,
            estimated=() if self.inference == "em" else tuple(name for name, wanted in kinds.items() if wanted),
            concentration_shape=share,
        )

    def _fitted_model(self) -> BinaryModel:
        """The model with the given or learned priors, for new samples."""
        learned = (*self.beta_prior_.T, self.concentration_, self.activation_concentration_)
        return replace(self._binary_model(), n_components=self.n_components_).with_priors(np.array(learned))

    def _activations(self, data: BinaryMatrix) -> Floats:
        way, model = _WAYS.get(self.inference, "variational"), self._fitted_model()
        if self.inference == "em":
            model = model.with_priors(np.zeros((len(model.priors), model.n_components)))
        return activations_of(data, model, self.components_.T.copy(), way, self._engine())

    def predict_std(self, *, cells: tuple[Any, Any] | None = None) -> Floats:
        """Posterior standard deviation of the probability of each cell of the training matrix.

        Parameters
        ----------
        cells
            Rows and columns of some cells; by default all.

        Returns
        -------
        ndarray
            Samples x features, or one number per cell. Not available after maximum likelihood.
        """
        check_is_fitted(self, "components_")
        whole = getattr(self, "probabilities_std_", None)
        if whole is None:
            raise InvalidInputError(
                f"inference={self.inference!r} gives no posterior standard deviations here: use 'gibbs', 'cvb0' or 'vb'"
                " on a whole matrix."
            )
        return np.asarray(whole.copy() if cells is None else whole[checked_cells(cells, whole.shape)])

    @property
    def smallest_rank(self) -> int:
        """With one part, Dir-Dir would predict only ones."""
        return 2 if self.model == "dir-dir" else 1

    @property
    def importance_words(self) -> tuple[str, str]:
        """What the entries of the dictionary mean, in words."""
        # If features are spread over parts, an entry is the part's share of the feature.
        inside = "probability in the part" if self.model == "dir-beta" else "share of the feature in the part"
        return inside, "frequency overall"

    def _store_online(self, model: BinaryModel, averages: Floats, n_seen: int) -> None:
        self.online_averages_ = averages
        counts = averages * n_seen
        if model.kind == "dir-beta":
            moments, shares = beta_moments(counts, model.priors.alpha, model.priors.beta), counts.sum(axis=(0, 2))
        else:
            moments, shares = dirichlet_moments(counts, model.priors.concentration), counts.sum(axis=0)
        self._store_dictionary(moments.mean, np.sqrt(moments.variance), shares)
        self._store_priors(model.priors)

    def _store(self, data: BinaryMatrix, posterior: Posterior) -> None:
        self._store_cells(data, posterior.probability)
        self._store_dictionary(posterior.dictionary, posterior.dictionary_std, posterior.component_cells)
        self._store_priors(posterior.priors)
        self.activations_ = posterior.activations
        if posterior.activations_std is not None and posterior.probability_std is not None:
            self.activations_std_, self.probabilities_std_ = posterior.activations_std, posterior.probability_std

    def _store_dictionary(self, dictionary: Floats, std: Floats | None, component_cells: Floats) -> None:
        self._store_components(dictionary, component_cells)
        if std is not None:
            self.components_std_ = np.ascontiguousarray(std.T)
        self.component_cells_ = component_cells

    def _store_priors(self, priors: Priors) -> None:
        self.beta_prior_ = np.stack((priors.alpha, priors.beta), axis=1)
        self.concentration_ = priors.concentration
        self.activation_concentration_ = priors.activation_concentration

    def facts(self) -> Mapping[str, float]:
        """Learned priors (α and β of the average cell's part, concentrations of all parts), and weights."""
        learned = self._binary_model().estimated
        share = self.component_cells_ / max(float(self.component_cells_.sum()), 1.0)
        found: dict[str, float] = {}
        if "beta" in learned:
            alpha, beta = share @ self.beta_prior_
            found |= {"α of the beta prior": float(alpha), "β of the beta prior": float(beta)}
        if "concentration" in learned:
            found["concentration"] = float(self.concentration_.sum())
        if "activation_concentration" in learned:
            found["concentration of the activations"] = float(self.activation_concentration_.sum())
        weights = getattr(self, "chain_weights_", np.ones(1))
        if np.ptp(weights) > 0.0:
            random = [start == "random" for start in starts_of("mixed", weights.size)]
            found["weight of chains from random labels"] = float(weights[random].sum())
        return found

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_array_is(self.beta_prior_, "beta_prior_", (self.n_components_, 2))
        for name in ("concentration_", "activation_concentration_"):
            check_array_is(getattr(self, name), name, (self.n_components_,))
        if not np.all((self.components_ >= 0) & (self.components_ <= 1)):
            raise ValueError("its parts are not probabilities")
        if hasattr(self, "online_averages_"):
            shape = (self.n_features_in_, self.n_components_, 2)[: self.online_averages_.ndim]
            check_array_is(self.online_averages_, "online_averages_", shape)
