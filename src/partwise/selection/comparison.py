"""The result of a comparison: a table of candidates, a recommendation in one sentence, and a way to override it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partwise.contract.declaration import Candidate
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.metrics.dispersion import Dispersion
from partwise.selection import words
from partwise.selection.candidates import ranks_beyond
from partwise.selection.list_scores import ListMetric
from partwise.selection.records import Evidence, Fit, NewRows, Task
from partwise.selection.standings import RULES, STABLE, Choice, Difference, Standings

if TYPE_CHECKING:
    import pandas as pd


# Shares of agreeing resamples from which confidence is high, and moderate.
_HIGH, _MODERATE = 0.9, 0.6
POPULARITY = Choice("popularity", 0)
"""Name of the popularity baseline in a table of candidates."""


@dataclass(frozen=True)
class Row:
    """A candidate in the table of a comparison.

    Attributes
    ----------
    model, rank
        The model, and its number of parts.
    n_restarts
        Number of fits.
    score, std_error
        Held-out log-likelihood per token (or cell) in nats, or the mean score of lists, and its standard error over
        rows.
    behind, behind_std_error
        Difference to the best candidate and its standard error, with rows paired.
    n_active
        Number of parts that explain a noticeable share of the data, median over restarts.
    stability
        Mean cosine of the parts of different restarts, matched one to one; NaN for one restart.
    coherence, diversity
        How often the likeliest features of a part occur together (NPMI, from -1 to 1, mean over parts), and the share
        of distinct features among the likeliest features of all parts. Means over restarts, NaN for bits.
    evidence
        The model's own objective on the training data of the first restart (nats; compare it within a model only).
    seconds
        Time of all its fits, in seconds.
    """

    model: str
    rank: int
    n_restarts: int
    score: float
    std_error: float
    behind: float
    behind_std_error: float
    n_active: float
    stability: float
    coherence: float
    diversity: float
    evidence: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models and their number of parts on one scale.

    Attributes
    ----------
    recommended
        The recommended model and number of parts.
    choice
        The model and number of parts in use: the recommended ones, unless `choose` set others.
    rule
        The rule behind the recommendation: ``"best"``, ``"simple"`` or ``"stable"``.
    rank_share, model_share
        Share of bootstrap resamples (of rows and restarts) that recommend the same number of parts, and the same model
        with the same number of parts.
    fits
        Every fit, by model, number of parts and restart.
    new_rows
        Document completion and marginal likelihood of new rows, for each model at its best number of parts.
    left_out
        Models that could not be fitted, and why.
    unit
        What is held out: ``"token"`` or ``"cell"``.
    noise
        How counts vary around their expected values, which decided how they were split; None for bits.
    metric
        The score of lists, such as NDCG@20; None if scores are nats per token or cell.
    popularity
        Scores of the popularity baseline, by restart; the last line of `table`.
    hidden_cells
        Whether whole cells were held out, rather than tokens of all cells.
    n_fits
        Number of fits started, in the fixed order. Pass it to `compare` as ``max_fits`` to repeat the result.
    stopped
        ``"budget"`` or ``"interrupted"`` if the search ended early, else empty.
    standings
        Row scores, the source of differences and standard errors.
    candidates
        The models that took part, by name.
    seed
        Seed of all random numbers.
    """

    recommended: Choice
    choice: Choice
    rule: str
    rank_share: float
    model_share: float
    fits: Mapping[Task, Fit] = field(repr=False)
    new_rows: Mapping[str, NewRows] = field(repr=False)
    evidence: Mapping[Choice, Evidence] = field(repr=False)
    left_out: Mapping[str, str]
    unit: str
    metric: ListMetric | None
    popularity: Mapping[int, Floats] = field(repr=False)
    noise: Dispersion | None
    hidden_cells: bool
    n_fits: int
    stopped: str
    standings: Standings = field(repr=False)
    candidates: Mapping[str, Candidate] = field(repr=False)
    seed: int

    @property
    def best(self) -> Choice:
        """The candidate with the highest score, whatever its number of parts."""
        return self.standings.leader(self.standings.finalists)

    @property
    def answers(self) -> dict[str, Choice]:
        """What each rule recommends: best prediction, fewest parts that do as well, most parts that are stable."""
        return {rule: self.standings.recommended(rule) for rule in RULES}

    def is_stable(self, choice: Choice) -> bool:
        """Whether restarts agree on the parts of a candidate. One restart cannot tell."""
        return self.standings.stabilities.get(choice, np.nan) >= STABLE

    @property
    def scale(self) -> str:
        """Unit of scores and differences: ``"nats per token"`` or, for lists, ``"NDCG@20"`` and the like."""
        return f"nats per {self.unit}" if self.metric is None else str(self.metric)

    @property
    def confidence(self) -> str:
        """``"high"``, ``"high in the number of parts"``, ``"moderate"`` or ``"low"``: how often resamples agree."""
        if self.rank_share >= _HIGH:
            return "high" if self.model_share >= _HIGH else "high in the number of parts"
        return "moderate" if self.rank_share >= _MODERATE else "low"

    def difference(self, one: tuple[str, int], other: tuple[str, int]) -> Difference:
        """How much better one candidate predicts than another, in the unit of `scale`.

        Parameters
        ----------
        one, other
            Pairs of model and number of parts.

        Returns
        -------
        Difference
            ``value``, ``std_error`` (rows paired) and ``significant`` (beyond 2 standard errors).
        """
        return self.standings.difference(self._known(one), self._known(other))

    def indistinguishable(self) -> list[Choice]:
        """Each other model at its best number of parts, if it is within 2 standard errors of the choice."""
        rivals = [self.standings.best_of(name) for name in self.models if name != self.choice.model]
        return [rival for rival in rivals if not self.difference(self.choice, rival).significant]

    @property
    def models(self) -> list[str]:
        """Names of the models that were fitted, the simplest first."""
        fitted = {choice.model for choice in self.standings.rows}
        return [name for name in self.standings.order if name in fitted]

    def curve(self, model: str) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Choices of K, scores and standard errors of a model, for a plot.

        Parameters
        ----------
        model
            Its name.
        """
        ranks = self.standings.ranks_of(model)
        scores = np.array([self.standings.score(Choice(model, rank)) for rank in ranks]).reshape(-1, 2)
        return np.array(ranks, dtype=np.int64), scores[:, 0], scores[:, 1]

    def own_rank(self, model: str) -> tuple[int, str] | None:
        """The number of parts according to the model's own evidence, and what that evidence is; None if it has none.

        The evidence is log p(X) if it was computed, the bound of empirical Bayes, or the number of active parts if
        priors empty parts that are not needed.

        Parameters
        ----------
        model
            Its name.
        """
        exact = {choice.rank: found.value for choice, found in self.evidence.items() if choice.model == model}
        if exact:
            return max(exact, key=lambda rank: exact[rank]), "log p(X)"
        counted_by = self.candidates[model].declares.counts_parts_by
        first = {task.rank: fit for task, fit in self.fits.items() if task.model == model and task.restart == 0}
        if counted_by == "bound":
            return max(first, key=lambda rank: first[rank].evidence), "bound"
        if counted_by == "active":
            return first[max(first)].n_active, f"active of {max(first)}"
        return None

    def choose(self, model: str | None = None, rank: int | None = None) -> Comparison:
        """Override the recommendation.

        Parameters
        ----------
        model
            Name of a model; None keeps the recommended one, or takes the best one for ``rank`` parts.
        rank
            Number of parts, tried or not; None takes the best one for the model.

        Returns
        -------
        Comparison
            The same results with another `choice`.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise.selection import compare
        >>> X = np.kron(np.eye(2, dtype=int), np.full((8, 4), 6))
        >>> found = compare(X, models=["poisson"], ranks=[1, 2, 3], random_state=0)
        >>> found.choice, found.choose(rank=3).choice
        (Choice(model='poisson', rank=2), Choice(model='poisson', rank=3))
        """
        if model is not None and model not in self.models:
            raise InvalidInputError(f"there is no model {model!r} in this comparison; there are {self.models}.")
        if rank is not None and rank < 1:
            raise InvalidInputError(f"rank must be at least 1, got {rank}.")
        if model is None:
            model = self.recommended.model
            rivals = [choice for choice in self.standings.rows if choice.rank == rank]
            if rank is not None and rivals and Choice(model, rank) not in rivals:
                model = self.standings.leader(rivals).model
        if rank is None:
            same = model == self.recommended.model
            rank = self.recommended.rank if same else self.standings.best_of(model).rank
        return replace(self, choice=Choice(model, int(rank)))

    def estimator(self, **parameters: Any) -> Any:
        """The unfitted estimator of the choice, with its settings but full fitting effort.

        Parameters
        ----------
        parameters
            Parameters that override the settings.
        """
        candidate = self.candidates[self.choice.model]
        return candidate.build(self.choice.rank, self.fit_seed, briefly=False, **parameters)

    @property
    def fit_seed(self) -> int:
        """Seed of the fit to all data: the comparison's seed, cut to the bits that estimators take."""
        return self.seed % 2**32

    def fit_best(self, X: Any, **parameters: Any) -> Any:
        """Fit the chosen model to all data.

        Parameters
        ----------
        X
            The data of the comparison.
        parameters
            Parameters of the estimator that override the settings of the comparison.

        Returns
        -------
        estimator
            Fitted model.
        """
        return self.estimator(**parameters).fit(X)

    def table(self) -> list[Row]:
        """All candidates, by model and number of parts; for lists, then the popularity baseline with 0 parts."""
        best = self.best
        rows = [
            self._row(Choice(model, rank), best) for model in self.models for rank in self.standings.ranks_of(model)
        ]
        return [*rows, self._popularity_row(best)] if self.metric is not None else rows

    def _popularity_row(self, best: Choice) -> Row:
        behind, nothing = self.ahead_of_popularity(best), float("nan")
        beside = replace(self.standings, rows={POPULARITY: self.popularity})
        score = self.standings.score(best)[0] - behind.value
        error = beside.score(POPULARITY)[1]
        return Row(*POPULARITY, len(self.popularity), score, error, *behind, 0, nothing, nothing, nothing, nothing, 0.0)

    def ahead_of_popularity(self, choice: Choice) -> Difference:
        """How much better a candidate's lists are than the popularity baseline."""
        rows = {POPULARITY: self.popularity, choice: self.standings.rows[choice]}
        return replace(self.standings, rows=rows).difference(choice, POPULARITY)

    def _row(self, choice: Choice, best: Choice) -> Row:
        fits = [fit for task, fit in sorted(self.fits.items()) if Choice(task.model, task.rank) == choice]
        behind = self.standings.difference(best, choice)
        return Row(
            *choice,
            len(fits),
            # on the scale of the best candidate, which may have had more restarts
            self.standings.score(best)[0] - behind.value,
            self.standings.score(choice)[1],
            behind.value,
            behind.std_error,
            float(np.median([fit.n_active for fit in fits])),
            self.standings.stabilities[choice],
            float(np.mean([fit.coherence for fit in fits])),
            float(np.mean([fit.diversity for fit in fits])),
            fits[0].evidence,
            float(sum(fit.seconds for fit in fits)),
        )

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas data frame."""
        from dataclasses import asdict

        from partwise.io.optional import require

        frame: pd.DataFrame = require("pandas", "anndata", "to_frame").DataFrame([asdict(row) for row in self.table()])
        return frame

    def _known(self, choice: tuple[str, int]) -> Choice:
        known = Choice(*choice)
        if known not in self.standings.rows:
            raise InvalidInputError(f"{known} was not fitted: name a model and a number of parts of the table.")
        return known

    @property
    def untried(self) -> list[int]:
        """Choices of K to try next, if the recommended one is the smallest or largest tried; it is among them."""
        model, rank = self.recommended
        if self.choice != self.recommended or self.stopped:
            return []
        fit = next(fit for task, fit in self.fits.items() if task[:2] == self.recommended)
        shape = fit.rows.size, fit.components.shape[1]
        return ranks_beyond(self.standings.ranks_of(model), rank, shape, self.candidates[model].smallest)

    @property
    def signed(self) -> bool:
        """Whether the choice has signed weights: directions in which samples differ, not parts."""
        return self.candidates[self.choice.model].declares.signed

    @property
    def instead(self) -> Choice | None:
        """If the choice has signed weights, and so no parts: the best candidate among the models with parts."""
        if not self.signed:
            return None
        rivals = [self.standings.best_of(name) for name in self.models if not self.candidates[name].declares.signed]
        return max(rivals, key=lambda rival: self.standings.difference(rival, self.recommended).value, default=None)

    @property
    def sentence(self) -> str:
        """The recommendation, or the cost of overriding it, in one sentence."""
        return words.sentence(self)

    @property
    def notes(self) -> list[str]:
        """Other remarks on the choice: it is the smallest or largest tried, or it has no parts."""
        return words.notes(self)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.notes])
