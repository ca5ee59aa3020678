"""New data meet a model by the names of features: order is free, absent features are missing, unknown ones left out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from partwise import AllocationNMF, BinaryNMF, EmpiricalBayesPoissonNMF, GammaPoissonNMF, LogisticPCA, PoissonNMF, Table
from partwise.errors import FeatureMatchWarning, InvalidInputError

NAMES = np.array([f"f{f}" for f in range(25)])
COUNT_MODELS = [
    PoissonNMF(3, random_state=0, max_iter=50, tol=0.0),
    GammaPoissonNMF(3, random_state=0, max_iter=20, tol=0.0),
    EmpiricalBayesPoissonNMF(3, random_state=0, max_iter=10, tol=0.0),
]
BIT_MODELS = [BinaryNMF(3, n_draws=20, burn_in=20, random_state=0), LogisticPCA(2, random_state=0)]


def fitted(model: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(Table(X, column_labels=NAMES))


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.poisson(rng.gamma(0.5, 3.0, (30, 3)) @ rng.dirichlet([0.3] * 25, 3) * 8)


@pytest.fixture(scope="module")
def models(counts: np.ndarray) -> list[Any]:
    return [fitted(model, counts) for model in COUNT_MODELS] + [
        fitted(model, (counts > 1).astype(int)) for model in BIT_MODELS
    ]


def data_of(model: Any, counts: np.ndarray) -> np.ndarray:
    return (counts > 1).astype(float) if model.declares.data == "bits" else counts.astype(float)


def test_the_order_of_features_does_not_matter(models: list[Any], counts: np.ndarray) -> None:
    order = np.random.default_rng(1).permutation(25)
    for model in models:
        X = data_of(model, counts)
        swapped = Table(sp.csr_array(X[:, order]), column_labels=NAMES[order])
        np.testing.assert_array_equal(model.transform(swapped), model.transform(Table(X, column_labels=NAMES)))


def test_absent_features_are_missing_and_unknown_ones_left_out(models: list[Any], counts: np.ndarray) -> None:
    kept = np.array([24, 3, 5, 7, 1, 0, 20, 13, 12, 9])
    for model in models:
        X = data_of(model, counts)
        X[2, 3] = np.nan
        masked = np.full_like(X, np.nan)
        masked[:, kept] = X[:, kept]
        other = np.column_stack([X[:, kept], np.ones(30), np.ones(30)])
        named = Table(other, column_labels=np.array([*NAMES[kept], "new", "newer"]))
        told = r"^X has 10 of the 25 features of the model; the other 15 count as missing; 2 further features of X are"
        with pytest.warns(FeatureMatchWarning, match=told):
            found = model.transform(named)
        np.testing.assert_array_equal(found, model.transform(Table(masked, column_labels=NAMES)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FeatureMatchWarning)
            assert model.score(named) == model.score(Table(masked, column_labels=NAMES))


def test_one_unknown_feature(models: list[Any], counts: np.ndarray) -> None:
    named = Table(np.column_stack([counts, counts[:, 0]]), column_labels=np.array([*NAMES, "new"]))
    with pytest.warns(FeatureMatchWarning, match=r"1 further feature of X is left out\.$"):
        models[0].transform(named)


def test_zeros_would_not_do(counts: np.ndarray) -> None:
    """The check above has power: absent features taken for zeros give other activations."""
    model = fitted(PoissonNMF(3, random_state=0, max_iter=50, tol=0.0), counts)
    zeros = counts.copy()
    zeros[:, 10:] = 0
    with pytest.warns(FeatureMatchWarning):
        found = model.transform(Table(counts[:, :10], column_labels=NAMES[:10]))
    as_zeros = model.transform(Table(zeros, column_labels=NAMES))
    assert found.sum() > 1.3 * as_zeros.sum()


def test_frames_and_anndata_are_matched_too(counts: np.ndarray) -> None:
    pd, anndata = pytest.importorskip("pandas"), pytest.importorskip("anndata")
    model = fitted(PoissonNMF(3, random_state=0, max_iter=50, tol=0.0), counts)
    frame = pd.DataFrame(counts, index=[f"s{n}" for n in range(30)], columns=NAMES)
    wanted = model.transform(frame)
    np.testing.assert_array_equal(model.transform(frame[NAMES[::-1]]), wanted)
    cells = anndata.AnnData(frame[NAMES[::-1]].astype(float))
    np.testing.assert_array_equal(model.transform(cells), wanted)


def test_too_few_features_are_refused(counts: np.ndarray) -> None:
    model = fitted(PoissonNMF(3, random_state=0, max_iter=5, tol=0.0), counts)
    few = np.array(["f0", *(f"g{f}" for f in range(24))])
    told = r"^X has 1 of the 25 features of this PoissonNMF, too few .* such as 'f0', and X such as 'f0'; pass more"
    with pytest.raises(InvalidInputError, match=told):
        model.transform(Table(counts, column_labels=few))
    turned = Table(counts.T, row_labels=NAMES, column_labels=np.array([f"s{n}" for n in range(30)]))
    with pytest.raises(InvalidInputError, match=r"the rows of X have such names, so swap rows and columns"):
        model.transform(turned)


def test_repeated_names_are_refused_where_they_matter(counts: np.ndarray) -> None:
    model = fitted(PoissonNMF(3, random_state=0, max_iter=5, tol=0.0), counts)
    with pytest.raises(InvalidInputError, match=r"^2 columns of X are called 'f3'"):
        model.transform(Table(counts, column_labels=np.array([*NAMES[:24], "f3"])))
    model.feature_names_in_ = np.array([*NAMES[:24], "f3"], dtype=object)
    with pytest.raises(InvalidInputError, match=r"^the model has the feature 'f3' twice"):
        model.transform(Table(counts, column_labels=NAMES))


def test_models_without_missing_cells_say_so(counts: np.ndarray) -> None:
    model = fitted(AllocationNMF(3, inference="vb", random_state=0, max_iter=20), counts)
    np.testing.assert_array_equal(
        model.transform(Table(counts[:, ::-1], column_labels=NAMES[::-1])),
        model.transform(Table(counts, column_labels=NAMES)),
    )
    told = r"^X lacks 5 of the 25 features of this AllocationNMF, such as 'f20', .* refit its parts with PoissonNMF"
    with pytest.raises(InvalidInputError, match=told):
        model.transform(Table(counts[:, :20], column_labels=NAMES[:20]))
