"""What a fitted model offers to other code: expected values, part names and weights, diagnostics."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.contract.declaration import Declaration
from partwise.core.keys import RandomState
from partwise.core.result import Status, Trace
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.io.optional import require
from partwise.kernels.arrays import Floats
from partwise.passes.side import cell_rates

if TYPE_CHECKING:
    from partwise.likelihood.problem import LogLikelihood
    from partwise.sampling.agreement import Diagnostic


@dataclass(eq=False, repr=False)
class Fitted:
    """What every fit stores. Names end in an underscore; some attributes are absent until they are known."""

    components_: Floats = field(init=False)
    part_weights_: Floats = field(init=False)
    n_components_: int = field(init=False)
    n_active_components_: int = field(init=False)
    active_components_: NDArray[np.intp] = field(init=False)
    n_iter_: int = field(init=False)
    n_batches_: int = field(init=False)
    n_samples_seen_: int = field(init=False)
    training_fingerprint_: str = field(init=False)
    trace_: Trace = field(init=False)
    status_: Status = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: NDArray[Any] = field(init=False)
    component_names_: NDArray[Any] = field(init=False)
    presence_prior_: Floats = field(init=False)


class Offers(Fitted, ABC):
    """Methods that every estimator has; families override those that they can do better."""

    declares: ClassVar[Declaration]
    # From the base class, for the mixins beside it.
    _engine: Callable[[], Engine]
    _compiling: Callable[[], AbstractContextManager[None]]
    _data: Callable[..., Any]
    checked_data: Callable[..., Any]

    # Expected values

    def expected(self, activations: Floats, columns: Any = slice(None)) -> Floats:
        """Expected values of all cells for given activations (of bits: probabilities of a one).

        Parameters
        ----------
        activations
            Samples x parts.
        columns
            Positions of some features; all by default.
        """
        return np.asarray(activations @ self.components_[:, columns])

    def expected_cells(self, activations: Floats, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
        """Expected values of single cells, one per pair of row and column."""
        return cell_rates(activations, self.components_.T, rows, columns)

    def expected_totals(self, activations: Floats) -> Floats:
        """Expected total of each sample."""
        return np.asarray(activations @ self.components_.sum(axis=1))

    def training_activations(self, X: Any) -> Floats:
        """Activations of the training samples: those that the fit kept, or the result of `transform`.

        Parameters
        ----------
        X
            The training data.
        """
        stored = self.kept_activations
        return np.asarray(self.transform(X) if stored is None else stored, dtype=np.float64)  # type: ignore[attr-defined]  # every estimator is a transformer

    @property
    def kept_activations(self) -> Floats | None:
        """Activations of the training samples, if the fit keeps them."""
        return getattr(self, "activations_", None)

    def sample_cells(self, expected: Floats, generator: np.random.Generator) -> Floats:
        """Draw data from the model's noise, given expected values.

        Parameters
        ----------
        expected
            Expected values of cells.
        generator
            Source of random numbers.
        """
        return generator.poisson(np.maximum(expected, 0.0)).astype(np.float64)

    def activation_draws(self, X: Any, n_draws: int, random_state: RandomState) -> Floats | None:
        """Posterior draws of the activations (draws x samples x parts); None if the model has none."""
        return None

    def activation_errors(self, X: Any) -> Floats:
        """Standard errors, or posterior standard deviations, of the activations that `transform` gives.

        Parameters
        ----------
        X
            Data as for `fit`.

        Returns
        -------
        ndarray
            Samples x parts.
        """
        raise InvalidInputError(f"{type(self).__name__} has no standard errors of activations: leave them out.")

    # Likelihoods that only some models have (`declares.marginal`, `declares.evidence`)

    def log_likelihood(
        self, X: Any, *, std_error: float = 0.1, random_state: RandomState = 0, background: Floats | None = None
    ) -> LogLikelihood:
        """Log-likelihood of each sample with its activations integrated out, with standard errors, in nats.

        Parameters
        ----------
        X
            Counts as for `fit`.
        std_error
            Target standard error of a sample's value, in nats.
        random_state
            Seed: int, Generator or None.
        background
            Share of each feature in a background that is mixed into every part, so that a feature which no part holds
            does not make a sample impossible. None = no background.
        """
        raise InvalidInputError(f"{type(self).__name__} has no prior of activations to integrate over: use score.")

    def log_evidence(self, X: Any, *, random_state: RandomState = 0, **effort: Any) -> tuple[float, float]:
        """Log p(X) under the parameters of this estimator, with everything integrated out, and its standard error.

        Parameters
        ----------
        X
            Counts, samples x features; the estimator need not be fitted.
        random_state
            Seed: int, Generator or None.
        effort
            How much work to do; each model has its own names for it.
        """
        raise InvalidInputError(f"{type(self).__name__} has no evidence: compare held-out scores instead.")

    # Parts and features

    @property
    def smallest_rank(self) -> int:
        """Smallest number of parts with which the model makes sense."""
        return 1

    @property
    def known_parts(self) -> NDArray[Any] | None:
        """Names of the parts, if they were given any."""
        return getattr(self, "component_names_", None)

    def part_labels(self) -> list[str]:
        """Names of the parts: the given ones, or ``part k``."""
        names = self.known_parts
        return [f"part {k}" for k in range(self.n_components_)] if names is None else [str(name) for name in names]

    @property
    def known_features(self) -> NDArray[Any] | None:
        """Names of the features, if the training data had any."""
        return getattr(self, "feature_names_in_", None)

    def feature_labels(self) -> list[str]:
        """Names of the features: those of the training data, or ``feature f``."""
        names = self.known_features
        return [f"feature {f}" for f in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def part_weights(self, activations: Floats | None = None) -> Floats:
        """Share of everything that each part explains, in samples with given activations or in the training data."""
        found = self.part_weights_
        if activations is not None:
            found = np.abs(activations).sum(axis=0) * np.abs(self.components_).sum(axis=1)
        total = float(found.sum())
        return np.asarray(found / total) if total > 0 else np.full(found.size, 1.0 / found.size)

    def feature_importance(self) -> Floats:
        """Share of each feature in a part (parts x features); the shares of a part sum to 1."""
        sizes = np.abs(self.components_).sum(axis=1, keepdims=True)
        return np.asarray(np.divide(self.components_, sizes, out=np.zeros_like(self.components_), where=sizes > 0))

    def feature_frequencies(self, activations: Floats | None = None) -> Floats:
        """Overall frequency of each feature, in samples with given activations or in the training data."""
        return np.asarray(self.part_weights(activations) @ np.abs(self.feature_importance()))

    @property
    def importance_words(self) -> tuple[str, str]:
        """What `feature_importance` and `feature_frequencies` mean, in words."""
        if self.declares.signed:
            return "share of the part's weights", "share of all weights"
        return "share of the part", "share of everything"

    # How the fit went

    @property
    def objective(self) -> float:
        """The maximised objective at the end of the fit (nats; compare within a model only); NaN if there is none."""
        latest = self.trace_.latest("objective")
        return latest[0][1] if latest else float("nan")

    def facts(self) -> Mapping[str, float]:
        """Further numbers about the fit that are worth showing, by name."""
        return {}

    def chains(self) -> dict[str, Floats]:
        """Chains x draws of each quantity that does not depend on the order of the parts; empty without a sampler."""
        return {}

    def tentative_parts(self) -> list[int]:
        """Active parts that not all chains of a sampler found; empty if all did, or without chains."""
        return []

    def _checked_chains(self) -> dict[str, Floats]:
        check_is_fitted(self, "components_")
        found = self.chains()
        if not found:
            raise InvalidInputError(
                f"this {type(self).__name__} was not fitted by sampling, so it has no chains: choose a sampler as"
                " inference, such as 'gibbs'."
            )
        return found

    def diagnostics(self) -> dict[str, Diagnostic]:
        """Rank-normalised R-hat and effective sample sizes of quantities that do not depend on the order of the parts.

        Returns
        -------
        dict
            ``Diagnostic(mean, r_hat, ess_bulk, ess_tail)`` for each quantity, such as ``log_joint`` and ``n_active``.
            An R-hat above 1.05 means that the chains do not agree yet: raise ``burn_in``.
        """
        from partwise.sampling.agreement import diagnose

        return {name: diagnose(values) for name, values in self._checked_chains().items()}

    def to_arviz(self) -> Any:
        """The same quantities (chains x draws) as an ``arviz.InferenceData`` (needs the extra ``arviz``).

        The log-likelihood of the observed data is called ``data_log_likelihood`` there.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # arviz warns about its own future when imported
            arviz = require("arviz", "arviz", "to_arviz")
        # Under its own name, arviz would take it for the pointwise log-likelihood that its scores need.
        renamed = {"log_likelihood": "data_log_likelihood"}
        chains = self._checked_chains()
        return arviz.from_dict(posterior={renamed.get(name, name): values for name, values in chains.items()})
