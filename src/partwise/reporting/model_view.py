"""What a report says about a model: facts collected once through the contract, and what to cite."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise._version import __version__
from partwise.contract.batch_labels import batch_labels
from partwise.contract.estimator import FactorizationEstimator
from partwise.contract.model_file import NOT_STORED
from partwise.core.data import SparseData
from partwise.kernels.arrays import Floats
from partwise.plotting import part_shares
from partwise.reporting.encoding import in_words

if TYPE_CHECKING:
    from partwise.reporting.diagnostics import Quality


MOST_PARTS = 200
"""Largest number of parts in a report; if there are more, the largest are shown."""
RELEVANCE = (
    "Sievert, C. & Shirley, K. (2014). LDAvis: a method for visualizing and interpreting topics. Workshop on "
    "Interactive Language Learning, Visualization, and Interfaces."
)
"""The reference for the relevance of features."""


@dataclass(frozen=True, eq=False)
class ModelView:
    """A fitted model and its data, as a report needs them.

    Attributes
    ----------
    model
        The estimator.
    data
        Checked data, or None.
    activations
        Samples x parts, for the data or for the training data if the model keeps them; or None.
    shares
        Samples x parts: share of each sample that each part explains, or None.
    weights
        Share of everything that each part explains.
    order
        Positions of the parts to show, largest first.
    names, features, samples
        Names of all parts, of features and of samples; None for samples without names.
    batches
        The batch of each sample; None if the model has no batch factors.
    """

    model: FactorizationEstimator
    data: SparseData | None
    activations: Floats | None
    shares: Floats | None
    weights: Floats
    order: list[int]
    names: list[str]
    features: list[str]
    samples: Any
    batches: NDArray[np.str_] | None = None

    def expected(self, rows: NDArray[Any]) -> Floats:
        """Expected values of some samples, with the factors of their batches."""
        assert self.activations is not None
        found: Floats = self.model.expected(self.activations[rows])
        own = None if self.batches is None else self.batches[rows]
        for name in () if own is None else np.unique(own):
            found[own == name] = self.model.for_batch(name).expected(self.activations[rows[own == name]])
        return np.maximum(found, 0.0)

    @property
    def is_binary(self) -> bool:
        """Whether it is a model of bits."""
        return self.model.declares.data == "bits"

    @property
    def is_signed(self) -> bool:
        """Whether parts have negative weights, so that they have no shares."""
        return self.model.declares.signed

    @classmethod
    def of(cls, model: FactorizationEstimator, X: Any, feature_names: Any = None, batch: Any = None) -> ModelView:
        """Collect the facts about a model and, optionally, data. Given feature names replace those of the model."""
        check_is_fitted(model, "components_")
        data = None if X is None else model.checked_data(X, caller="report")
        batches = None if batch is None or data is None else batch_labels(batch, X, data.shape[0])
        given = {} if batches is None else {"batch": batches}
        activations = model.kept_activations if X is None else model.transform(X, **given)
        shares = None if activations is None else part_shares(np.abs(activations), np.abs(model.components_))
        weights = model.part_weights(activations)
        order = [int(k) for k in np.argsort(-weights, kind="stable")[:MOST_PARTS]]
        samples = None if data is None else data.row_labels
        named = model if feature_names is None else copy.copy(model).name_features(feature_names)
        # Parts without a name are named by their distinctive features, if features have names.
        wordless = named.known_features is None or model.declares.signed or model.known_parts is not None
        names = named.part_labels() if wordless else named.automatic_part_names()
        return cls(model, data, activations, shares, weights, order, names, named.feature_labels(), samples, batches)


class Fact(NamedTuple):
    """A name, a value, and a sentence that explains it if needed."""

    name: str
    value: str
    note: str = ""


def headline(view: ModelView, quality: Quality | None) -> list[Fact]:
    """The few numbers at the top."""
    model = view.model
    facts = [Fact("model", type(model).__name__)]
    if view.data is not None:
        facts.append(Fact("samples", in_words(view.data.shape[0])))
    facts.append(Fact("features", in_words(model.n_features_in_)))
    facts.append(Fact("active parts", f"{model.n_active_components_} of {model.n_components_}"))
    if quality is not None and view.data is not None:
        against = "frequencies of features" if view.is_binary else "row and column sums"
        n_rows = quality.rows.size
        where = "" if n_rows == view.data.shape[0] else f", in {in_words(n_rows)} evenly spaced samples"
        compared = f"Compared with {against} alone{where}."
        remark = "It grows with every part, so choose by held-out scores instead."
        facts.append(Fact("deviance explained", f"{100 * quality.explained:.1f}%", f"{compared} {remark}"))
    return facts


def details(view: ModelView) -> list[Fact]:
    """All other facts about data, fit and parameters."""
    model = view.model
    facts = []
    data = view.data
    if data is not None:
        n_samples, n_features = data.shape
        seen = n_samples * n_features - data.n_missing
        facts += [
            Fact("ones" if view.is_binary else "total", in_words(data.total)),
            Fact("nonzero cells", f"{in_words(data.nnz)} ({100 * data.nnz / max(seen, 1):.3g}% of those observed)"),
            Fact("missing cells", in_words(data.n_missing)),
            Fact("empty samples", in_words(int(np.sum(data.row_sums == 0)))),
        ]
    facts += [Fact("how the fit ended", model.status_.message), Fact("iterations", in_words(model.n_iter_))]
    if not math.isnan(model.objective):
        facts.append(Fact("objective", f"{model.objective:.8g}"))
    facts += [Fact(name, f"{value:.2g}") for name, value in model.facts().items()]
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in NOT_STORED}
    facts.append(Fact("parameters", ", ".join(f"{name}={_short(value)}" for name, value in parameters.items())))
    return facts


def _short(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else "(given)"


def citations(model: Any) -> list[str]:
    """What to cite, one line per reference.

    Parameters
    ----------
    model
        Fitted estimator.
    """
    own = (
        f"The partwise developers. partwise {__version__}: probabilistic nonnegative matrix factorization of count and "
        "binary data."
    )
    return [own, *model.declares.papers, RELEVANCE]
