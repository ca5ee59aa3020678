"""Reports on texts: names of parts and words, typical texts, groups, times, pipelines, warnings that come first."""

from __future__ import annotations

import html
import json
import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import partwise
from hostile_labels import HOSTILE
from partwise import AllocationNMF, PoissonNMF, count_texts
from partwise.errors import InvalidInputError
from partwise.metrics import coherence, parts_by_group, parts_over_time, representative_samples
from partwise.reporting.parts import places
from partwise.text import TextCounter

SUBJECTS = [["goal", "match", "team"], ["vote", "law", "court"], ["cell", "gene", "blood"]]
RNG = np.random.default_rng(4)
TEXTS = [" ".join(RNG.choice(SUBJECTS[n % 3], size=20)) for n in range(60)]
TABLE = count_texts(TEXTS, keep_texts=True).with_metadata(
    group=[("north", "south")[n % 2] for n in range(60)], time=[str(2000 + n % 4) for n in range(60)]
)


@pytest.fixture(scope="module")
def model() -> PoissonNMF:
    return PoissonNMF(3, random_state=0).fit(TABLE)


def content_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    content: dict = json.loads(found[1])
    return content


def test_a_report_holds_what_metrics_give(model: PoissonNMF) -> None:
    content = content_of(partwise.report(model, TABLE))
    parts, order = content["parts"], content["parts"]["numbers"]
    np.testing.assert_allclose(parts["coherence"], coherence(model, TABLE)[order], rtol=1e-2, atol=1e-3)
    typical = representative_samples(model, TABLE, n=5)
    for position, k in enumerate(order):
        rows = [row for row, _ in typical[k]]
        assert [one["label"] for one in parts["typical"][position]] == [TABLE.row_labels[row] for row in rows]
        assert [one["text"] for one in parts["typical"][position]] == [TEXTS[row] for row in rows]
    for name, found in (("groups", parts_by_group(model, TABLE)), ("times", parts_over_time(model, TABLE))):
        assert content["trends"][name]["labels"] == found.labels
        np.testing.assert_allclose(np.array(content["trends"][name]["shares"]).T, found.shares[:, order], rtol=1e-3)
        np.testing.assert_allclose(np.array(content["trends"][name]["high"]).T, found.high[:, order], rtol=1e-3)
    assert content["samples"]["texts"] == TEXTS


def test_map_keeps_distances_where_two_dimensions_suffice() -> None:
    points = np.random.default_rng(0).normal(size=(6, 2))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    found = places(apart)
    again = np.linalg.norm(found[:, None] - found[None], axis=2)
    np.testing.assert_allclose(again / again.max(), apart / apart.max(), atol=1e-9)
    assert places(np.zeros((3, 3))).tolist() == [[0, 0]] * 3
    assert places(np.zeros((1, 1))).tolist() == [[0, 0]]


def test_pipelines_keep_their_words(model: PoissonNMF) -> None:
    pipeline = make_pipeline(TextCounter(), PoissonNMF(3, random_state=0))
    fitted = clone(pipeline).fit(TEXTS)
    assert fitted[-1].feature_names_in_.tolist() == sorted(word for subject in SUBJECTS for word in subject)
    framed = clone(pipeline).set_params(poissonnmf__n_components=2)
    framed[-1].set_output(transform="pandas")
    assert list(framed.fit(TEXTS).transform(TEXTS).columns) == ["part 0", "part 1"]
    whole = clone(pipeline).set_output(transform="pandas").fit(TEXTS)
    assert list(whole.transform(TEXTS).columns) == ["part 0", "part 1", "part 2"]
    assert whole[-1].feature_names_in_.tolist() == fitted[-1].feature_names_in_.tolist()
    search = GridSearchCV(pipeline, {"poissonnmf__n_components": [2, 3]}, cv=2).fit(TEXTS)
    assert search.best_estimator_[-1].feature_names_in_.size == 9
    content = content_of(partwise.report(fitted, TEXTS))
    assert content["parts"]["features"] == sorted(word for subject in SUBJECTS for word in subject)
    assert content["samples"]["texts"] == TEXTS
    plain = make_pipeline(CountVectorizer(), PoissonNMF(3, random_state=0)).fit(TEXTS)
    np.testing.assert_array_equal(plain[-1].components_, fitted[-1].components_)
    assert content_of(partwise.report(plain, TEXTS))["parts"]["features"] == content["parts"]["features"]
    assert plain[-1].known_features is None


def test_feature_names_are_given() -> None:
    counts = TABLE.matrix
    nameless = PoissonNMF(3, random_state=0).fit(counts)
    assert "feature 0" in content_of(partwise.report(nameless, counts))["parts"]["features"]
    given = content_of(partwise.report(nameless, counts, feature_names=TABLE.column_labels))
    assert "goal" in given["parts"]["features"]
    assert nameless.known_features is None
    with pytest.raises(InvalidInputError, match="names has length 1, but the model has 9 features"):
        partwise.report(nameless, counts, feature_names=["a"])
    with pytest.raises(InvalidInputError, match="texts belong to samples, and there are none"):
        partwise.report(nameless, texts=["a"])


def test_bad_diagnostics_come_first_in_words() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = AllocationNMF(3, n_draws=4, burn_in=0, n_chains=2, random_state=0).fit(TABLE)
    page = partwise.report(short, TABLE)
    alert = page.index('class="alert"')
    assert alert < page.index('class="tiles"')
    assert "treat the parts as" in page[alert : alert + 400]
    short.name_parts(["sport", "law", "health"])
    short.part_agreement_ = np.array([0.99, 0.3, 0.95])
    page = partwise.report(short, TABLE)
    alert = page.index('class="alert"')
    told = html.unescape(page[alert : alert + 800])
    assert "parts as tentative, because another chain did not find it (cosine below 0.8): “law”." in told
    twins = PoissonNMF.from_components([[1, 2, 3.0], [1, 2, 3], [9, 0, 1]])
    assert "nearly the same: “part 0” and “part 1”" in partwise.report(twins)
    assert 'class="alert"' not in partwise.report(PoissonNMF.from_components(np.eye(3)))


def test_hostile_texts_stay_inert(model: PoissonNMF) -> None:
    hostile = [HOSTILE[n % len(HOSTILE)] + " " + "x" * (1_000_000 if n == 0 else 10) for n in range(60)]
    page = partwise.report(model, TABLE, texts=hostile, groups=[HOSTILE[n % 3] for n in range(60)])
    assert len(page) < 1_000_000
    assert page.count("</script>") == 2
    for bad in ("\u2028", "\u202e", "<img", "<script>alert"):
        assert bad not in page


def test_times_that_are_no_times_leave_a_report(model: PoissonNMF) -> None:
    with pytest.warns(UserWarning, match="parts are not shown over time"):
        page = partwise.report(model, TABLE, times=["soon"] * 60)
    assert content_of(page)["trends"]["times"] is None
