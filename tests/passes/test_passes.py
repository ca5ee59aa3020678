"""Passes over nonzeros beside plain NumPy: any cut into blocks, missing cells, rows longer and shorter than a batch."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from partwise import CountMatrix
from partwise.core.weights import CellWeights
from partwise.engines import resolve_engine
from partwise.engines.blocks import Block, aligned
from partwise.passes import kernels
from partwise.passes import side as side_module
from partwise.passes.batches import BatchPosterior, expected_in_groups
from partwise.passes.side import FLOOR, Floors, Side, own_exposure

N_ROWS, N_COLUMNS, N_COMPONENTS = 17, 70, 5
RNG = np.random.default_rng(11)
# Rows of every length from 0 to 70 nonzeros or so, in steps: batches of sixteen cells and groups of four have ends.
X = RNG.poisson(3.0, size=(N_ROWS, N_COLUMNS)) * (RNG.random((N_ROWS, N_COLUMNS)) < np.arange(N_ROWS)[:, None] / 16)
OBSERVED = RNG.random(X.shape) > np.linspace(0.0, 0.9, N_ROWS)[:, None]
FACTOR, OTHER = RNG.gamma(1.0, size=(N_ROWS, N_COMPONENTS)), RNG.gamma(1.0, size=(N_COLUMNS, N_COMPONENTS))
CUTS = [(0, N_ROWS), (0, 1, 5, 16, N_ROWS), tuple(range(N_ROWS + 1))]


def data_of(*, missing: bool) -> tuple[CountMatrix, np.ndarray, np.ndarray]:
    """Data, their values with 0 where nothing is seen, and what is observed."""
    observed = OBSERVED if missing else np.ones(X.shape, bool)
    return CountMatrix.build(np.where(observed, X, np.nan)), X * observed, observed


@pytest.fixture(params=[1, 40, 10**6], ids=["single rows", "a few rows", "all rows"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(side_module, "NONZEROS_AT_ONCE", request.param)
    return resolve_engine(None, 2)


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("with_logs", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float64])
def test_expected_counts(cuts: tuple[int, ...], with_logs: bool, kind: type) -> None:
    data, rates = CountMatrix.build(X), FACTOR @ OTHER.T
    out, values = np.full(FACTOR.shape, np.nan), data.values.astype(kind)
    logs = sum(
        kernels.expected_counts((data.indptr, data.indices, values), FACTOR, OTHER, with_logs, *block, out)
        for block in pairwise(cuts)
    )
    np.testing.assert_allclose(out, FACTOR * ((X / rates) @ OTHER), rtol=1e-12, atol=1e-14)
    assert logs == pytest.approx(np.sum(X * np.log(rates)) if with_logs else 0.0, rel=1e-12)
    np.testing.assert_allclose(out.sum(axis=1), X.sum(axis=1), rtol=1e-12)


def test_blocks_leave_other_rows_alone() -> None:
    data, out = CountMatrix.build(X), np.full(FACTOR.shape, np.nan)
    kernels.expected_counts((data.indptr, data.indices, data.values), FACTOR, OTHER, False, 3, 9, out)
    np.testing.assert_array_equal(np.isnan(out).any(axis=1), ~np.isin(np.arange(N_ROWS), range(3, 9)))


@pytest.mark.parametrize("cuts", CUTS)
def test_exposures(cuts: tuple[int, ...]) -> None:
    data, _, observed = data_of(missing=True)
    out = np.full(FACTOR.shape, np.nan)
    for block in pairwise(cuts):
        kernels.exposures(data.missing_indptr, data.missing_indices, OTHER.sum(axis=0), OTHER, *block, out)
    np.testing.assert_allclose(out, observed @ OTHER, rtol=1e-11)


def test_exposures_keep_their_digits() -> None:
    other = np.array([[1e12, 0.25], [1e-3, 0.0], [2e-3, 0.0], [4e-3, 0.0]])
    cases = {(0,): [7e-3, 0.0], (0, 1, 2, 3): [0.0, 0.0], (1, 2): [1e12 + 4e-3, 0.25], (0, 3): [3e-3, 0.0]}
    for hidden, expected in cases.items():
        out = np.full(2, np.nan)
        kernels.row_exposure(np.array(hidden, np.int32), other.sum(axis=0), other, out)
        np.testing.assert_allclose(out, expected, rtol=1e-14)


@pytest.mark.parametrize("missing", [False, True])
def test_a_side_is_its_numpy_lines(missing: bool, engine: object) -> None:
    data, seen, observed = data_of(missing=missing)
    for own, counts, cells, factor, other in (
        (data, seen, observed, FACTOR, OTHER),
        (data.transposed, seen.T, observed.T, OTHER, FACTOR),
    ):
        side = Side(own, engine)
        assert side.blocks[0][0] == 0
        assert side.blocks[-1][1] == len(counts)
        rates = factor @ other.T
        found, logs = side.expected_counts(factor, other, with_logs=True)
        np.testing.assert_allclose(found, factor * ((counts / rates) @ other), rtol=1e-12, atol=1e-14)
        assert logs == pytest.approx(np.sum(counts * np.log(rates)), rel=1e-12)
        again, none = side.expected_counts(factor, other)
        np.testing.assert_array_equal(again, found)
        assert none == 0.0
        np.testing.assert_allclose(side.totals(factor), factor.sum(axis=0), rtol=1e-12)
        even = np.repeat(counts.sum(axis=1, keepdims=True) / 3, 3, axis=1)
        np.testing.assert_allclose(side.even_counts(3), even, rtol=1e-14)
        np.testing.assert_array_equal(side.place(factor), factor)
        for totals in (None, other.sum(axis=0)):
            exposure = np.asarray(side.exposure(other, totals=totals))
            assert exposure.shape == (factor.shape if missing else (1, N_COMPONENTS))
            np.testing.assert_allclose(np.broadcast_to(exposure, factor.shape), cells @ other, rtol=1e-10)


@pytest.mark.parametrize("missing", [False, True])
def test_exposure_of_a_block(missing: bool) -> None:
    data, _, observed = data_of(missing=missing)
    for start, stop in ((0, 4), (4, N_ROWS)):
        found = own_exposure(Block(data, start, stop, 0), OTHER, OTHER.sum(axis=0))
        expected = observed[start:stop] @ OTHER
        np.testing.assert_allclose(np.broadcast_to(found, expected.shape), expected, rtol=1e-10)


def test_factors_for_kernels_have_the_same_values() -> None:
    np.testing.assert_array_equal(aligned(OTHER), OTHER)
    assert aligned("elsewhere") == "elsewhere", "what is on workers stays there"


@pytest.mark.parametrize("n_components", [1, 4])
def test_floors_are_shares_of_the_margins(n_components: int) -> None:
    data, seen, _ = data_of(missing=True)
    floors = Floors.of(data, n_components)
    np.testing.assert_allclose(floors.activations, FLOOR / n_components * seen.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(floors.dictionary, FLOOR * seen.sum(axis=0) / seen.sum(), rtol=1e-12)
    nothing = Floors.of(CountMatrix.build(np.zeros((2, 3))), n_components)
    assert not nothing.activations.any()
    assert not nothing.dictionary.any()


def test_expected_totals_of_groups(rng: np.random.Generator) -> None:
    """Σ over the rows of a group whose cell is not missing, feature by feature."""
    X = rng.poisson(3.0, (9, 5)).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan
    groups = np.arange(9, dtype=np.int32) % 2
    data = CountMatrix.build(X).weighted(CellWeights(np.ones((2, 5)), groups))
    activations, dictionary = rng.random((9, 3)), rng.random((5, 3))
    rates = np.where(np.isnan(X), 0.0, activations @ dictionary.T)
    found = expected_in_groups(Side(data, resolve_engine()), activations, dictionary)
    np.testing.assert_allclose(found, np.stack([rates[groups == group].sum(axis=0) for group in (0, 1)]), rtol=1e-12)


def test_evidence_of_batch_factors_is_an_integral() -> None:
    observed, expected, strength = np.array([[3.0, 0.0], [1.0, 7.0]]), np.array([[2.0, 0.5], [1.5, 4.0]]), 2.5
    prior = stats.gamma(strength, scale=1.0 / strength)
    integrals = [
        integrate.quad(lambda s, x=x, m=m: s**x * np.exp(-s * m) * prior.pdf(s), 0.0, np.inf)[0]
        for x, m in zip(observed.ravel(), expected.ravel(), strict=True)
    ]
    found = BatchPosterior(observed, expected, 1.0).log_evidence(strength)
    assert found == pytest.approx(np.log(integrals).sum(), rel=1e-8)
