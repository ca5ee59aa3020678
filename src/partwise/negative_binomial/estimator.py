"""``NegativeBinomialNMF``: parts of counts that vary more than Poisson counts."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from partwise.contract.counts import CountModel
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.heldout import SMOOTHING, Background, HiddenCells, ThinnedCounts, count_cell_rows
from partwise.contract.model_file import check_array_is
from partwise.contract.parameters import COMMON_CONSTRAINTS, POSITIVE
from partwise.core.data import CountMatrix
from partwise.core.stopping import small_change
from partwise.kernels.arrays import Floats
from partwise.negative_binomial.inference.majorisation import Majorisation, NegativeBinomialState, settled_activations
from partwise.negative_binomial.model import draw, log_probabilities
from partwise.passes.side import Floors
from partwise.poisson.inference.state import scaled

_CELLS_AT_ONCE = 2**20


@dataclass(eq=False, repr=False)
class NegativeBinomialNMF(CountModel):
    """Find nonnegative parts of over-dispersed counts: x_nf ~ Poisson(ε_nf Σ_k h_nk w_fk), ε_nf ~ Gamma(r, r).

    A count has mean λ = Σ_k h_nk w_fk and variance λ + λ² / r. The fit is by maximum likelihood (Gouvert et al. 2020).
    The smaller the size r, the more the counts vary beyond Poisson noise; as r grows, the model becomes `PoissonNMF`.
    The cost of an update is proportional to the number of cells, zeros included.

    Parameters
    ----------
    n_components
        Number of parts.
    dispersion
        Which counts share an estimated size r: ``"common"`` (all), ``"feature"`` or ``"sample"``. A number: the size
        itself.
    max_iter
        Stop after this many iterations, each of five sweeps over the factors and one over the sizes.
    tol
        Stop when the log-likelihood grows by less than this many nats per count and iteration. 0: run to ``max_iter``.
    active_threshold
        A part counts as active from this share of the expected counts on; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Number of threads; it does not change the result. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_
        Parts x features; each sums to 1, so activations are expected counts.
    activations_
        Activations of the training samples, samples x parts.
    size_
        The sizes r: one, one per feature, or one per training sample. New samples get the median of the latter.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that explain a noticeable share of the data.
    n_iter_, trace_, status_
        Iterations, the log-likelihood at each, and how the fit ended.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import NegativeBinomialNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(20.0 * rng.gamma(2.0, 0.5, size=(80, 30)))
    >>> bool(1.5 < NegativeBinomialNMF(1, random_state=0).fit(X).size_[0] < 3.0)
    True
    """

    declares: ClassVar[Declaration] = Declaration(
        data="counts",
        papers=(
            "Gouvert, O., Oberlin, T. & Févotte, C. (2020). Negative binomial matrix factorization. IEEE Signal "
            "Processing Letters 27.",
        ),
        candidates=(
            Candidate(
                "negative-binomial", effort={"tol": 1e-4, "max_iter": 100}, complexity=15, cost=4, most_cells=10**8
            ),
        ),
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "dispersion": [StrOptions({"common", "feature", "sample"}), POSITIVE],
    }

    _: KW_ONLY
    dispersion: str | float = "common"
    max_iter: int = 500
    tol: float = 1e-6

    activations_: Floats = field(init=False)
    size_: Floats = field(init=False)

    def _fit(self, data: CountMatrix) -> None:
        algorithm = Majorisation(self.n_components, self.dispersion, self._engine())
        rule = small_change(self.tol, data.total)
        self._store(data, self._run(algorithm, data, max_iter=self.max_iter, convergence=rule).state)

    def _store(self, data: CountMatrix, state: NegativeBinomialState) -> None:
        floors = Floors.of(data, self.n_components)
        found = scaled(np.asarray(state.activations), state.dictionary, floors)
        # Entries at the floor stand for zeros.
        found.dictionary[found.dictionary <= 2 * floors.dictionary[:, None]] = 0.0
        found.activations[found.activations <= 2 * floors.activations[:, None]] = 0.0
        self._store_components(found.dictionary, found.activations.sum(axis=0))
        self.activations_ = found.activations
        sizes = {"feature": state.feature_sizes, "sample": np.asarray(state.row_sizes)}
        self.size_ = sizes.get(str(self.dispersion), state.feature_sizes[:1].copy())

    def _sizes_of_features(self) -> Floats:
        """The size of each feature for new samples."""
        size = np.median(self.size_) if self.dispersion == "sample" else self.size_
        return np.broadcast_to(size, (self.n_features_in_,)).copy()

    def _activations(self, data: CountMatrix) -> Floats:
        return settled_activations(data, self.components_, self._sizes_of_features(), self._engine())

    def sample_cells(self, expected: Floats, generator: np.random.Generator) -> Floats:
        """Draw counts from the model's noise, given expected values.

        Parameters
        ----------
        expected
            Expected values of cells, samples x features.
        generator
            Source of random numbers.
        """
        return draw(expected, self._sizes_of_features(), generator)

    def held_out_log_likelihood(self, held_out: ThinnedCounts | HiddenCells) -> Floats:
        """Log-likelihood of each row's held-out data, in nats, with negative-binomial noise.

        Held-out counts are scored as new counts. The training count of the same cell is used only through the parts, so
        structure that the model takes for noise does not count as predicted.

        Parameters
        ----------
        held_out
            What was held out of the training data of this model.
        """
        if isinstance(held_out, HiddenCells):
            if held_out.counts is None:
                return super().held_out_log_likelihood(held_out)
            place = {"feature": held_out.columns, "sample": held_out.rows}.get(str(self.dispersion), np.zeros(1, int))
            sizes = self.size_[place]
            return count_cell_rows(self, held_out, lambda counts, rates: log_probabilities(counts, rates, sizes))
        n_rows, background = self.activations_.shape[0], Background.of(held_out.train)
        by_row, missing = self.dispersion == "sample", held_out.train.missing_matrix()
        found = np.empty(n_rows)
        step = 1 + _CELLS_AT_ONCE // self.n_features_in_
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            plain = background.row_totals[rows, None] * background.column_shares
            rates = (1.0 - SMOOTHING) * self.expected(self.activations_[rows]) + SMOOTHING * plain
            size: Any = self.size_[rows, None] if by_row else self.size_
            # A new count has the size of the cell's noise; a thinned count has its share of it.
            own = size if np.isinf(held_out.noise) else held_out.odds * size
            rates *= held_out.odds
            logs = -own * np.log1p(rates / own)
            counts = held_out.held_out[rows].tocoo()
            cells = counts.coords
            logs[cells] = log_probabilities(counts.data, rates[cells], np.broadcast_to(own, rates.shape)[cells])
            logs[missing[rows].toarray()] = 0.0
            found[rows] = logs.sum(axis=1)
        return found

    def facts(self) -> dict[str, float]:
        """The size of the noise."""
        return {"size r of the noise (median)": float(np.median(self.size_))}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        n_rows = self.n_samples_seen_
        check_array_is(self.activations_, "activations_", (n_rows, self.n_components_))
        shapes = {"feature": self.n_features_in_, "sample": n_rows}
        check_array_is(self.size_, "size_", (shapes.get(str(self.dispersion), 1),))
        if np.any(self.size_ <= 0):
            raise ValueError("its sizes are not positive numbers")
