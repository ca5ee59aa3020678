"""A Dask client, or a cluster, as the parameter ``engine``: estimators are cloned, shown, pickled and saved with it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import partwise
from clusters import cluster, distributed
from partwise import PoissonNMF
from partwise._registry import BUILT_IN
from partwise.engines.dask import DaskEngine
from partwise.errors import EngineError

X = np.random.default_rng(0).poisson(3.0, size=(30, 8))
SHORT: dict[str, Any] = {"random_state": 0, "max_iter": 3, "tol": 0.0}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=":0"
        ) as started,
        distributed.Client(started, set_as_default=False) as running,
    ):
        yield running


@pytest.fixture(scope="module", params=["client", "cluster", "engine"])
def given(request: Any, client: Any) -> Any:
    return {"client": client, "cluster": client.cluster, "engine": DaskEngine(client)}[request.param]


@pytest.fixture(scope="module")
def fitted(given: Any) -> Any:
    return PoissonNMF(2, engine=given, **SHORT).fit(X)


def test_get_params_and_clone_share_the_cluster(fitted: Any, given: Any) -> None:
    assert fitted.get_params()["engine"] is given
    again = clone(fitted)
    assert again.engine is given
    assert not hasattr(again, "components_")
    assert {**again.get_params(), "engine": None} == {**fitted.get_params(), "engine": None}
    np.testing.assert_array_equal(again.fit(X).components_, fitted.components_)
    assert clone(fitted.set_params(engine=given)).engine is given


def test_meta_estimators(fitted: Any, given: Any) -> None:
    search = GridSearchCV(clone(fitted), {"n_components": [1, 2]}, cv=2).fit(X)
    assert search.best_estimator_.engine is given
    assert clone(make_pipeline(fitted))[0].engine is given


def test_repr(fitted: Any) -> None:
    assert repr(fitted).startswith("PoissonNMF(engine=")
    assert "PoissonNMF" in fitted._repr_html_()


def test_a_pickle_has_the_address(fitted: Any, client: Any) -> None:
    for copied in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), copy.copy(fitted)):
        assert copied.engine == client.scheduler.address
        np.testing.assert_array_equal(copied.components_, fitted.components_)
        np.testing.assert_array_equal(copied.transform(X), fitted.transform(X))
    assert not isinstance(fitted.engine, str)


def test_a_pickle_has_nothing_that_only_this_process_can_reach() -> None:
    with cluster(1) as inside:
        assert inside.scheduler.address.startswith("inproc://")
        assert pickle.loads(pickle.dumps(PoissonNMF(2, engine=inside))).engine is None
        assert clone(PoissonNMF(2, engine=inside)).engine is inside


def test_a_model_file_has_nothing(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.partwise")
    loaded = partwise.load(tmp_path / "model.partwise")
    assert loaded.engine is None
    np.testing.assert_array_equal(loaded.components_, fitted.components_)


@pytest.mark.parametrize("name", [model.class_name for model in BUILT_IN])
def test_every_estimator(client: Any, name: str) -> None:
    model = getattr(partwise, name)(engine=client)
    assert clone(model).engine is client
    assert pickle.loads(pickle.dumps(model)).engine == client.scheduler.address


def test_a_closed_client() -> None:
    with cluster(1) as inside:
        pass
    with pytest.raises(EngineError, match="that engine names is closed"):
        PoissonNMF(2, engine=inside).fit(X)
