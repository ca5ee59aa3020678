"""``LogisticPCA``: principal components of bits through the logistic function, a baseline with a link function."""

from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from partwise.binary.inference import logistic
from partwise.binary.inference.cells import Cells
from partwise.contract.bits import BitModel
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.model_file import check_array_is
from partwise.contract.parameters import COMMON_CONSTRAINTS
from partwise.core.data import BinaryMatrix
from partwise.core.stopping import small_change
from partwise.kernels.arrays import Floats


@dataclass(eq=False, repr=False)
class LogisticPCA(BitModel):
    """Logistic PCA of 0/1 data that may have missing cells: P(x_nf = 1) = σ(μ_f + Σ_k w_fk h_nk), with real factors.

    It is fitted by alternating majorisation (Collins, Dasgupta & Schapire 2002; Schein, Saul & Ungar 2003). It is more
    flexible than `BinaryNMF` and harder to interpret. Without a penalty its logits may grow without limit, and
    predictions of missing cells suffer.

    Parameters
    ----------
    n_components
        Number of directions.
    intercept
        Whether every feature has its own logit μ_f.
    penalty
        λ of the penalty λ/2 (|activations|² + |dictionary|²), in nats. It makes predictions of missing cells far
        better. 0 is maximum likelihood, as published.
    max_iter
        Stop after this many iterations.
    tol
        Stop when the objective grows by less than this many nats per observed cell and iteration. 0: run to
        ``max_iter``.
    active_threshold
        A direction counts as active from this share of the squared size of all directions on; None = 0.01.
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Number of threads; it does not change the result. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_
        Parts x features: w. Directions are orthogonal, largest first, and of the same size as the activations.
    intercept_
        μ, one logit per feature.
    activations_
        Samples x parts: h.
    probabilities_
        Samples x features, P(x = 1).
    n_components_, n_active_components_, active_components_, missing_cells_
        As for `BinaryNMF`.
    n_iter_, trace_, status_
        Iterations, what was reached at each, and how the fit ended.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import LogisticPCA
    >>> X = np.kron([[1, 0], [0, 1]], np.ones((5, 4)))
    >>> model = LogisticPCA(1, random_state=0).fit(X)
    >>> bool(np.all((model.predict_proba() > 0.5) == X))
    True
    """

    declares: ClassVar[Declaration] = Declaration(
        data="bits",
        papers=(
            "Collins, M., Dasgupta, S. & Schapire, R. E. (2002). A generalization of principal components analysis to "
            "the exponential family. Advances in Neural Information Processing Systems 14.",
        ),
        candidates=(Candidate("logistic-pca", effort={"tol": 1e-5}, data="bits", complexity=40),),
        signed=True,
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "intercept": ["boolean"],
        "penalty": [Interval(Real, 0, None, closed="left")],
    }

    n_components: int = 2
    _: KW_ONLY
    intercept: bool = True
    penalty: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-6

    intercept_: Floats = field(init=False)
    activations_: Floats = field(init=False)

    def _fit(self, data: BinaryMatrix) -> None:
        sides = logistic.TwoSides.of(data)
        settings: dict[str, Any] = {"penalty": float(self.penalty), "intercept": bool(self.intercept)}
        algorithm = logistic.AlternatingMajorisation(int(self.n_components), **settings, engine=self._engine())
        rule = small_change(self.tol, max(sides.samples.n_cells, 1))
        state = logistic.balanced(self._run(algorithm, sides, max_iter=self.max_iter, convergence=rule).state)
        self.intercept_, self.activations_ = state.intercept, state.activations
        self._store_components(state.dictionary, np.sum(state.dictionary**2, axis=0))
        self._store_cells(data, self.expected(self.activations_))

    def _activations(self, data: BinaryMatrix) -> Floats:
        return logistic.activations_given(
            Cells.of(data), self.components_.T.copy(), self.intercept_, float(self.penalty), self._engine()
        )

    def expected(self, activations: Floats, columns: Any = slice(None)) -> Floats:
        """Probabilities of a one, for given activations."""
        return logistic.probabilities(activations, self.components_.T[columns], self.intercept_[columns])

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_array_is(self.intercept_, "intercept_", (self.n_features_in_,), signed=True)
