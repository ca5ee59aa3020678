"""What an estimator class declares about itself, so that other code need not guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DataKind = Literal["counts", "nonnegative", "bits"]
"""Whole numbers; any nonnegative numbers; zeros and ones."""


@dataclass(frozen=True)
class Candidate:
    """One way in which an estimator takes part in a comparison.

    Attributes
    ----------
    name
        Its name in tables, in files and on the command line.
    settings
        Parameters other than the number of parts, the seed and the number of threads.
    effort
        Parameters that shorten its fits during a comparison, which needs less precision than a final model.
    data
        The kind of data for which it is a candidate: ``"counts"`` or ``"bits"``.
    complexity
        Of two models that predict equally well, the one with the smaller number is recommended.
    cost
        Relative time of a fit. The most expensive fits start first, so that threads finish together.
    most_cells
        Largest number of cells, zeros included, for which it is a candidate; None = no limit.
    by_token
        Whether its fits process counts one by one, so that large counts make them slow even in small tables.
    estimator
        The class; filled in by `FactorizationEstimator.candidates`.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> candidate = PoissonNMF.candidates("counts")[0]
    >>> candidate.build(3, seed=1).tol, candidate.build(3, seed=1, briefly=False).tol
    (1e-05, 1e-06)
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    effort: Mapping[str, Any] = field(default_factory=dict)
    data: Literal["counts", "bits"] = "counts"
    complexity: int = 50
    cost: int = 5
    most_cells: int | None = None
    by_token: bool = False
    estimator: Any = object

    @property
    def declares(self) -> Declaration:
        """What its estimator declares."""
        declared: Declaration = self.estimator.declares
        return declared

    @property
    def smallest(self) -> int:
        """Smallest number of parts with which the model makes sense."""
        return int(self.estimator(**self.settings).smallest_rank)

    def build(self, rank: int, seed: int, *, briefly: bool = True, **more: Any) -> Any:
        """Return the unfitted estimator.

        Parameters
        ----------
        rank
            Number of parts.
        seed
            Seed of all its random numbers.
        briefly
            Whether to fit it with the reduced effort of a comparison, or with the defaults.
        more
            Further parameters, which override the settings.
        """
        effort = self.effort if briefly else {}
        return self.estimator(n_components=rank, random_state=seed, **{**self.settings, **effort, **more})


@dataclass(frozen=True)
class Declaration:
    """What the rest of the package needs to know about an estimator class.

    Attributes
    ----------
    data
        The kind of data that it is fitted to.
    papers
        What to cite, one entry per reference.
    presets
        Named settings, such as ``"paper"`` for those of the paper; see `FactorizationEstimator.preset`.
    candidates
        How it takes part in comparisons; empty if it does not.
    missing
        ``"yes"``: missing cells are left out of the likelihood, in `fit` and for new samples. ``"fit"``: only `fit`
        takes them, with `missing_settings`. ``"no"``: never.
    missing_settings
        Parameters with which `fit` accepts missing cells.
    signed
        Whether its parts have negative entries, so that they are directions in which samples differ.
    marginal
        Whether it offers `log_likelihood`: the log-likelihood of new samples with their activations integrated out.
    evidence
        Effort of `log_evidence` (log p(X), everything integrated out) in comparisons; None if the model has none.
    samplers
        Values of ``inference`` that draw chains, for which ``max_iter`` is not a number of iterations.
    given_parts
        Whether `from_components` takes given parts.
    batches
        Whether `fit`, `transform` and `score` take ``batch``, the batch of each sample.
    counts_parts_by
        What its own fit says about the number of parts: ``"bound"`` (choose the number with the highest bound),
        ``"active"`` (its priors empty parts that are not needed), or nothing.
    """

    data: DataKind
    papers: tuple[str, ...] = ()
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    missing: Literal["yes", "fit", "no"] = "yes"
    missing_settings: Mapping[str, Any] = field(default_factory=dict)
    signed: bool = False
    marginal: bool = False
    evidence: Mapping[str, Any] | None = None
    samplers: tuple[str, ...] = ()
    given_parts: bool = False
    batches: bool = False
    counts_parts_by: Literal["bound", "active"] | None = None
