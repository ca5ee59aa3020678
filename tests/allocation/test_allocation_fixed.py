"""Parts that are fixed beside free ones: they stay, and everything else has its conditional distribution."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from allocation_enumeration import allocations
from scipy import stats
from scipy.special import gammaln, logsumexp, xlogy

from partwise import AllocationNMF, Table, load
from partwise.allocation.inference.learning import draw_concentrations
from partwise.allocation.inference.partial import AllocationPartialGibbs
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError

COUNTS = np.array([[2, 0, 1], [0, 1, 2]])
ALPHA, BETA, FIXED = np.array([0.4, 1.3, 0.8]), np.array([0.5, 1.6, 0.7]), np.array([[0.7], [0.0], [0.3]])
MODEL = AllocationModel(3, 3, ALPHA, BETA, 3.0, 1.0, fixed=FIXED)


def log_weight(s: np.ndarray) -> float:
    """Log p(S) up to a constant, written down without the model's code; s is samples x features x 3."""
    by_sample, by_feature = s.sum(axis=1), s.sum(axis=0)
    shares = gammaln(BETA + by_sample).sum()
    free = gammaln(ALPHA[:, None] + by_feature[:, 1:]).sum()
    free -= gammaln(ALPHA.sum() + by_feature[:, 1:].sum(axis=0)).sum()
    return float(shares + free + xlogy(by_feature[:, 0], FIXED[:, 0]).sum() - gammaln(s + 1.0).sum())


def sampler(model: AllocationModel) -> AllocationPartialGibbs:
    settings = {"n_draws": 1, "burn_in": 0, "thin": 1, "n_chains": 1}
    return AllocationPartialGibbs(model, **settings, active_threshold=0.01, engine=resolve_engine())


def test_probability_of_an_allocation() -> None:
    every = [s for s in allocations(COUNTS, 3) if np.isfinite(log_weight(s))]
    expected = np.array([log_weight(s) for s in every])
    found = np.array([MODEL.log_allocation(s) for s in every])
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-10)
    labels = []
    for s in every:
        log_samples = MODEL.sample_prior.log_lengths(s.sum(axis=(1, 2))) + gammaln(BETA + s.sum(axis=1)).sum()
        labels.append(MODEL.log_labels(log_samples, s.sum(axis=0), 0.0))
    np.testing.assert_allclose(labels, found + [gammaln(s + 1.0).sum() for s in every], atol=1e-10)


def distance_from_enumeration(n_sweeps: int = 12_000, thin: int = 4) -> float:
    """A chi-square statistic of how often each S_n+k is seen, in units of its 1e-4 quantile."""
    every = list(allocations(COUNTS, 3))
    logs = np.array([log_weight(s) for s in every])
    exact: Counter[bytes] = Counter()
    for s, probability in zip(every, np.exp(logs - logsumexp(logs)), strict=True):
        if probability > 0:
            exact[s.sum(axis=1).astype(np.int32).tobytes()] += probability
    data, algorithm = CountMatrix.build(COUNTS), sampler(MODEL)
    state = algorithm.init(Key(5), data)
    seen: Counter[bytes] = Counter()
    for iteration in range(1, n_sweeps + 1):
        algorithm.sweep_all(Key(5).at(iteration), data, state)
        if iteration % thin == 0:
            seen[state.sample_counts[0].tobytes()] += 1
    if not set(seen) <= set(exact):
        return np.inf
    keys = sorted(exact)
    expected = np.array([exact[key] for key in keys]) * n_sweeps / thin
    found = np.array([seen[key] for key in keys])
    return float(np.sum((found - expected) ** 2 / expected) / stats.chi2.ppf(1 - 1e-4, len(keys) - 1))


def test_agrees_with_enumeration() -> None:
    # Draws four sweeps apart are still a little dependent: the statistic is allowed twice its 1e-4 quantile.
    assert distance_from_enumeration() < 2.0


@pytest.mark.parametrize("bug", ["the part is drawn", "features that it lacks are possible"])
def test_enumeration_finds_planted_bugs(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model: AllocationModel, dictionary: np.ndarray) -> np.ndarray:
        if bug != "the part is drawn":
            dictionary[:, :1] = 0.95 * model.fixed + 0.05 / 3
        return dictionary

    monkeypatch.setattr(AllocationModel, "with_fixed", wrong)
    assert distance_from_enumeration(4000) > 3.0


def test_concentrations_are_learned_from_free_parts() -> None:
    rng, data = np.random.default_rng(0), CountMatrix.build(COUNTS)
    by_sample, by_feature = rng.poisson(2, (2, 3)), rng.poisson(2, (3, 3))
    estimated = ("dictionary_concentration",)
    beside = AllocationModel(3, 3, 0.5, 1.0, estimated=estimated, fixed=FIXED)
    alone = AllocationModel(3, 2, 0.5, 1.0, estimated=estimated)
    engine = resolve_engine()
    found = draw_concentrations(Key(3), data, beside, engine, by_sample, by_feature)
    expected = draw_concentrations(Key(3), data, alone, engine, by_sample[:, 1:], by_feature[:, 1:])
    np.testing.assert_array_equal(found.dictionary, expected.dictionary)


def test_missing_cells_are_drawn_from_the_fixed_part() -> None:
    data = CountMatrix.build(np.array([[30, np.nan, np.nan], [20, 10, 40]]))
    algorithm = sampler(MODEL)
    state = algorithm.init(Key(1), data)
    drawn = np.zeros((2, 3))
    for iteration in range(1, 301):
        algorithm.sweep_all(Key(1).at(iteration), data, state)
        drawn += state.missing[0]
    assert drawn[0, 0] == 0  # the fixed part does not hold that feature
    assert drawn[1, 0] > 0


def planted() -> tuple[Table, np.ndarray]:
    rng = np.random.default_rng(1)
    parts = np.kron(np.eye(3), np.array([0.4, 0.3, 0.2, 0.1]))
    counts = rng.poisson(rng.gamma(0.5, 60.0, (80, 3)) @ parts)
    return Table(counts, column_labels=np.array([f"w{f}" for f in range(12)])), parts


@pytest.mark.parametrize("concentration", [0.1, "estimate"])
def test_fixed_parts_stay_beside_free_ones(concentration: float | str, tmp_path: Path) -> None:
    table, parts = planted()
    settings = {"n_draws": 40, "burn_in": 60, "inference": "gibbs-partial", "random_state": 0}
    settings |= {"dictionary_concentration": concentration, "activation_concentration": concentration}
    model = AllocationNMF(3, fixed_parts=7 * parts[1:2], **settings).fit(table)
    np.testing.assert_allclose(model.components_[0], parts[1], rtol=1e-12)
    free = model.components_[1:]
    closest = (free @ parts.T) / np.linalg.norm(free, axis=1)[:, None] / np.linalg.norm(parts, axis=1)
    assert sorted(closest.argmax(axis=1)) == [0, 2]
    assert closest.max(axis=1).min() > 0.99
    again = AllocationNMF(3, fixed_parts=7 * parts[1:2], **settings, n_jobs=2).fit(table)
    np.testing.assert_array_equal(again.components_, model.components_)
    frame = pd.DataFrame(parts[1:2, ::-1], columns=[f"w{f}" for f in reversed(range(12))])
    named = AllocationNMF(3, fixed_parts=frame, **settings).fit(table)
    np.testing.assert_array_equal(named.components_, model.components_)
    model.save(tmp_path / "m.partwise")
    np.testing.assert_array_equal(load(tmp_path / "m.partwise").fixed_parts, 7 * parts[1:2])


def test_names_of_fixed_parts_are_kept(tmp_path: Path) -> None:
    table, parts = planted()
    names = [f"w{f}" for f in reversed(range(12))]
    frame = pd.DataFrame(parts[1:2, ::-1], columns=names, index=["known"])
    known = Table(frame.to_numpy(), np.array(["known"]), np.array(names))
    settings = {"n_draws": 20, "burn_in": 20, "inference": "gibbs-partial", "random_state": 0}
    for given in (frame, known):
        model = AllocationNMF(3, fixed_parts=given, **settings).fit(table)
        assert model.part_labels() == ["known", "part 1", "part 2"]
        model.save(tmp_path / "m.partwise")
        loaded = load(tmp_path / "m.partwise")
        assert loaded.part_labels() == model.part_labels()
        # its features are matched by name again
        np.testing.assert_array_equal(loaded.fit(table).components_, model.components_)


def test_bad_fixed_parts_get_a_sentence() -> None:
    table, parts = planted()
    partial = {"inference": "gibbs-partial"}
    strange = pd.DataFrame([[1.0, 2.0]], columns=["a", "b"])
    for options, words in (
        ({"fixed_parts": parts[:1]}, "fixed_parts are for inference='gibbs-partial', not for 'gibbs'"),
        ({"fixed_parts": parts, **partial}, "give up to 2 parts"),
        ({"fixed_parts": 0 * parts[:1], **partial}, "with something in every part"),
        ({"fixed_parts": strange, **partial}, "no feature of fixed_parts has the name"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            AllocationNMF(3, **options).fit(table)
    with pytest.raises(InvalidInputError, match="log_evidence does not support seeds"):
        AllocationNMF(3, fixed_parts=parts[:1]).log_evidence(table)
