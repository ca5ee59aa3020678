"""New samples of models with batches: each batch multiplies the parts by its own factors."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.contract.batch_labels import batch_labels
from partwise.contract.counts import CountModel
from partwise.contract.differential import PSEUDOCOUNT, Differential, Versus, differential
from partwise.contract.model_file import check_array_is
from partwise.core.coerce import as_table
from partwise.core.data import SparseData
from partwise.core.keys import RandomState, key_from
from partwise.core.weights import CellWeights
from partwise.errors import BatchWarning, InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.passes.batches import new_factors

if TYPE_CHECKING:
    from partwise.likelihood.completion import Completion

# Most rounds for the factors of a new batch, and the change of their logarithms that counts as converged.
_NEW_BATCH_ROUNDS, _SETTLED = 20, 1e-3


@dataclass(eq=False, repr=False)
class SamplesOfBatches(CountModel):
    """What models with batches compute for samples; their batches may be new."""

    batch_names_: NDArray[Any] = field(init=False)
    batch_factors_: Floats = field(init=False)
    batch_strength_: float = field(init=False)

    def estimate_batches(self, X: Any, batch: Any, *, strength: float) -> Self:
        """Estimate batch factors while the parts stay fixed, and keep them.

        Parameters
        ----------
        X
            Data as for `fit`.
        batch
            The batch of each sample, or the name of an obs column.
        strength
            Strength of the prior that shrinks factors towards 1, such as ``batch_strength_`` of a fit.
        """
        data = self.checked_data(X, caller="estimate_batches")
        names, codes = np.unique(batch_labels(batch, X, data.shape[0]), return_inverse=True)
        self.batch_strength_ = float(strength)
        rows = [data.take(np.flatnonzero(codes == code)) for code in range(names.size)]
        with self._compiling():
            found = np.stack([self._factors_of_new_batch(own) for own in rows])
        self.batch_names_, self.batch_factors_ = names.astype(object), found
        return self

    def for_batch(self, batch: str) -> Self:
        """The model for samples of one batch: its parts times the factors of the batch.

        Every method of the result, such as ``activation_errors`` or ``log_likelihood``, is for samples of this batch.

        Parameters
        ----------
        batch
            The label of a batch of the fit.
        """
        check_is_fitted(self, "components_")
        names = [str(name) for name in getattr(self, "batch_names_", ())]
        if str(batch) not in names:
            raise InvalidInputError(f"batch={batch!r} is not a batch of the fit; these are: {', '.join(names)}.")
        return self._times(self.batch_factors_[names.index(str(batch))])

    def _times(self, factors: Floats) -> Self:
        """A copy without batches, with each feature of the parts multiplied by its factor."""
        found = copy.copy(self)
        for name in ("batch_names_", "batch_factors_", "batch_strength_"):
            found.__dict__.pop(name, None)
        found.components_ = np.ascontiguousarray(self.components_ * factors)
        return found

    def _by_batch(self, data: Any, X: Any, batch: Any) -> tuple[list[Self], NDArray[np.intp] | None]:
        """One model per batch of the data, and which one each sample needs; None if one model serves all."""
        if not hasattr(self, "batch_names_"):
            if batch is not None:
                raise InvalidInputError(
                    f"batch was given, but this {type(self).__name__} was fitted without batches: fit it with batch, or"
                    " leave batch out."
                )
            return [self], None
        if batch is None:
            told = "This model was fitted with batches, and the batch of these samples is not given"
            warnings.warn(f"{told}, so factors of 1 are used: pass batch=.", BatchWarning, stacklevel=4)
            return [self], None
        names, codes = np.unique(batch_labels(batch, X, data.shape[0]), return_inverse=True)
        known = {str(name) for name in self.batch_names_}
        models = []
        for code, name in enumerate(names):
            own = None if name in known else data.take(np.flatnonzero(codes == code))
            models.append(self.for_batch(name) if own is None else self._times(self._factors_of_new_batch(own)))
        return models, codes

    def _factors_of_new_batch(self, data: SparseData) -> Floats:
        """Factors of a new batch: estimate activations and factors in turn, with the parts fixed."""
        model, factors = self._times(np.ones(self.n_features_in_)), np.ones(self.n_features_in_)
        for _ in range(_NEW_BATCH_ROUNDS):
            before = factors
            factors = new_factors(data, model._activations(data), self.components_.T, self.batch_strength_)
            model = self._times(factors)
            if np.abs(np.log(factors / before)).max() < _SETTLED:
                break
        return factors

    def transform(self, X: Any, *, batch: Any = None, layer: str | None = None) -> Floats:
        """Find the activations of samples, given the fitted parts.

        Parameters
        ----------
        X
            Data as for `fit`.
        batch
            The batch of each sample, or the name of an obs column, where the model was fitted with batches. The factors
            of a batch that the fit has not seen are estimated from all its samples in ``X``.
        layer
            Layer of AnnData to take instead of its ``X``.

        Returns
        -------
        ndarray
            Samples x parts. A row does not depend on other rows, unless its batch is new. A sample without counts gets
            a warning and the prior mean of the activations, or zeros if the model has no prior.
        """
        data = self.checked_data(X if layer is None else as_table(X, layer=layer), caller="transform")
        self._say_what_is_empty(data)
        with self._compiling():
            models, codes = self._by_batch(data, X, batch)
            return self._activations_by_batch(data, models, codes)

    def _activations_by_batch(self, data: SparseData, models: Sequence[Self], codes: NDArray[np.intp] | None) -> Floats:
        if codes is None:
            return models[0]._refit(data)
        found = np.empty((data.shape[0], self.n_components_))
        for code, model in enumerate(models):
            rows = np.flatnonzero(codes == code)
            found[rows] = model._refit(data.take(rows))
        return found

    def completion(self, X: Any, *, random_state: RandomState = 0, share: float = 0.5, batch: Any = None) -> Completion:
        """Document completion: about half of each sample's tokens are given, and the others are predicted.

        A keyed coin puts each token into one half or the other. Activations are found from the given half and predict
        the other half, so no token is scored that was used to fit anything.

        Parameters
        ----------
        X
            Data as for `fit`, preferably samples that the model was not fitted to.
        random_state
            Seed of the split: int, Generator or None. With the same seed, all models get the same split.
        share
            Share of the tokens that is given.
        batch
            The batch of each sample, as for `transform`.

        Returns
        -------
        Completion
            Mean log-likelihood of a held-out token of each sample, and the number of these tokens; ``per_token`` is the
            mean over all of them.
        """
        from partwise.likelihood.completion import complete

        data = self.checked_data(X, caller="score")
        self._say_if_training(data)
        with self._compiling():
            models, codes = self._by_batch(data, X, batch)
            predictors = [model._predictor() for model in models]
            return complete(data, key_from(random_state), predictors, self._engine(), share, groups=codes)

    def differential(
        self, X: Any, *, versus: Versus = "least-extreme", pseudocount: float = PSEUDOCOUNT, batch: Any = None
    ) -> Differential:
        """Find features that are more or less frequent in a part than in the others, with local false sign rates.

        Rates of each feature in each part are fitted to the counts with the activations that `transform` finds. Changes
        are then shrunk adaptively, part by part, as in fastTopics' ``de_analysis``.

        Parameters
        ----------
        X
            Counts as for `fit`, preferably the training data.
        versus
            ``"least-extreme"``: against the other part whose rate is nearest, so that a feature with a large change
            marks this part alone; ``"all"``: against all other parts together.
        pseudocount
            Pseudo-counts of each feature in each part, at the feature's mean rate. They keep ratios to 0 finite.
        batch
            The batch of each sample, as for `transform`.
        """
        data = self.checked_data(X, caller="differential")
        with self._compiling():
            models, codes = self._by_batch(data, X, batch)
            activations = self._activations_by_batch(data, models, codes)
            if codes is not None:
                own, plain = np.stack([model.components_.sum(axis=0) for model in models]), self.components_.sum(axis=0)
                factors = np.divide(own, plain, out=np.ones_like(own), where=plain > 0)
                data = data.weighted(CellWeights(factors, codes.astype(np.int32)))
            return differential(self, data, activations, self._engine(), versus, pseudocount)

    def score(self, X: Any, y: Any = None, *, batch: Any = None) -> float:
        """Held-out log-likelihood per token of new samples, in nats; higher is better.

        The mean log probability of a held-out token given the other half of its sample: see `completion`. It means the
        same for all models of counts.

        Parameters
        ----------
        X
            Data as for `fit`, preferably samples that the model was not fitted to.
        y
            Ignored.
        batch
            The batch of each sample, as for `transform`.
        """
        return self.completion(X, batch=batch).per_token

    def perplexity(self, X: Any, *, batch: Any = None) -> float:
        """Perplexity per held-out token of new samples, exp(-score); lower is better.

        Parameters
        ----------
        X
            Data as for `fit`, preferably samples that the model was not fitted to.
        batch
            The batch of each sample, as for `transform`.
        """
        return float(np.exp(-self.score(X, batch=batch)))

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if hasattr(self, "batch_names_"):
            check_array_is(self.batch_factors_, "batch_factors_", (len(self.batch_names_), self.n_features_in_))
            if not (isinstance(self.batch_strength_, float) and 0 < self.batch_strength_ < np.inf):
                raise ValueError("its batch_strength_ is not a positive number")
