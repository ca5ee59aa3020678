"""Data of every accepted kind give the same checked matrix, and what they came in is never changed."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from partwise import BinaryMatrix, CountMatrix, Table, as_table
from partwise.errors import InvalidInputError

COUNTS = np.array([[3, 0, 1, 0], [0, 0, 0, 0], [7, 2, 0, 0]])
MISSING = np.array([[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
WITH_NAN = np.where(MISSING, np.nan, COUNTS)
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


def assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    assert left.shape == right.shape
    for name in ("indptr", "indices", "values", "missing_indptr", "missing_indices"):
        a, b = getattr(left, name), getattr(right, name)
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)
    assert left.fingerprint() == right.fingerprint()


@pytest.fixture
def plain() -> CountMatrix:
    return CountMatrix.build(COUNTS)


@pytest.fixture
def holed() -> CountMatrix:
    return CountMatrix.build(WITH_NAN)


def test_layout(plain: CountMatrix, holed: CountMatrix) -> None:
    assert plain.values.dtype == np.uint16
    assert plain.indices.tolist() == [0, 2, 0, 1]
    assert plain.indptr.tolist() == [0, 2, 2, 4]
    assert plain.n_missing == 0
    assert holed.missing_indices.tolist() == [1, 3]
    assert holed.missing_indptr.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("kind", "?bhilqBHILQefdg")
def test_every_real_type(kind: str) -> None:
    X = (COUNTS > 0) if kind == "?" else COUNTS
    assert_same(CountMatrix.build(X.astype(kind)), CountMatrix.build(X.astype(np.int64)))


@pytest.mark.parametrize("kind", [">i4", ">f8", ">u2"])
def test_foreign_byte_order(kind: str, plain: CountMatrix) -> None:
    assert_same(CountMatrix.build(COUNTS.astype(kind)), plain)


@pytest.mark.parametrize("flavour", ["array", "matrix"])
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32, np.float64, np.longdouble])
def test_every_sparse_format(fmt: str, flavour: str, kind: Any, plain: CountMatrix) -> None:
    X = getattr(sp, f"{fmt}_{flavour}")(COUNTS.astype(kind))
    assert_same(CountMatrix.build(X), plain)
    assert X.format == fmt


@pytest.mark.parametrize("flavour", ["array", "matrix"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_stored_nan_is_missing_in_every_format(fmt: str, flavour: str, holed: CountMatrix) -> None:
    X = getattr(sp, f"{fmt}_{flavour}")(WITH_NAN)
    assert_same(CountMatrix.build(X), holed)


@pytest.mark.parametrize(
    "make",
    [
        lambda: COUNTS.tolist(),
        lambda: np.asfortranarray(COUNTS),
        lambda: COUNTS.view(np.matrix),
        lambda: COUNTS.astype(object),
        lambda: [[decimal.Decimal(int(v)) for v in row] for row in COUNTS],
        lambda: [[fractions.Fraction(int(v)) for v in row] for row in COUNTS],
        lambda: np.repeat(COUNTS, 2, axis=1)[:, ::2],
        lambda: memoryview(np.ascontiguousarray(COUNTS)),
        lambda: Table(COUNTS),
        lambda: Table(sp.coo_array(COUNTS)),
        lambda: CountMatrix.build(COUNTS),
        lambda: np.ma.masked_array(COUNTS),
    ],
)
def test_other_containers(make: Callable[[], Any], plain: CountMatrix) -> None:
    assert_same(CountMatrix.build(make()), plain)


def objects_with_none() -> Any:
    return np.where(MISSING, None, COUNTS.astype(object))


@pytest.mark.parametrize(
    "make",
    [
        lambda: WITH_NAN.astype(np.float32),
        lambda: WITH_NAN.astype(np.float16),
        lambda: objects_with_none(),
        lambda: objects_with_none().tolist(),
        lambda: np.ma.masked_array(COUNTS, MISSING),
        lambda: np.ma.masked_array(np.where(MISSING, -5, COUNTS), MISSING),
        lambda: np.ma.masked_invalid(WITH_NAN),
        lambda: np.ma.masked_array(np.where(MISSING, "n/a", COUNTS.astype(object)), MISSING),
        lambda: Table(COUNTS, missing=MISSING),
        lambda: Table(COUNTS, missing=MISSING.astype(int)),
        lambda: Table(sp.csc_array(COUNTS), missing=sp.coo_array(MISSING)),
        lambda: Table(sp.csr_matrix(COUNTS), missing=sp.lil_matrix(MISSING)),
        lambda: Table(np.ma.masked_array(COUNTS, [MISSING[0], [0] * 4, [0] * 4]), missing=MISSING),
        lambda: Table(sp.csr_array(np.where(MISSING[[0, 2, 2]], np.nan, COUNTS)), missing=MISSING),
        lambda: CountMatrix.build(WITH_NAN),
    ],
)
def test_other_ways_of_missing(make: Callable[[], Any], holed: CountMatrix) -> None:
    assert_same(CountMatrix.build(make()), holed)


def test_mask_argument(holed: CountMatrix) -> None:
    assert_same(CountMatrix.build(as_table(COUNTS, missing=sp.dok_array(MISSING))), holed)
    joined = as_table(Table(COUNTS, missing=MISSING[[0, 2, 2]]), missing=MISSING[[2, 1, 2]])
    assert_same(CountMatrix.build(joined), holed)


@pytest.mark.parametrize("hidden", [0.0, 5.0, -3.0, 2.5, np.inf, -np.inf, np.nan, 1e300, 5e-324])
def test_what_a_missing_cell_held_changes_no_bit(hidden: float, holed: CountMatrix) -> None:
    held = np.where(MISSING, hidden, COUNTS)
    for X in (
        np.ma.masked_array(held, MISSING),
        Table(held, missing=MISSING),
        Table(sp.csr_array(held), missing=MISSING),
    ):
        assert_same(CountMatrix.build(X), holed)
    bits = BinaryMatrix.build(Table(np.where(MISSING, hidden, COUNTS > 0), missing=sp.csr_array(MISSING)))
    assert_same(bits, BinaryMatrix.build(np.where(MISSING, np.nan, COUNTS > 0)))


@pytest.mark.parametrize("fmt", ["coo", "csr", "csc"])
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int32, np.float32, np.int64])
def test_entries_given_twice_are_added_in_64_bits(fmt: str, kind: Any) -> None:
    ones = np.full(300, 100, dtype=kind)
    rows, columns = np.zeros(300, dtype=np.int32), np.ones(300, dtype=np.int32)
    X = {
        "coo": lambda: sp.coo_array((ones, (rows, columns)), shape=(1, 2)),
        "csr": lambda: sp.csr_array((ones, columns, [0, 300]), shape=(1, 2)),
        "csc": lambda: sp.csc_array((ones, rows, [0, 0, 300]), shape=(1, 2)),
    }[fmt]()
    data = CountMatrix.build(X)
    assert data.values.tolist() == [30_000]
    assert X.nnz == 300  # not tidied up behind the caller's back
    assert X.dtype == kind


def test_true_given_twice_is_true() -> None:
    X = sp.coo_array((np.ones(2, dtype=bool), ([0, 0], [1, 1])), shape=(1, 2))
    assert BinaryMatrix.build(X).values.tolist() == [1]
    assert CountMatrix.build(X).values.tolist() == [1]


def test_wrong_flags_are_not_trusted() -> None:
    X = sp.csr_array((np.array([1, 2, 4]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    X.has_canonical_format = True
    assert CountMatrix.build(X).to_scipy().toarray().tolist() == [[4, 3]]
    coo = sp.coo_array((np.array([200, 100], dtype=np.uint8), ([0, 0], [1, 1])), shape=(1, 2))
    coo.has_canonical_format = True
    assert CountMatrix.build(coo).to_scipy().toarray().tolist() == [[0, 300]]


def test_input_is_not_changed() -> None:
    X = sp.csr_array((np.array([1.0, 2.0, 0.0, 4.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3))
    before = [array.copy() for array in (X.data, X.indices, X.indptr)]
    mask = sp.csr_array((np.array([True, False]), np.array([1, 0]), np.array([0, 2, 2])), shape=(2, 3))
    CountMatrix.build(Table(X, missing=mask))
    for now, then in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)
    assert mask.nnz == 2
    masked = np.ma.masked_array(COUNTS.copy(), MISSING)
    CountMatrix.build(masked)
    np.testing.assert_array_equal(masked.data, COUNTS)


def test_read_only_memory() -> None:
    X = COUNTS.astype(float)
    X.setflags(write=False)
    assert CountMatrix.build(X).nnz == 4
    csr = sp.csr_array(COUNTS)
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    assert CountMatrix.build(csr).nnz == 4


class TestPandas:
    pd = pytest.importorskip("pandas")

    def frame(self, values: Any, **arguments: Any) -> Any:
        return self.pd.DataFrame(values, columns=["a", "b", "c", "d"], **arguments)

    def test_labels(self, plain: CountMatrix) -> None:
        data = CountMatrix.build(self.frame(COUNTS, index=["x", "y", "z"]))
        assert_same(data, plain)
        assert data.column_labels is not None
        assert data.row_labels is not None
        assert data.column_labels.tolist() == ["a", "b", "c", "d"]
        assert data.row_labels.tolist() == ["x", "y", "z"]
        assert CountMatrix.build(self.frame(COUNTS)).row_labels is None

    @pytest.mark.parametrize("kind", ["int8", "uint64", "float32", "Int64", "UInt8", "Float64", "int64[pyarrow]"])
    def test_types(self, kind: str, plain: CountMatrix) -> None:
        assert_same(CountMatrix.build(self.frame(COUNTS).astype(kind)), plain)

    def test_mixed_types(self, plain: CountMatrix) -> None:
        kinds = {"a": "Int64", "b": "float32", "c": "boolean", "d": "int8"}
        assert_same(CountMatrix.build(self.frame(COUNTS).astype(kinds)), plain)
        mixed = self.frame(COUNTS).astype({"a": "int64", "b": "float32", "c": "bool", "d": "uint8"})
        assert_same(CountMatrix.build(mixed), plain)

    @pytest.mark.parametrize("kind", ["Int64", "UInt8", "Float64", "int64[pyarrow]", "float64", "object"])
    def test_missing(self, kind: str, holed: CountMatrix) -> None:
        frame = self.frame(WITH_NAN).astype(kind)
        assert_same(CountMatrix.build(frame), holed)

    def test_missing_booleans(self) -> None:
        frame = self.frame(np.where(MISSING, None, COUNTS > 0)).astype("boolean")
        assert_same(BinaryMatrix.build(frame), BinaryMatrix.build(np.where(MISSING, np.nan, COUNTS > 0)))

    @pytest.mark.parametrize("kind", ["int64", "uint8", "float64"])
    def test_sparse(self, kind: str, plain: CountMatrix) -> None:
        assert_same(CountMatrix.build(self.frame(COUNTS).astype(self.pd.SparseDtype(kind, 0))), plain)

    def test_sparse_with_nan(self, plain: CountMatrix, holed: CountMatrix) -> None:
        assert_same(CountMatrix.build(self.frame(WITH_NAN).astype(self.pd.SparseDtype(float, 0.0))), holed)
        # NaN is what is not stored: pandas' own default for floats.
        assert_same(CountMatrix.build(self.frame(WITH_NAN).astype(self.pd.SparseDtype(float))), holed)
        assert_same(CountMatrix.build(self.frame(COUNTS).astype(self.pd.SparseDtype(int, 7))), plain)
        some = self.frame(COUNTS).astype({"a": self.pd.SparseDtype(int, 0)})
        assert_same(CountMatrix.build(some), plain)

    @pytest.mark.parametrize("text", ["n/a", "12"])
    def test_text_is_refused_by_name(self, text: str) -> None:
        frame = self.frame(COUNTS, index=["x", "y", "z"]).astype({"c": object})
        frame.loc["y", "c"] = text
        with pytest.raises(InvalidInputError, match=rf"^X\[1, 2\] \(row 'y', column 'c'\) is '{text}'.*drop"):
            CountMatrix.build(frame)

    def test_na_among_objects(self) -> None:
        frame = self.pd.DataFrame({"a": [1, 2], "b": self.pd.array([self.pd.NA, 3], dtype=object)})
        assert_same(CountMatrix.build(frame), CountMatrix.build([[1, np.nan], [2, 3]]))

    def test_dates_and_categories(self) -> None:
        with pytest.raises(TypeError, match=r"X\[0, 0\] \(column 'when'\) is of type .*drop that column"):
            CountMatrix.build(self.pd.DataFrame({"when": self.pd.to_datetime(["2020-01-01"])}))
        with pytest.raises(InvalidInputError, match=r"column 'kind'\) is 'wood'"):
            CountMatrix.build(self.pd.DataFrame({"n": [1], "kind": self.pd.Categorical(["wood"])}))


class TestPolars:
    pl = pytest.importorskip("polars")

    def test_values_and_labels(self, plain: CountMatrix) -> None:
        data = CountMatrix.build(self.pl.DataFrame(COUNTS, schema=["a", "b", "c", "d"]))
        assert_same(data, plain)
        assert data.column_labels is not None
        assert data.column_labels.tolist() == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("kind", ["Int64", "UInt8", "Int32", "Float32", "Float64"])
    def test_nulls(self, kind: str, holed: CountMatrix) -> None:
        columns = {
            name: [None if hidden else int(value) for value, hidden in zip(COUNTS[:, f], MISSING[:, f], strict=True)]
            for f, name in enumerate("abcd")
        }
        frame = self.pl.DataFrame(columns, schema=dict.fromkeys("abcd", getattr(self.pl, kind)))
        assert_same(CountMatrix.build(frame), holed)

    def test_integers_that_numpy_lacks(self) -> None:
        with pytest.raises(InvalidInputError, match="column 'a' is of type Int128: convert it to 64 bits or fewer"):
            CountMatrix.build(self.pl.DataFrame({"a": [2**100, 1]}, schema={"a": self.pl.Int128}))

    def test_null_booleans(self) -> None:
        frame = self.pl.DataFrame({"a": [True, None], "b": [False, True]})
        assert_same(BinaryMatrix.build(frame), BinaryMatrix.build([[1, 0], [np.nan, 1]]))

    def test_lazy_frames(self) -> None:
        with pytest.raises(InvalidInputError, match="X is a LazyFrame, and a 2D array is needed"):
            as_table(self.pl.LazyFrame({"a": [1]}))

    def test_text_is_refused_by_name(self) -> None:
        with pytest.raises(InvalidInputError, match=r"X\[0, 0\] \(column 'id'\) is 's1', which is text"):
            CountMatrix.build(self.pl.DataFrame({"id": ["s1"], "n": [4]}))


class TestAnnData:
    anndata = pytest.importorskip("anndata")

    @pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.csr_array])
    def test_x_layer_and_backed(self, make: Any, plain: CountMatrix, tmp_path: Path) -> None:
        X = make(COUNTS.astype(np.float32))
        adata = self.anndata.AnnData(X, layers={"double": X * 2})
        adata.obs_names, adata.var_names = ["x", "y", "z"], ["a", "b", "c", "d"]
        adata.write_h5ad(tmp_path / "a.h5ad")
        backed = self.anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
        for given in (adata, adata[:, ["a", "b", "c", "d"]], backed):
            data = CountMatrix.build(given)
            assert_same(data, plain)
            assert data.column_labels is not None
            assert data.column_labels.tolist() == ["a", "b", "c", "d"]
            doubled = CountMatrix.build(as_table(given, layer="double"))
            assert_same(doubled, CountMatrix.build(2 * COUNTS))
        backed.file.close()

    def test_wrong_layers(self) -> None:
        adata = self.anndata.AnnData(COUNTS.astype(float), layers={"raw": COUNTS})
        with pytest.raises(
            InvalidInputError, match="layer='counts' is not in the AnnData object: its layers are 'raw'"
        ):
            as_table(adata, layer="counts")
        with pytest.raises(InvalidInputError, match="has no X: name a layer"):
            as_table(self.anndata.AnnData(layers={"raw": COUNTS}))
        with pytest.raises(InvalidInputError, match="needs an AnnData object, got ndarray"):
            as_table(COUNTS, layer="raw")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1, 2, 3], r"Expected 2D array, got 1D array of shape \(3,\) as X: Reshape your data"),
        (np.zeros((2, 2, 2)), "Expected 2D array, got 3D"),
        (5, "X is a int, and a 2D array is needed: pass samples x features"),
        (None, "X is a NoneType"),
        ("counts.mtx", "X is a str.*read a file with partwise.read"),
        ({"a": [1]}, "X is a dict"),
        ([[1, 2], [3]], "X is not a matrix, as its rows differ in length"),
        (np.zeros((0, 3)), r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((3, 0)), r"Found array with 0 feature\(s\) \(shape=\(3, 0\)\)"),
        (sp.csr_array((0, 3)), r"0 sample\(s\)"),
        (sp.coo_array((3, 0)), r"0 feature\(s\)"),
        (sp.coo_array(np.arange(3)), "got 1D sparse array"),
        (np.ones((1, 1), dtype=complex), "Complex data not supported: pass real numbers as X"),
        (sp.csr_array(np.ones((1, 1), dtype=complex)), "Complex data not supported"),
        ([["a", "b"]], r"X\[0, 0\] is 'a', which is text: .*; drop that column or convert it"),
        ([[1, "2"]], r"X\[0, 0\] is '1', which is text"),
        (np.array([[1, "2"]], dtype=object), r"X\[0, 1\] is '2', which is text"),
        (np.array([[b"x"]]), r"X\[0, 0\] is \"b'x'\", which is text"),
        ([[1, 10**400]], r"X\[0, 1\] is too large for float64: scale the data down"),
        (sp.csr_array((1, 2**31)), "X has 2147483648 features, and at most 2147483647 are possible: split it"),
        (Table(COUNTS, row_labels=np.array(["x"])), "X has 1 row labels for 3 rows: give one per row"),
        (Table(COUNTS, column_labels=np.array(["x"])), "X has 1 column labels for 4 columns"),
        (Table(COUNTS, missing=MISSING[:2]), r"missing has shape \(2, 4\), but X has shape \(3, 4\)"),
        (Table(COUNTS, missing=np.full((3, 4), "x")), "missing must be a boolean matrix"),
        (Table(COUNTS, missing=MISSING[0]), r"missing has shape \(4,\)"),
    ],
)
def test_not_a_matrix_of_numbers(X: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as raised:
        as_table(X)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "kind"), [({}, "dict"), (object(), "object"), (1j, "complex"), (np.datetime64("2020"), "datetime64")]
)
def test_cells_that_are_objects(value: Any, kind: str) -> None:
    X = np.array([[1, 2], [3, 4]], dtype=object)
    X[1, 0] = value
    with pytest.raises(TypeError, match=rf"^X\[1, 0\] is of type {kind}: .*drop that column"):
        as_table(X)
    with pytest.raises(TypeError, match="is of type"):
        as_table(np.zeros((1, 1), dtype="m8[s]"))
    with pytest.raises(TypeError, match="is of type"):
        as_table(np.ma.masked_array(np.zeros((1, 1), dtype=[("a", int)]), mask=True))


def broken(fmt: str, **arrays: Any) -> Any:
    """A sparse matrix whose arrays were changed after it was made."""
    X = getattr(sp, f"{fmt}_array")(COUNTS)
    for name, array in arrays.items():
        setattr(X, name, np.asarray(array, dtype=np.int32))
    return X


@pytest.mark.parametrize(
    "make",
    [
        lambda: broken("csr", indices=[0, 99, 0, 1]),
        lambda: broken("csr", indices=[0, -1, 0, 1]),
        lambda: broken("csr", indptr=[0, 2, 1, 4]),
        lambda: broken("csr", indptr=[1, 2, 2, 4]),
        lambda: broken("csr", indptr=[0, 2, 2, 9]),
        lambda: broken("csr", indptr=[0, 2, 2, 0]),
        lambda: broken("csc", indptr=[0, 2, 3, 4, 0]),
        lambda: broken("csc", indices=[0, 2, 99, 0]),
        lambda: broken("csc", indices=[0, 2, 2_000_000_000, 0]),
        lambda: broken("bsr", indices=[0] * 3 + [77]),
        lambda: Table(COUNTS, missing=broken("csr", indices=[0, 99, 0, 1])),
    ],
)
def test_wrong_positions_are_found_before_anything_follows_them(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"is not a valid sparse matrix .*: rebuild it"):
        as_table(make())


def test_wrong_positions_in_other_formats() -> None:
    coo, lil, dok = sp.coo_array(COUNTS), sp.lil_array(COUNTS), sp.dok_array(COUNTS)
    coo.coords[1][0] = 99
    lil.rows[0] = [99, 2]
    dok._dict[99, 99] = 1
    for X in (coo, lil, dok):
        with pytest.raises(InvalidInputError, match="is not a valid sparse matrix"):
            as_table(X)
