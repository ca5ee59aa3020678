"""Checked data: sums, transposes, pieces, checksums; arbitrary input gives documented errors or a sound matrix."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from partwise import BinaryMatrix, CountMatrix, PoissonNMF, Table
from partwise.errors import EmptyRowsWarning, InvalidInputError, LogNormalisedWarning, TrainingDataWarning


@pytest.fixture
def data(small_counts: np.ndarray, small_missing: np.ndarray) -> CountMatrix:
    return CountMatrix.build(Table(small_counts, missing=small_missing))


def test_sums_are_of_observed_cells(data: CountMatrix, small_counts: np.ndarray, small_missing: np.ndarray) -> None:
    observed = np.where(small_missing, 0, small_counts)
    np.testing.assert_array_equal(data.to_scipy().toarray(), observed)
    np.testing.assert_array_equal(data.row_sums, observed.sum(axis=1))
    np.testing.assert_array_equal(data.column_sums, observed.sum(axis=0))
    assert data.total == observed.sum()
    assert data.nnz == np.count_nonzero(observed)
    assert data.n_missing == small_missing.sum()
    assert data.is_integer


def test_sums_are_taken_in_64_bits() -> None:
    data = CountMatrix.build(np.full((50, 50), 65_535, dtype=np.uint16))
    assert data.values.dtype == np.uint16
    assert data.total == 65_535 * 2_500
    assert data.row_sums.tolist() == [65_535 * 50] * 50
    assert data.column_sums.tolist() == [65_535 * 50] * 50


@pytest.mark.parametrize(
    ("largest", "kind"),
    [
        (65_535, np.uint16),
        (65_536, np.uint32),
        (2**32 - 1, np.uint32),
        (2**32, np.int64),
        (0.5, np.float64),
        (2.0**63, np.float64),
        (1e25, np.float64),
    ],
)
def test_smallest_type(largest: float, kind: Any) -> None:
    data = CountMatrix.build([[largest, 1]], integers=False)
    assert data.values.dtype == kind
    assert data.values.tolist() == [largest, 1]


def test_transposed(data: CountMatrix, small_counts: np.ndarray, small_missing: np.ndarray) -> None:
    expected = CountMatrix.build(Table(small_counts.T.copy(), missing=small_missing.T))
    assert data.transposed.fingerprint() == expected.fingerprint()
    assert data.transposed.transposed.fingerprint() == data.fingerprint()
    assert data.transposed is data.transposed


def test_rows(data: CountMatrix, small_counts: np.ndarray, small_missing: np.ndarray) -> None:
    expected = CountMatrix.build(Table(small_counts[7:19], missing=small_missing[7:19]))
    assert data.rows(7, 19).fingerprint() == expected.fingerprint()
    assert data.rows(3, 3).shape == (0, 25)


def test_labels_go_with_the_rows() -> None:
    table = Table(np.eye(3), np.array(["a", "b", "c"]), np.array(["x", "y", "z"]))
    data = CountMatrix.build(table)
    assert data.rows(1, 3).row_labels.tolist() == ["b", "c"]  # type: ignore[union-attr]
    assert data.transposed.row_labels.tolist() == ["x", "y", "z"]  # type: ignore[union-attr]


def test_checksums_tell_data_apart(data: CountMatrix) -> None:
    X = np.array([[1, 2], [0, 4]])
    known = CountMatrix.build(X).fingerprint()
    others: list[Any] = [
        [[1, 2], [0, 5]],
        [[1, 2], [4, 0]],
        [[1, 2, 0], [0, 4, 0]],
        [[1, 2], [np.nan, 4]],
        [[1, 2], [0, 4.5]],
    ]
    for other in others:
        assert CountMatrix.build(other, integers=False).fingerprint() != known
    assert BinaryMatrix.build([[1, 0]]).fingerprint() != CountMatrix.build([[1, 0]]).fingerprint()
    assert CountMatrix.build(sp.csc_array(X)).fingerprint() == known


def test_data_can_be_built_from_data() -> None:
    counts = CountMatrix.build([[1, 0], [np.nan, 1]])
    assert CountMatrix.build(counts).fingerprint() == counts.fingerprint()
    assert BinaryMatrix.build(counts).n_missing == 1
    with pytest.raises(InvalidInputError, match="neither 0 nor 1"):
        BinaryMatrix.build(CountMatrix.build([[2]]))


def test_a_huge_sparse_shape_costs_nothing() -> None:
    X = sp.coo_array(([3.0], ([999_999], [1_999_999_999])), shape=(1_000_000, 2_000_000_000))
    data = CountMatrix.build(X)
    assert data.nnz == 1
    assert data.indices.tolist() == [1_999_999_999]


# Arbitrary data -----------------------------------------------------------------------------------------------------

_HARMLESS = [0.0, 0.0, 0.0, 1.0, 2.0, 7.0, 0.5, 1e-3]
_EXTREME = [1e308, 1.7e308, 1e-307, 5e-324, 2.0**53 + 2, 1e19, 1e150, -0.0]
_BAD = [-1.0, -5e-324, np.nan, np.inf, -np.inf]
_KINDS = ["?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", ">f8", "c16", "U2", "O", "M8[D]"]


@st.composite
def arrays(draw: Any) -> np.ndarray:
    """Mostly matrices of float64, the most part of them acceptable; and anything else."""
    if draw(st.integers(0, 3)):
        values = _HARMLESS + draw(st.sampled_from([[], [np.nan], _EXTREME, _EXTREME + _BAD, [1.7e308, 1.0]]))
        shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=5))
        return draw(hnp.arrays(np.float64, shape, elements=st.sampled_from(values)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    kind = draw(st.sampled_from(_KINDS))
    if kind == "O":
        things = st.one_of(st.integers(-3, 2**70), st.none(), st.text(max_size=2), st.floats(), st.booleans())
        return draw(hnp.arrays(object, shape, elements=things))
    return draw(hnp.arrays(np.dtype(kind), shape))


@st.composite
def inputs(draw: Any) -> Any:
    """Arrays, sparse matrices of any format (broken ones too), masked arrays and tables with masks."""
    X = draw(arrays())
    form = draw(st.sampled_from(["plain", "sparse", "duplicates", "broken", "masked", "table", "list"]))
    if form == "plain" or X.ndim != 2 or 0 in X.shape:
        return X
    if form == "list":
        return X.tolist()
    mask = draw(hnp.arrays(np.bool_, X.shape))
    if form == "masked":
        return np.ma.masked_array(X, mask)
    if form == "table":
        if draw(st.booleans()):
            mask = sp.coo_array(mask)
        return Table(X, missing=mask)
    try:
        sparse = sp.coo_array(X)
    except ValueError:  # SciPy has no such type
        return X
    if form == "duplicates":
        return sp.coo_array((np.tile(sparse.data, 2), (np.tile(sparse.row, 2), np.tile(sparse.col, 2))), shape=X.shape)
    sparse = sparse.asformat(draw(st.sampled_from(["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])))
    if form == "broken" and sparse.format in ("csr", "csc") and sparse.nnz:
        name = draw(st.sampled_from(["indices", "indptr"]))
        array = getattr(sparse, name).copy()
        array[draw(st.integers(0, len(array) - 1))] = draw(st.integers(-5, 50))
        setattr(sparse, name, array)
    return sparse


def check_sound(data: Any) -> None:
    assert data.indptr[0] == 0
    assert data.indptr[-1] == len(data.indices) == len(data.values)
    assert data.missing_indptr[-1] == len(data.missing_indices)
    assert np.all(np.isfinite(data.values))
    assert np.all(data.values > 0)
    assert np.isfinite(data.total)
    for indptr, indices in ((data.indptr, data.indices), (data.missing_indptr, data.missing_indices)):
        for n in range(data.shape[0]):
            row = indices[indptr[n] : indptr[n + 1]]
            assert np.all(np.diff(row) > 0)
            assert np.all((row >= 0) & (row < data.shape[1]))
    hidden = sp.csr_array((np.ones(data.n_missing), data.missing_indices, data.missing_indptr), shape=data.shape)
    assert (hidden * data.to_scipy()).nnz == 0


def attempt(build: Any, X: Any) -> Any:
    """What was built, or None where a documented error was raised, in one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for said in (LogNormalisedWarning, TrainingDataWarning, EmptyRowsWarning):
                warnings.simplefilter("ignore", said)
            return build(X)
    except (InvalidInputError, TypeError) as error:
        if "\n" in str(error) or (type(error) is not InvalidInputError and "is of type" not in str(error)):
            raise
        return None


@settings(max_examples=500)
@given(inputs())
def test_arbitrary_input(X: Any) -> None:
    counts = attempt(CountMatrix.build, X)
    event("refused" if counts is None else "accepted")
    if counts is not None:
        check_sound(counts)
        assert np.all(counts.values == np.floor(counts.values))
    bits = attempt(BinaryMatrix.build, X)
    if bits is not None:
        check_sound(bits)
        assert np.all(bits.values == 1)
        assert counts is not None
    reals = attempt(lambda given: CountMatrix.build(given, integers=False), X)
    if reals is not None:
        check_sound(reals)
    # Whole numbers are nonnegative reals too.
    assert counts is None or (reals is not None and reals.fingerprint() == counts.fingerprint())


@settings(max_examples=150)
@given(
    inputs(),
    st.integers(1, 4),
    st.sampled_from(["coordinate", "multiplicative"]),
    st.sampled_from(["random", "nndsvd"]),
)
def test_arbitrary_input_to_fit(X: Any, n_components: int, inference: str, init: str) -> None:
    model = PoissonNMF(n_components, inference=inference, init=init, max_iter=4, tol=0.0, random_state=0)
    fitted = attempt(model.fit, X)
    event("refused" if fitted is None else "accepted")
    if fitted is None:
        return
    activations = model.transform(X)
    for array in (model.components_, activations, model.mean_activations_, model.inverse_transform(activations)):
        assert np.all(np.isfinite(array))
        assert np.all(array >= 0)
    assert np.isfinite(model.kkt_residual_)
    score = attempt(model.score, X)
    assert score is None or np.isfinite(score)
    assert not np.isnan(model.activation_errors(X)).any()
    assert not np.isnan(model.partial_fit(X).components_).any()


def test_checked_data_are_kept_unless_zeros_are_stored() -> None:
    data = CountMatrix.build([[3, 0], [2, 1]])
    assert CountMatrix.build(data) is data
    assert CountMatrix.build(data.with_values(np.array([3, 0, 1]))).nnz == 2
    with pytest.raises(InvalidInputError, match=r"X\[0, 0\] = 0\.5 is not a whole number"):
        CountMatrix.build(CountMatrix.build([[0.5, 1.0]], integers=False))
