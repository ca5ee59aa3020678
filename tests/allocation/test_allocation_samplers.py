"""The samplers against enumeration, and a joint distribution test (Geweke 2004) that finds planted bugs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from allocation_enumeration import posterior
from scipy import stats

from mutants import mutant
from partwise.allocation.inference import labels as labels_module
from partwise.allocation.inference import partial as partial_module
from partwise.allocation.inference.distributed import DistributedGibbs
from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs, AllocationDraws, AllocationGibbsState
from partwise.allocation.inference.labels import padded_width
from partwise.allocation.inference.partial import AllocationPartialGibbs
from partwise.allocation.kernels import collapsed, partial
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError

EXACT = [AllocationCollapsedGibbs, AllocationPartialGibbs]
ALPHA, BETA = [0.4, 1.3, 0.8], [0.5, 1.6]
TINY = AllocationModel(3, 2, ALPHA, BETA, 3.0, 1.0)


def sampler(kind: type[AllocationCollapsedGibbs], model: AllocationModel, **changes: Any) -> AllocationCollapsedGibbs:
    settings = {"n_draws": 1, "burn_in": 0, "thin": 1, "n_chains": 1, **changes}
    return kind(model, **settings, active_threshold=0.01, engine=resolve_engine())


def distance_from_enumeration(kind: type[AllocationCollapsedGibbs], n_sweeps: int) -> float:
    """A chi-square statistic of how often each S_n+k is seen, in units of its 1e-4 quantile."""
    counts, thin = np.array([[2, 0, 1], [0, 1, 2]]), 4
    every, probabilities = posterior(counts, TINY)
    exact: Counter[bytes] = Counter()
    for s, probability in zip(every, probabilities, strict=True):
        exact[s.sum(axis=1).astype(np.int32).tobytes()] += probability
    data = CountMatrix.build(counts)
    algorithm = sampler(kind, TINY)
    state = algorithm.init(Key(5), data)
    seen: Counter[bytes] = Counter()
    for iteration in range(1, n_sweeps + 1):
        algorithm.sweep_all(Key(5).at(iteration), data, state)
        if iteration % thin == 0:
            seen[state.sample_counts[0].tobytes()] += 1
    assert set(seen) <= set(exact)
    keys = sorted(exact)
    expected = np.array([exact[key] for key in keys]) * n_sweeps / thin
    found = np.array([seen[key] for key in keys])
    return float(np.sum((found - expected) ** 2 / expected) / stats.chi2.ppf(1 - 1e-4, len(keys) - 1))


@pytest.mark.parametrize("kind", EXACT)
def test_agrees_with_enumeration(kind: type[AllocationCollapsedGibbs]) -> None:
    # Draws four sweeps apart are still a little dependent: the statistic is allowed twice its 1e-4 quantile.
    assert distance_from_enumeration(kind, 40_000) < 2.0


MODEL = AllocationModel(4, 2, [0.3, 0.6, 2.0, 1.0], [0.4, 3.0], 6.0, 1.0)
CONCENTRATIONS = [MODEL.dictionary_concentration], [MODEL.activation_concentration]
HIDDEN = np.zeros((3, 4), bool)
HIDDEN[[0, 1, 1], [1, 2, 3]] = True


def geweke_chain(kind: type[AllocationCollapsedGibbs], seed: int, *, missing: bool, n_steps: int = 4) -> np.ndarray:
    """Change of some statistics along a chain of sweeps given data, and data given factors."""
    drawn = MODEL.simulate(Key(seed), 3)
    rng = np.random.default_rng(seed)
    s, first = drawn.allocations, None
    algorithm = sampler(kind, MODEL)
    for step in range(n_steps):
        by_sample, by_feature = s.sum(axis=1), s.sum(axis=0)
        numbers = statistics(s)
        first = numbers if first is None else first
        data, state = labelled(rng, s, HIDDEN if missing else np.zeros_like(HIDDEN))
        for sweep in range(2):
            state, _ = algorithm.step(Key(seed).at(2 * step + sweep + 1), data, state)
        by_sample, by_feature = state.sample_counts[0], state.feature_counts[0][:, :2]
        if step == n_steps - 1:
            return statistics_of_sums(by_sample, by_feature) - first
        w = rng.gamma(MODEL.dictionary_posterior(by_feature))
        h = rng.gamma(MODEL.activation_posterior(by_sample))
        shape, rate = MODEL.length_posterior(by_sample.sum(axis=1))
        activations = h / h.sum(axis=1, keepdims=True) * (rng.gamma(shape) / rate)[:, None]
        s = rng.poisson(activations[:, None, :] * (w / w.sum(axis=0))[None])
    raise AssertionError


def labelled(rng: np.random.Generator, s: np.ndarray, hidden: np.ndarray) -> tuple[CountMatrix, AllocationGibbsState]:
    """Data with some cells hidden, and the state of a sampler that has reached the allocation.

    The labels of a cell are in random order: given S all orders are equally likely, and sweeps visit tokens in order.
    """
    data = CountMatrix.build(np.where(hidden, np.nan, s.sum(axis=2)))
    tokens = [
        rng.permutation(np.repeat(np.arange(2), s[n, f])) for n, f in np.ndindex(*hidden.shape) if not hidden[n, f]
    ]
    features = np.zeros((4, padded_width(2)), np.int32)
    features[:, :2] = s.sum(axis=0)
    labels = np.concatenate([*tokens, np.empty(0, int)]).astype(np.uint8)
    counts = [s.sum(axis=1).astype(np.int32)], [features], [s.sum(axis=(0, 1))]
    draws = AllocationDraws.empty((3, 4), 2, 1, 1)
    return data, AllocationGibbsState([labels], *counts, [s[hidden].astype(np.int32)], *CONCENTRATIONS, draws)


def statistics(s: np.ndarray) -> np.ndarray:
    return statistics_of_sums(s.sum(axis=1), s.sum(axis=0))


def statistics_of_sums(by_sample: np.ndarray, by_feature: np.ndarray) -> np.ndarray:
    total = float(by_sample.sum())
    numbers = [
        by_feature[0, 0],
        by_feature[2, 1],
        np.square(by_feature).sum(),
        np.square(by_sample).sum(),
        by_sample[:, 0].sum(),
        total,
        by_feature.max(axis=1).sum(),
        by_sample.min(axis=1).sum(),
    ]
    return np.array(numbers, dtype=float)


def smallest_p_value(kind: type[AllocationCollapsedGibbs], *, missing: bool = False, n_chains: int = 1000) -> float:
    """Of t-tests of the mean change of each statistic, Bonferroni corrected."""
    changes = np.array([geweke_chain(kind, seed, missing=missing) for seed in range(n_chains)])
    p_values = stats.ttest_1samp(changes, 0.0).pvalue
    return float(min(1.0, p_values.size * np.nanmin(p_values)))


# A false alarm in 1 of 1,000 seeds for each case.
@pytest.mark.parametrize(("kind", "missing"), [(kind, missing) for missing in (False, True) for kind in EXACT])
def test_sampler_keeps_the_joint_distribution(kind: type[AllocationCollapsedGibbs], missing: bool) -> None:
    assert smallest_p_value(kind, missing=missing) > 1e-3


BUGS: dict[str, tuple[Any, Any, type[AllocationCollapsedGibbs], dict[str, str]]] = {
    "missing decrement": (
        labels_module,
        collapsed.sweep_tokens,
        AllocationCollapsedGibbs,
        {"n, f, old, -1)": "n, f, old, -1); sample_counts[n, old] += 1"},
    ),
    "swapped concentrations": (
        labels_module,
        collapsed.sweep_tokens,
        AllocationCollapsedGibbs,
        {"= dictionary_concentration[f]": "= dictionary_concentration[feature_counts.shape[0] - 1 - f]"},
    ),
    "missing decrement in the partial sampler": (
        partial_module,
        partial.sweep_rows,
        AllocationPartialGibbs,
        {"shares[old] -= 1.0": "shares[old] -= 0.0"},
    ),
    "swapped concentrations in the partial sampler": (
        partial_module,
        partial.sweep_rows,
        AllocationPartialGibbs,
        {"activation_concentration[k]": "activation_concentration[n_components - 1 - k]"},
    ),
}


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[pytest.mark.slow] if bug.startswith("swapped") else []) for bug in BUGS]
)
def test_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, real, kind, changes = BUGS[bug]
    monkeypatch.setattr(module, real.__name__, mutant(real, changes))
    assert smallest_p_value(kind, n_chains=600) < 1e-3


def forget(
    self: AllocationCollapsedGibbs, key: Key, data: CountMatrix, state: AllocationGibbsState, chain: int
) -> None:
    """Missing cells taken for zeros."""
    rows = np.repeat(np.arange(data.shape[0]), np.diff(data.missing_indptr))
    np.subtract.at(state.sample_counts[chain], rows, state.missing[chain])
    np.subtract.at(state.feature_counts[chain][:, :2], data.missing_indices, state.missing[chain])
    state.component_counts[chain] -= state.missing[chain].sum(axis=0)
    state.missing[chain][:] = 0


def test_forgotten_missing_cells_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AllocationCollapsedGibbs, "_impute", forget)
    assert smallest_p_value(AllocationCollapsedGibbs, missing=True, n_chains=300) < 1e-3


@pytest.mark.parametrize("kind", [*EXACT, DistributedGibbs])
@pytest.mark.parametrize("n_components", [1, 3, 17])
def test_counts_stay_those_of_the_labels(kind: type[AllocationCollapsedGibbs], n_components: int) -> None:
    counts = np.random.default_rng(0).poisson(1.5, size=(9, 6))
    model = AllocationModel(6, n_components, 0.5, 0.3)
    data = CountMatrix.build(counts)
    algorithm = sampler(kind, model, n_chains=2, n_draws=3)
    state = algorithm.init(Key(0), data)
    for iteration in range(1, 4):
        state, _ = algorithm.step(Key(0).at(iteration), data, state)
    rows, columns = (np.repeat(index, counts.ravel()) for index in np.indices(counts.shape).reshape(2, -1))
    for chain in range(2):
        by_sample, by_feature = np.zeros((9, n_components)), np.zeros((6, n_components))
        np.add.at(by_sample, (rows, state.labels[chain]), 1)
        np.add.at(by_feature, (columns, state.labels[chain]), 1)
        np.testing.assert_array_equal(state.sample_counts[chain], by_sample)
        np.testing.assert_array_equal(state.feature_counts[chain][:, :n_components], by_feature)
        assert state.feature_counts[chain][:, n_components:].sum() == 0
        np.testing.assert_array_equal(state.component_counts[chain], by_feature.sum(axis=0))
    assert n_components == 1 or not np.array_equal(state.labels[0], state.labels[1])


def test_too_many_tokens_are_refused() -> None:
    data = CountMatrix.build([[2**31, 1]])
    with pytest.raises(InvalidInputError, match="keeps a label for each token"):
        sampler(AllocationCollapsedGibbs, AllocationModel(2, 2)).init(Key(0), data)


def test_only_sweeps_of_rows_in_parallel_leave_this_process() -> None:
    """Arrays of a serial sweep must be here, also on a cluster; tests of engines would be the first to notice."""

    class Cluster:
        here = "this process"

    settings = {"n_draws": 1, "burn_in": 0, "thin": 1, "n_chains": 1, "active_threshold": 0.01}
    cluster: Any = Cluster()
    assert AllocationCollapsedGibbs(TINY, **settings, engine=cluster)._own_engine == "this process"
    assert AllocationPartialGibbs(TINY, **settings, engine=cluster)._own_engine is cluster


def test_rows_too_long_to_learn_from_are_refused_before_the_first_sweep() -> None:
    model = AllocationModel(2, 3, estimated=("activation_concentration",))
    with pytest.raises(InvalidInputError, match="needs rows of fewer than 22369621 counts, and one has 22369623"):
        sampler(AllocationCollapsedGibbs, model).init(Key(0), CountMatrix.build([[2**26 // 3 + 2, 0], [1, 1]]))
