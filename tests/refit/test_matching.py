"""Parts beside references: names, mixtures, nothing forced; and the alarm for what references lack."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import PoissonNMF, Table, match
from partwise.errors import FeatureMatchWarning, InvalidInputError
from partwise.refit import lacking


@pytest.fixture(scope="module")
def references() -> Table:
    rng = np.random.default_rng(0)
    names = np.array([f"R{k}" for k in range(9)])
    return Table(rng.dirichlet([0.3] * 40, 9).T, np.array([f"f{f}" for f in range(40)]), names)


def test_best_runner_up_and_mixtures(references: Table) -> None:
    rng = np.random.default_rng(1)
    columns = references.matrix
    parts = np.array(
        [columns[:, 3], columns[:, 3], 0.6 * columns[:, 1] + 0.4 * columns[:, 7], columns[:, :3].mean(axis=1)]
    )
    parts = np.maximum(parts * rng.normal(1, 0.03, parts.shape), 0)
    order = rng.permutation(40)
    model = PoissonNMF.from_components(
        parts[:, order], feature_names=references.row_labels[order], component_names=["one", "two", "pair", "three"]
    )
    one, two, pair, three = match(model, references)
    assert one.best == two.best == "R3"  # never one to one
    assert list(one.mixture) == ["R3"]
    assert one.cosine > 0.99 > one.runner_up_cosine
    assert list(pair.mixture) == ["R1", "R7"]
    assert pair.mixture["R1"] == pytest.approx(0.6, abs=0.05)
    assert pair.mixture_cosine > 0.99 > pair.cosine
    assert {pair.best, pair.runner_up} == {"R1", "R7"}
    assert set(three.mixture) == {"R0", "R1", "R2"}
    assert len(match(model, references, most=2).matches[3].mixture) == 2
    table = match(model, references).table()
    assert table["part"] == ["one", "two", "pair", "three"]
    assert table["mixture"][0] == "1.00 R3"


def test_cosines_are_those_of_numpy(references: Table) -> None:
    columns = references.matrix
    found = match(Table(columns[:, :2], references.row_labels), references)
    units = columns / np.linalg.norm(columns, axis=0)
    cosines = np.sort(units[:, 0] @ units)[::-1]
    assert found.matches[0].cosine == pytest.approx(cosines[0])
    assert found.matches[0].runner_up_cosine == pytest.approx(cosines[1])


def test_features_are_matched_by_name_or_refused(references: Table) -> None:
    model = PoissonNMF.from_components(references.matrix[:30, :2].T, feature_names=references.row_labels[:30])
    assert match(model, references).matches[1].best == "R1"
    fewer = Table(references.matrix[:25], references.row_labels[:25], references.column_labels)
    with pytest.warns(FeatureMatchWarning, match="25 of the 30 features"):
        match(model, fewer)
    with pytest.raises(InvalidInputError, match="0 of the 30 features of the parts, too few"):
        match(model, Table(references.matrix, np.array([f"g{f}" for f in range(40)])))
    with pytest.raises(InvalidInputError, match="the parts have 2 features and the references 3"):
        match(np.eye(2), np.eye(3))
    with pytest.raises(InvalidInputError, match="reference must hold nonnegative numbers"):
        match(np.eye(2), -np.eye(2))
    with pytest.raises(InvalidInputError, match="most must be"):
        match(np.eye(2), np.eye(2), most=5)


def test_the_alarm_has_power_and_finds_the_part(references: Table) -> None:
    rng = np.random.default_rng(4)
    parts = references.matrix.T
    truth = rng.dirichlet([0.5] * 9, 16) * 2000
    truth[:, 4] = np.where(np.arange(16) < 8, 600, 0)
    x = rng.poisson(truth @ parts)
    whole = lacking(PoissonNMF.from_components(parts), x, n_draws=19)
    assert np.mean(whole.p_values <= 0.05) <= 0.19  # of 16 samples; more than 3 alarms have a chance below 1%
    assert whole.cohort_p_value > 0.05
    without = lacking(PoissonNMF.from_components(np.delete(parts, 4, axis=0)), x, n_draws=19)
    assert np.mean(without.p_values[:8] <= 0.05) > 0.8
    assert without.cohort_p_value <= 0.05
    assert match(without.candidate[:, None], references.matrix).matches[0].best == "part 4"
    assert without.alarms().size >= 6
    with pytest.raises(InvalidInputError, match=r"fewer cannot give p = 0\.05"):
        lacking(PoissonNMF.from_components(parts), x, n_draws=5)
