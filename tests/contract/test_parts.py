"""Distinctive features, names, merging and dropping: the same for every model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import partwise
from partwise import AllocationNMF, BinaryNMF, GammaPoissonNMF, PoissonNMF
from partwise.datasets import simulate_poisson
from partwise.errors import InvalidInputError
from partwise.metrics.coherence import relevance

WORDS = ["the", "cat", "dog", "bond", "stock", "rare"]
COMPONENTS = np.array([[50, 20, 10, 0, 0, 0.0], [50, 0, 0, 15, 15, 1], [40, 1, 1, 1, 1, 0]])


@pytest.fixture
def model() -> PoissonNMF:
    return PoissonNMF.from_components(COMPONENTS, feature_names=WORDS)


def names(lists: list) -> list[list[str]]:
    return [[name for name, _ in part] for part in lists]


def test_rankings_are_their_definitions(model: PoissonNMF) -> None:
    inside = COMPONENTS / COMPONENTS.sum(axis=1, keepdims=True)
    overall = model.part_weights() @ inside
    by_hand = {
        "probability": inside,
        "lift": inside / overall,
        "relevance": np.where(inside > 0, 0.3 * np.log(inside + 1e-300) + 0.7 * np.log(inside / overall + 1e-300), 0),
    }
    for by, values in by_hand.items():
        found = model.top_features(6, by=by)
        for k, part in enumerate(found):
            assert {name for name, _ in part} == {WORDS[f] for f in np.flatnonzero(inside[k] > 0)}
            for name, value in part:
                assert value == pytest.approx(values[k, WORDS.index(name)])
            shown = [value for _, value in part]
            assert np.all(np.diff(shown) <= 2e-3 * np.abs(shown[:-1]))  # ties to three digits are ranked by probability
    assert names(model.top_features(2)) == [["cat", "dog"], ["bond", "stock"], ["the", "dog"]]
    assert names(model.top_features(1, by="lift"))[1] == ["rare"]
    assert relevance(np.array([0.0, 0.5]), np.array([0.1, 0.5]))[0] == -np.inf
    with pytest.raises(InvalidInputError, match="by='size' is unknown"):
        model.top_features(by="size")
    with pytest.raises(InvalidInputError, match="n must be at least 1"):
        model.top_features(0)


def test_names_are_given_edited_and_kept(model: PoissonNMF, tmp_path: Path) -> None:
    assert model.name_parts().part_labels() == ["cat, dog, the", "bond, stock, the", "the, dog, bond"]
    assert model.get_feature_names_out().tolist() == model.part_labels()
    again = PoissonNMF.from_components(COMPONENTS[[1, 0, 2]], feature_names=WORDS).name_parts()
    assert sorted(again.part_labels()) == sorted(model.part_labels())  # whatever the order of the parts
    model.name_parts({0: "pets", "bond, stock, the": "money"})
    assert model.part_labels() == ["pets", "money", "the, dog, bond"]
    (tmp_path / "names.csv").write_text("part,share,name\n2,0.1,rest\nmoney,0.2,'=markets\n")
    assert model.name_parts(tmp_path / "names.csv").part_labels() == ["pets", "=markets", "rest"]
    back = partwise.load(model.save(tmp_path / "m.partwise") and tmp_path / "m.partwise")
    assert back.part_labels() == ["pets", "=markets", "rest"]
    framed = model.set_output(transform="pandas").transform(pd.DataFrame(np.ones((2, 6), dtype=int), columns=WORDS))
    assert list(framed.columns) == ["pets", "=markets", "rest"]


def test_equal_parts_have_names_of_their_own() -> None:
    twins = PoissonNMF.from_components([COMPONENTS[0], COMPONENTS[0], np.zeros(6)], feature_names=WORDS).name_parts()
    assert len(set(twins.part_labels())) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["a", "b"], "there are 2 names for 3 parts"),
        (["a", "a", "b"], "is that of part 0 too"),
        (["a", " ", "b"], "of part 1 is empty"),
        ({7: "x"}, "there is no part 7"),
        ({"nobody": "x"}, "there is no part 'nobody'"),
    ],
)
def test_bad_names_get_a_sentence(model: PoissonNMF, given: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        model.name_parts(given)
    assert model.known_parts is None


def test_features_are_named_by_a_vectorizer() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(CountVectorizer(), PoissonNMF(2, random_state=0)).fit(["cat dog", "bond stock", "cat"])
    model = pipeline[-1].name_features(pipeline[:-1])
    assert model.feature_names_in_.tolist() == ["bond", "cat", "dog", "stock"]
    with pytest.raises(InvalidInputError, match="names has length 1, but the model has 4 features"):
        model.name_features(["a"])


COUNTS = simulate_poisson(60, 20, 4, random_state=3).table
MODELS = [
    PoissonNMF(4, random_state=0),
    GammaPoissonNMF(4, random_state=0),
    AllocationNMF(4, n_draws=10, burn_in=20, n_chains=1, random_state=0),
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def fitted(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(request.param).fit(COUNTS)


def test_merging_adds_parts_up(fitted, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    merged = fitted.merge_parts([[1, 3]])
    assert merged.n_components_ == 3
    assert fitted.n_components_ == 4
    weights, shares = fitted.part_weights(), fitted.feature_importance()
    expected = [weights[0], weights[1] + weights[3], weights[2]]
    np.testing.assert_allclose(merged.part_weights(), expected, rtol=1e-12)
    mixed = (weights[1] * shares[1] + weights[3] * shares[3]) / (weights[1] + weights[3])
    np.testing.assert_allclose(merged.feature_importance()[1], mixed, rtol=1e-12)
    np.testing.assert_allclose(merged.feature_frequencies(), fitted.feature_frequencies(), rtol=1e-12)
    activations = merged.transform(COUNTS)
    assert activations.shape == (60, 3)
    assert np.all(np.isfinite(activations))
    path = tmp_path / "merged.partwise"
    np.testing.assert_array_equal(partwise.load(merged.save(path) and path).components_, merged.components_)


def test_dropping_leaves_the_others_as_they_are(fitted, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    fitted.name_parts(["a", "b", "c", "d"])
    less = fitted.drop_parts(["b"])
    assert less.part_labels() == ["a", "c", "d"]
    np.testing.assert_allclose(less.components_, fitted.components_[[0, 2, 3]], rtol=1e-12)
    assert fitted.merge_parts([["d", "a"]]).part_labels() == ["a + d", "b", "c"]
    assert less.transform(COUNTS).shape == (60, 3)
    less.save(tmp_path / "less.partwise")
    assert not less.chains()
    with pytest.raises(InvalidInputError, match="leave at least one"):
        fitted.drop_parts(range(4))
    with pytest.raises(InvalidInputError, match="two or more parts that no other group has"):
        fitted.merge_parts([[0, 1], [1, 2]])


def test_models_that_cannot_say_so() -> None:
    import warnings

    bits = (np.random.default_rng(0).random((20, 8)) < 0.4).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        binary = BinaryNMF(2, n_draws=5, burn_in=5, random_state=0).fit(bits)
    with pytest.raises(InvalidInputError, match="BinaryNMF cannot merge or drop parts"):
        binary.drop_parts([0])


def test_partial_fit_says_what_to_set() -> None:
    with pytest.raises(AttributeError, match="partial_fit needs inference='vb'"):
        AllocationNMF(2).partial_fit(np.eye(3))
    assert not hasattr(AllocationNMF(2), "partial_fit")
    with pytest.raises(AttributeError, match="'AllocationNMF' object has no attribute 'nothing'"):
        AllocationNMF(2).nothing  # noqa: B018
