"""Every bad value gets one sentence with its row, its column and what to do; log-normalised data are noticed."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.feature_extraction.text import TfidfTransformer

from partwise import BinaryMatrix, CountMatrix, PoissonNMF, Table
from partwise.core.validation import looks_normalised
from partwise.errors import InvalidInputError, LogNormalisedWarning


def with_value(value: Any, dtype: Any = np.float64) -> np.ndarray:
    X = np.ones((4, 5), dtype=dtype)
    X[2, 3] = value
    X[3, 1] = value
    return X


CONTAINERS = [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array]
ROWS, COLUMNS = np.array(list("abcd")), np.array(list("vwxyz"))


@pytest.mark.parametrize("make", CONTAINERS)
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            -2.0,
            "Negative values in data passed to CountMatrix: X[2, 3] = -2; pass nonnegative data (raw, not centred).",
        ),
        (np.inf, "X contains infinity: X[2, 3] is inf; remove or correct it."),
        (-np.inf, "X contains infinity: X[2, 3] is -inf; remove or correct it."),
        (1.5, "X[2, 3] = 1.5 is not a whole number, which CountMatrix needs; pass raw counts."),
        (
            1e19,
            "The sum of X overflows 64 bits (2e+19): scale the data down or correct its largest entry,"
            " X[2, 3] = 1e+19.",
        ),
    ],
)
def test_sentences_about_counts(make: Any, value: float, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{re.escape(sentence)}$"):
        CountMatrix.build(make(with_value(value)))


@pytest.mark.parametrize("make", CONTAINERS)
@pytest.mark.parametrize("value", [2.0, 0.5])
def test_sentences_about_bits(make: Any, value: float) -> None:
    remedy = "threshold the data, or use a model for counts."
    sentence = f"X[2, 3] = {value:g} is neither 0 nor 1, which BinaryMatrix needs: {remedy}"
    with pytest.raises(InvalidInputError, match=f"^{re.escape(sentence)}$"):
        BinaryMatrix.build(make(with_value(value)))


def test_labels_are_named() -> None:
    table = Table(with_value(-1), ROWS, COLUMNS, source="cells.csv")
    with pytest.raises(InvalidInputError, match=r"cells.csv\[2, 3\] \(row 'c', column 'y'\) = -1"):
        CountMatrix.build(table)


@pytest.mark.parametrize("make", CONTAINERS)
def test_missing_where_it_is_not_supported(make: Any) -> None:
    sentence = "X[2, 3] is NaN or missing, which the model does not support: fill it in, or leave out that row."
    with pytest.raises(InvalidInputError, match=f"^{re.escape(sentence)}$"):
        CountMatrix.build(make(with_value(np.nan)), allow_missing=False, caller="the model")
    mask = sp.coo_array(([True], ([2], [3])), shape=(4, 5))
    with pytest.raises(InvalidInputError, match=r"X\[2, 3\] is NaN or missing"):
        BinaryMatrix.build(Table(np.eye(4, 5), missing=mask), allow_missing=False)
    # A mask without a missing cell is no obstacle.
    CountMatrix.build(Table(np.eye(4, 5), missing=sp.csr_array((4, 5), dtype=bool)), allow_missing=False)


def test_more_parts_than_cells() -> None:
    with pytest.raises(
        InvalidInputError, match=r"^n_components=99999999 is more than the number of cells of X \(6\): fit fewer\.$"
    ):
        PoissonNMF(99_999_999).fit(np.ones((3, 2)))


def test_nothing_to_factorise() -> None:
    with pytest.raises(
        InvalidInputError, match=r"^All cells of X are zero, so PoissonNMF.fit has nothing to factorise: check how"
    ):
        PoissonNMF(2).fit(np.zeros((3, 2)))
    with pytest.raises(InvalidInputError, match=r"^All observed cells of X are zero"):
        PoissonNMF(2).fit([[0, np.nan], [0, 0]])
    with pytest.raises(InvalidInputError, match=r"^All observed cells of X are zero"):
        PoissonNMF(2).fit(np.full((2, 2), np.nan))
    assert CountMatrix.build(np.zeros((3, 2))).nnz == 0


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_sums_that_overflow(kind: Any) -> None:
    half = 2**62 if kind is np.int64 else 2**63
    with pytest.raises(InvalidInputError, match=r"overflows 64 bits \(.*e\+\d\d\): .* X\[0, 0\] = "):
        CountMatrix.build(np.full((1, 2), half, dtype=kind))
    given_twice = sp.coo_array((np.full(2, half, dtype=kind), ([0, 0], [1, 1])), shape=(1, 2))
    with pytest.raises(InvalidInputError, match="overflows 64 bits"):
        CountMatrix.build(given_twice)
    largest = 2**62  # beyond 2^53, what float64 would round is refused
    assert CountMatrix.build(np.array([[largest]], dtype=kind)).values.tolist() == [largest]


def test_reals_may_be_large_until_their_sum_is_infinite() -> None:
    assert CountMatrix.build([[1e300, 1e-300]], integers=False).total == 1e300
    with pytest.raises(InvalidInputError, match=r"The sum of X overflows 64 bits \(inf\)"):
        CountMatrix.build([[1e308, 1e308]], integers=False)


class TestNormalisedData:
    """Counts divided by their row's total, and their logarithms, are noticed; other data are not."""

    @staticmethod
    def counts(rng: np.random.Generator, n: int = 60) -> np.ndarray:
        return rng.poisson(rng.gamma(0.5, 2.0, size=(n, 1)) * rng.gamma(0.5, 2.0, size=80))

    @staticmethod
    def log_normalised(counts: Any, log: Any = np.log1p) -> sp.csr_array:
        """As scanpy's normalize_total(target_sum=1e4) and log1p do."""
        counts = sp.csr_array(counts).astype(np.float64)
        totals = counts.sum(axis=1)
        X = sp.csr_array(sp.diags_array(1e4 / np.maximum(totals, 1)) @ counts)
        X.data = log(X.data)
        return X

    @pytest.mark.parametrize("kind", [np.float32, np.float64])
    @pytest.mark.parametrize("log", [np.log1p, lambda v: np.log2(1 + v)])
    def test_logged_data_are_noticed(self, kind: Any, log: Any, rng: np.random.Generator) -> None:
        X = self.log_normalised(self.counts(rng), log).astype(kind)
        assert looks_normalised(X) == "log-normalised"
        with pytest.warns(
            LogNormalisedWarning, match="X looks log-normalised: PoissonNMF.fit models raw counts"
        ) as record:
            PoissonNMF(1, random_state=0).fit(X)
        assert len([w for w in record if w.category is LogNormalisedWarning]) == 1
        with pytest.raises(InvalidInputError, match="looks log-normalised: pass the raw counts layer"):
            CountMatrix.build(X)

    def test_text_with_four_digits(self, rng: np.random.Generator) -> None:
        X = self.log_normalised(self.counts(rng))
        X.data = np.round(X.data, 4)
        assert looks_normalised(X) == "log-normalised"

    def test_only_logged_or_only_normalised(self, rng: np.random.Generator) -> None:
        counts = self.counts(rng)
        assert looks_normalised(sp.csr_array(np.log1p(counts))) == "log-normalised"
        X = self.log_normalised(counts, lambda v: v)
        assert looks_normalised(X) == "normalised"
        with pytest.raises(InvalidInputError, match="looks normalised: pass the raw counts layer"):
            CountMatrix.build(X)

    @pytest.mark.parametrize("unit", [1.0, 0.1, 1 / 255, 1e-6, 3.0])
    def test_a_unit_of_all_rows_is_no_normalisation(self, unit: float, rng: np.random.Generator) -> None:
        assert looks_normalised(sp.csr_array(unit * self.counts(rng))) is None

    # No alarm in 1,400 tables: by the rule of three, the rate of false alarms is below 0.22% at 95% confidence.
    @pytest.mark.parametrize(
        "draw",
        [
            lambda rng, shape: rng.random(shape),
            lambda rng, shape: rng.gamma(0.1, size=shape),
            lambda rng, shape: rng.gamma(2.0, size=shape),
            lambda rng, shape: rng.lognormal(size=shape),
            lambda rng, shape: rng.random(shape).round(2),
            lambda rng, shape: np.log1p(rng.gamma(0.5, 1e3, size=shape)),
            lambda rng, shape: rng.poisson(3.0, shape) * rng.gamma(1.0, size=shape[1]),
        ],
    )
    def test_false_alarms_on_random_data(self, draw: Any, rng: np.random.Generator) -> None:
        alarms = 0
        for _ in range(200):
            shape = (int(rng.integers(3, 30)), int(rng.integers(8, 60)))
            alarms += looks_normalised(sp.csr_array(draw(rng, shape))) is not None
        assert alarms == 0

    def test_false_alarms_on_tables_and_images(self) -> None:
        tables = [load_iris().data, load_wine().data, load_breast_cancer().data]
        digits = load_digits().data
        images = [digits, digits / 16, digits / digits.max(), np.sqrt(digits), (digits / 16) ** 2.2]
        for X in [*tables, *images]:
            assert looks_normalised(sp.csr_array(X.astype(np.float64))) is None

    @pytest.mark.parametrize(
        "name", ["ap", "kos", "newsgroups20", "nips2483", "nips_uci7605", "reuters395", "mcf7_rnaseq"]
    )
    def test_real_counts(self, name: str, data_folder: Path) -> None:
        with np.load(data_folder / "counts" / f"{name}.npz") as file:
            X = sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
        X = X.astype(np.float64)
        for harmless in (X, 1e-3 * X):
            assert looks_normalised(harmless) is None
        for sublinear in (False, True):
            weighted = TfidfTransformer(sublinear_tf=sublinear).fit_transform(X)
            assert looks_normalised(weighted) == "weighted by tf-idf"
        assert looks_normalised(self.log_normalised(X).astype(np.float32)) == "log-normalised"
        assert looks_normalised(self.log_normalised(X, lambda v: v)) == "normalised"

    def test_many_rows_cost_little(self) -> None:
        X = sp.random_array((200_000, 50), density=0.2, rng=np.random.default_rng(0), format="csr")
        X.data = np.ceil(X.data * 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert looks_normalised(X) is None


def test_integers_are_never_suspected(rng: np.random.Generator) -> None:
    assert looks_normalised(sp.csr_array(rng.poisson(2.0, size=(50, 50)))) is None
