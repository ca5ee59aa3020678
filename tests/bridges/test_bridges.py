"""Other packages understand what partwise gives: AnnData, pyLDAvis, ArviZ, pandas, polars, scikit-learn."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp

from partwise import AllocationNMF, BinaryNMF, GammaPoissonNMF, LogisticPCA, PoissonNMF, tl
from partwise.bridges import to_pyldavis
from partwise.datasets import simulate_binary, simulate_poisson
from partwise.errors import InvalidInputError

TEXTS = [
    "goal match team goal coach",
    "team match goal coach team",
    "vote law party vote court",
    "law court party vote law",
    "gene cell protein gene virus",
    "cell virus protein gene cell",
] * 4


@pytest.fixture
def table():
    return simulate_poisson(30, 12, 3, random_state=0).table


class TestLDAvis:
    def test_distributions_and_totals(self, table) -> None:
        model = PoissonNMF(3, random_state=0).fit(table)
        prepared = to_pyldavis(model, table)
        counts = table.matrix.toarray()
        words = counts.sum(axis=0) > 0
        np.testing.assert_allclose(prepared["topic_term_dists"].sum(axis=1), 1.0)
        np.testing.assert_allclose(prepared["doc_topic_dists"].sum(axis=1), 1.0)
        np.testing.assert_array_equal(prepared["term_frequency"], counts.sum(axis=0)[words])
        np.testing.assert_array_equal(prepared["doc_lengths"], counts.sum(axis=1)[counts.sum(axis=1) > 0])
        assert prepared["vocab"] == table.column_labels[words].tolist()
        # what pyLDAvis itself checks
        n_topics, n_terms = prepared["topic_term_dists"].shape
        assert prepared["doc_topic_dists"].shape == (len(prepared["doc_lengths"]), n_topics)
        assert n_terms == len(prepared["vocab"]) == len(prepared["term_frequency"])

    def test_scale_of_parts_does_not_matter(self, table) -> None:
        model = PoissonNMF(3, random_state=0).fit(table)
        scaled = PoissonNMF.from_components(model.components_ * [[1.0], [10.0], [0.1]])
        one, other = to_pyldavis(model, table), to_pyldavis(scaled, table.matrix)
        np.testing.assert_allclose(one["doc_topic_dists"], other["doc_topic_dists"], atol=1e-6)

    def test_empty_samples_words_and_parts_are_left_out(self) -> None:
        X = np.array([[3, 0, 1], [0, 0, 0], [1, 0, 4]])
        model = PoissonNMF.from_components([[0.5, 0.2, 0.3], [0.0, 0.0, 0.0]])
        prepared = to_pyldavis(model, X)
        assert prepared["topic_term_dists"].shape == (1, 2)
        assert prepared["doc_topic_dists"].shape == (2, 1)
        assert prepared["vocab"] == ["0", "2"]

    def test_negative_parts_are_refused(self) -> None:
        table = simulate_binary(30, 10, 2, random_state=0).table
        with pytest.raises(InvalidInputError, match="negative parts"):
            to_pyldavis(LogisticPCA(2, random_state=0).fit(table), table)


class TestAnnData:
    def cells(self):
        anndata = pytest.importorskip("anndata")
        counts = simulate_poisson(30, 12, 3, random_state=0).table
        data = anndata.AnnData(sp.csr_matrix(counts.matrix).astype(np.float64))
        data.obs_names, data.var_names = counts.row_labels.tolist(), counts.column_labels.tolist()
        return data

    def test_in_and_out(self) -> None:
        data = self.cells()
        model = GammaPoissonNMF(3, inference="vem", random_state=0).fit(data)
        assert model.feature_names_in_.tolist() == data.var_names.tolist()
        tl.project(data, model)
        np.testing.assert_array_equal(data.obsm["X_partwise"], model.transform(data))
        np.testing.assert_array_equal(data.varm["partwise"], model.components_.T)
        assert data.uns["partwise"]["model"] == "GammaPoissonNMF"


class TestFrames:
    def test_pandas_in_and_out(self, table) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(table.matrix.toarray(), index=table.row_labels, columns=table.column_labels)
        model = PoissonNMF(2, random_state=0).set_output(transform="pandas").fit(frame)
        out = model.transform(frame)
        assert out.columns.tolist() == ["part 0", "part 1"]
        assert out.index.tolist() == table.row_labels.tolist()

    def test_polars_in_and_out(self, table) -> None:
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(table.matrix.toarray(), schema=table.column_labels.tolist())
        out = PoissonNMF(2, random_state=0).set_output(transform="polars").fit(frame).transform(frame)
        assert isinstance(out, polars.DataFrame)
        assert out.columns == ["part 0", "part 1"]


class TestScikitLearn:
    def test_pipeline_with_count_vectorizer(self) -> None:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.pipeline import make_pipeline

        pipeline = make_pipeline(CountVectorizer(), AllocationNMF(3, n_draws=20, burn_in=50, random_state=0))
        shares = pipeline.fit_transform(TEXTS)
        # texts of one topic have the same largest part, and topics different ones
        largest = shares.argmax(axis=1).reshape(-1, 3, 2)
        assert np.all(largest[..., 0] == largest[..., 1])
        assert set(largest[0, :, 0]) == {0, 1, 2}
        assert pipeline.transform(["vote law"]).argmax() == largest[0, 1, 0]

    def test_grid_search_finds_the_number_of_parts(self) -> None:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import make_pipeline

        pipeline = make_pipeline(CountVectorizer(), PoissonNMF(random_state=0, tol=1e-5))
        search = GridSearchCV(pipeline, {"poissonnmf__n_components": [1, 3]}, cv=3).fit(TEXTS)
        assert search.best_params_ == {"poissonnmf__n_components": 3}


def test_arviz_takes_the_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}
    stand_in = ModuleType("arviz")
    stand_in.from_dict = lambda **groups: given.update(groups) or stand_in  # type: ignore[attr-defined]
    if "arviz" not in sys.modules:
        monkeypatch.setitem(sys.modules, "arviz", stand_in)
    bits = simulate_binary(20, 10, 2, random_state=0).table
    model = BinaryNMF(3, n_draws=8, burn_in=5, thin=1, n_chains=2, random_state=0).fit(bits)
    found = model.to_arviz()
    posterior = given["posterior"] if given else found.posterior
    assert np.asarray(posterior["n_active"]).shape == (2, 8)
