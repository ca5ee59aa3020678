"""What all count models share: document completion, scores per held-out token, Poisson noise, allocation of counts."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.contract import heldout
from partwise.contract.differential import PSEUDOCOUNT, Differential, Versus, differential
from partwise.contract.estimator import FactorizationEstimator
from partwise.contract.lists import row_names
from partwise.core.data import SparseData
from partwise.core.keys import Key, RandomState, key_from
from partwise.errors import EmptyRowsWarning
from partwise.kernels.arrays import Floats, Positions

# Imported where they are used: most processes need neither, and they take as long to import as everything else.
if TYPE_CHECKING:
    from partwise.likelihood.completion import Completion, Predictor
    from partwise.presence import PresencePosterior, PresencePrior


@dataclass(frozen=True, eq=False)
class CellAllocations:
    """For each cell with counts, the probability that each part made one of them.

    Attributes
    ----------
    rows, columns, counts
        The cells and what they hold.
    probabilities
        Cells x parts; each row sums to 1, or to 0 where no part can make the cell's counts.
    row_names, feature_names, part_names
        Names of samples, features and parts.
    """

    rows: Positions
    columns: Positions
    counts: Floats
    probabilities: Floats
    row_names: list[str]
    feature_names: list[str]
    part_names: list[str]

    def table(self) -> dict[str, Any]:
        """Columns of a table with one line for each cell: sample, feature, count, and a column for each part."""
        return {
            "sample": [self.row_names[n] for n in self.rows],
            "feature": [self.feature_names[f] for f in self.columns],
            "count": self.counts,
            **dict(zip(self.part_names, self.probabilities.T, strict=True)),
        }


def cell_shares(data: SparseData, activations: Floats, dictionary: Floats) -> tuple[Positions, Positions, Floats]:
    """Rows, columns and shares of the parts (h_nk w_fk / Σ_j h_nj w_fj) of the nonzero cells."""
    rows = np.repeat(np.arange(data.shape[0], dtype=np.int64), np.diff(data.indptr))
    columns = data.indices.astype(np.int64)
    shares = activations[rows] * dictionary[columns]
    totals = shares.sum(axis=1, keepdims=True)
    return rows, columns, np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0)


@dataclass(eq=False, repr=False)
class CountModel(FactorizationEstimator):
    """Base class of the estimators for counts and other nonnegative numbers."""

    def _say_what_is_empty(self, data: SparseData) -> None:
        empty = np.flatnonzero(data.row_sums == 0)
        if empty.size:
            more = " has" if empty.size == 1 else f" and {empty.size - 1} more have"
            told = f"Row {empty[0]} of X{more} no counts, so activations there are unknown: leave such rows out."
            warnings.warn(told, EmptyRowsWarning, stacklevel=4)

    def completion(self, X: Any, *, random_state: RandomState = 0, share: float = 0.5) -> Completion:
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
            return complete(data, key_from(random_state), [self._predictor()], self._engine(), share)

    def _predictor(self) -> Predictor:
        """What predicts tokens from others of the same sample, in one thread. It can be sent to workers."""
        from partwise.likelihood.completion import Predictor

        alone = copy.copy(self)
        alone.engine, alone.n_jobs, alone.callbacks = None, None, ()
        return Predictor(self.components_.T, alone._refit)

    def score(self, X: Any, y: Any = None) -> float:
        """Held-out log-likelihood per token of new samples, in nats; higher is better.

        The mean log probability of a held-out token given the other half of its sample: see `completion`. It means the
        same for all models of counts. `PoissonNMF` has no prior, so on sparse counts it may score worse than row and
        column totals alone: use `GammaPoissonNMF` or `AllocationNMF` to predict.

        Parameters
        ----------
        X
            Data as for `fit`, preferably samples that the model was not fitted to.
        y
            Ignored.
        """
        return self.completion(X).per_token

    def perplexity(self, X: Any) -> float:
        """Perplexity per held-out token of new samples, exp(-score); lower is better.

        Parameters
        ----------
        X
            Data as for `fit`, preferably samples that the model was not fitted to.
        """
        return float(np.exp(-self.score(X)))

    def presence(
        self,
        X: Any,
        *,
        prior: Any = None,
        allowed: Any = None,
        forbidden: Any = (),
        always: Any = (),
        n_draws: int = 1000,
        level: float = 0.95,
        noise: str = "estimate",
        random_state: RandomState = 0,
    ) -> PresencePosterior:
        """Find which parts are present in each sample and how much of each, with probabilities and credible intervals.

        Parts are present independently of each other. Given which parts are present, their shares of the counts are
        uniform. The parts are taken as known. Two chains per sample add, remove and swap parts.

        Parameters
        ----------
        X
            Counts as for `transform`.
        prior
            Prior probability of presence, one for all parts or one for each. None: the prior of `from_components`, or
            five expected parts per sample (half of the parts, if there are fewer than ten).
        allowed, forbidden, always
            Names or positions of parts: the only ones that may be present, those that may not, those that always are.
        n_draws
            Number of draws kept for each sample.
        level
            Probability of the credible intervals.
        noise
            ``"estimate"``: test each sample for noise beyond Poisson. If there is some, weight features by it, which
            makes intervals wider. ``"poisson"``: assume that there is none.
        random_state
            Seed: int, Generator or None. The result is the same for any number of threads.

        Returns
        -------
        PresencePosterior
            Presence probabilities, means, standard deviations and intervals, cosine and residual of each sample, and
            the parts that the data cannot tell apart.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise import PoissonNMF
        >>> parts = [[0.8, 0.1, 0.1, 0.0], [0.0, 0.1, 0.1, 0.8], [0.1, 0.4, 0.4, 0.1]]
        >>> found = PoissonNMF.from_components(parts).presence([[800, 100, 100, 0]])
        >>> (found.probability > 0.5).tolist()
        [[True, False, False]]
        """
        from partwise.presence import PresencePrior

        data = self.checked_data(X, caller="presence")
        self._say_what_is_empty(data)
        known = getattr(self, "presence_prior_", True) if prior is None else prior
        rules = PresencePrior.of(known, self.part_labels(), allowed=allowed, forbidden=forbidden, always=always)
        with self._compiling():
            return self._presence(data, rules, key_from(random_state), n_draws=n_draws, level=level, noise=noise)

    def _presence(self, data: SparseData, rules: PresencePrior, key: Key, **effort: Any) -> PresencePosterior:
        from partwise.presence import presence_posterior

        return presence_posterior(key, data, self.components_.T, rules, self._engine(), self.part_labels(), **effort)

    @property
    def selects_parts(self) -> bool:
        """Whether `transform` also finds which parts are present, as requested in `from_components`."""
        return hasattr(self, "presence_prior_")

    def _refit(self, data: SparseData) -> Floats:
        if not self.selects_parts:
            return self._activations(data)
        from partwise.presence import PresencePrior

        return self._presence(data, PresencePrior(self.presence_prior_), Key(0)).mean

    def allocate(self, X: Any) -> CellAllocations:
        """Find which part made the counts of each cell: the probability of each part, h_nk w_fk / Σ_j h_nj w_fj.

        Parameters
        ----------
        X
            Data as for `transform`; activations are those that it finds.

        Returns
        -------
        CellAllocations
            One row of probabilities for each cell that has counts.

        Examples
        --------
        >>> from partwise import PoissonNMF
        >>> model = PoissonNMF.from_components([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
        >>> model.allocate([[4, 8, 4]]).probabilities.round(2).tolist()
        [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
        """
        data = self.checked_data(X, caller="allocate")
        with self._compiling():
            shares = cell_shares(data, self._refit(data), self.components_.T)
        rows, columns, probabilities = shares
        names = row_names(data), self.feature_labels(), self.part_labels()
        return CellAllocations(rows, columns, data.values.astype(np.float64), probabilities, *names)

    def differential(
        self, X: Any, *, versus: Versus = "least-extreme", pseudocount: float = PSEUDOCOUNT
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
        """
        data = self.checked_data(X, caller="differential")
        return differential(self, data, self.transform(X), self._engine(), versus, pseudocount)

    def held_out_log_likelihood(self, held_out: heldout.ThinnedCounts | heldout.HiddenCells) -> Floats:
        """Log-likelihood of each row's held-out data, in nats: Poisson for counts. For bits, rates are clipped at 1.

        Parameters
        ----------
        held_out
            What was held out of the training data of this model.
        """
        if isinstance(held_out, heldout.ThinnedCounts):
            return heldout.poisson_rows(self, held_out)
        if held_out.counts is not None:
            return heldout.count_cell_rows(self, held_out, heldout.poisson_logs)
        activations = self.training_activations(held_out.train)
        rates = self.expected_cells(activations, held_out.rows, held_out.columns)
        return heldout.bernoulli_rows(np.minimum(rates, 1.0), held_out)
