"""Seeds are a prior on entries of the dictionary: exact in the sampler, monotone in variational EM, kept in files."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

import partwise
from partwise import AllocationNMF, GammaPoissonNMF, Table
from partwise.core.data import CountMatrix
from partwise.errors import InvalidInputError

NAMES = np.array([f"w{f}" for f in range(12)])


def planted(seed: int = 0) -> Table:
    """Three parts of four words each, of which the second is rare."""
    rng = np.random.default_rng(seed)
    dictionary = np.kron(np.eye(3), np.full(4, 0.25)) * 0.9 + 0.1 / 12
    shares = rng.dirichlet([0.4, 0.1, 0.4], size=80)
    return Table(rng.poisson(40 * shares @ dictionary), column_labels=NAMES)


SEEDS = {"rare": ["w4", "w5"], "last": ["w8"]}


def test_the_sampler_has_the_posterior_with_seeds_in_the_prior() -> None:
    # Two samples of two features, K = 2: all 2^5 labelings, with prior Dirichlet(alpha + seeds).
    counts, alpha, beta = np.array([[2, 1], [1, 1]]), 0.5, 0.7
    seeds = np.array([[2.0, 0.0], [0.0, 0.0]])
    tokens = [(n, f) for n in range(2) for f in range(2) for _ in range(counts[n, f])]
    mean, total = np.zeros((2, 2)), 0.0
    for labels in itertools.product(range(2), repeat=len(tokens)):
        by_feature, by_sample = np.zeros((2, 2)), np.zeros((2, 2))
        for (n, f), k in zip(tokens, labels, strict=True):
            by_feature[f, k] += 1
            by_sample[n, k] += 1
        post = alpha + seeds + by_feature
        weight = np.exp(gammaln(post).sum() - gammaln(post.sum(axis=0)).sum() + gammaln(beta + by_sample).sum())
        mean += weight * post / post.sum(axis=0)
        total += weight
    model = AllocationNMF(
        2,
        dictionary_concentration=alpha,
        activation_concentration=beta,
        seeds={"first": [0]},
        seed_weight=2 * 2 / 5,  # two tokens: a share of the tokens of an average part
        n_draws=30_000,
        burn_in=200,
        n_chains=1,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(counts)
    # Standard errors are below 0.002 (30,000 draws, autocorrelation below 10): 5 of them, so a false alarm in 10^6.
    np.testing.assert_allclose(model.components_.T, mean / total, atol=0.01)
    # without the seeds the two parts are exchangeable, far from this
    assert abs((mean / total)[0, 0] - (mean / total)[0, 1]) > 0.1


@pytest.mark.parametrize(
    "model",
    [
        GammaPoissonNMF(3, seeds=SEEDS, random_state=1),
        AllocationNMF(3, seeds=SEEDS, n_draws=30, burn_in=60, n_chains=2, random_state=1),
    ],
    ids=["gamma-poisson", "allocation"],
)
def test_seeded_parts_come_first_and_keep_their_names(model, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    table = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table)
    assert model.part_labels() == ["rare", "last", "part 2"]
    top = [{name for name, _ in part} for part in model.top_features(4, by="probability")]
    assert top == [{f"w{f}" for f in range(start, start + 4)} for start in (4, 8, 0)]
    model.save(tmp_path / "m.partwise")
    back = partwise.load(tmp_path / "m.partwise")
    assert dict(back.seeds) == {part: tuple(words) for part, words in SEEDS.items()}
    assert back.part_labels() == model.part_labels()
    (tmp_path / "seeds.csv").write_text("part,feature\nrare,w4\nrare,w5\nlast,w8\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = type(model)(**{**model.get_params(), "seeds": tmp_path / "seeds.csv"}).fit(table)
    np.testing.assert_array_equal(again.components_, model.components_)


def test_the_penalised_bound_of_variational_em_grows() -> None:
    model = GammaPoissonNMF(3, seeds=SEEDS, seed_weight=2.0, random_state=0, tol=0, max_iter=100)
    model.fit(planted())
    objective = model.trace_.evaluated("objective")[1]
    assert objective.size > 5
    assert np.all(np.diff(objective) > -1e-8 * np.abs(objective[:-1]))


def test_stronger_seeds_hold_more_of_the_part() -> None:
    seeds, shares = {"first": ["w0"]}, []
    for weight in (0.01, 0.3, 1.0):
        model = GammaPoissonNMF(3, seeds=seeds, seed_weight=weight, random_state=0).fit(planted())
        shares.append(model.feature_importance()[0, 0])
    assert shares[0] < shares[1] < shares[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": {"a": ["nowhere"]}}, "seeds: 'nowhere' of part 'a' is not a feature of the data: correct or remove"),
        ({"seeds": {"a": []}}, "seeds has no features for the part 'a'"),
        ({"seeds": {str(k): [0] for k in range(5)}}, "seeds names 5 parts, but n_components is 3"),
        ({"seeds": {"a": ["w1"]}, "inference": "thorough"}, "seeds need inference='vem'"),
    ],
)
def test_bad_seeds_get_a_sentence(options: dict, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        GammaPoissonNMF(3, **options).fit(planted())
    if "inference" not in options:
        with pytest.raises(InvalidInputError, match=words):
            AllocationNMF(3, **options).fit(planted())


def test_fixed_parts_stay_beside_free_ones() -> None:
    table = planted()
    known = np.zeros((1, 12))
    known[0, 4:8] = [1, 2, 3, 4]
    model = GammaPoissonNMF(3, fixed_parts=known, random_state=0, tol=0, max_iter=100).fit(table)
    np.testing.assert_allclose(model.feature_importance()[0], known[0] / 10, atol=1e-12)
    objective = model.trace_.evaluated("objective")[1]
    assert np.all(np.diff(objective) > -1e-8 * np.abs(objective[:-1]))
    free = [{name for name, _ in part} for part in model.top_features(4, by="probability")[1:]]
    assert {frozenset(part) for part in free} == {frozenset(f"w{f}" for f in range(s, s + 4)) for s in (0, 8)}
    for options, words in (
        ({"fixed_parts": np.ones((4, 12))}, "give up to 3 parts"),
        ({"fixed_parts": np.zeros((1, 12))}, "with something in every part"),
        ({"fixed_parts": known, "seeds": SEEDS}, "no seeds"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            GammaPoissonNMF(3, **options).fit(table)


def test_seeds_of_data_without_names_are_positions() -> None:
    counts = CountMatrix.build(planted().matrix)
    model = GammaPoissonNMF(3, seeds={"rare": [4, 5]}, random_state=1).fit(counts)
    assert model.part_labels()[0] == "rare"
    with pytest.raises(InvalidInputError, match="the data have no feature names"):
        GammaPoissonNMF(3, seeds={"rare": ["w4"]}).fit(counts)
