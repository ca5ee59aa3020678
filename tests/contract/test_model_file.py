"""Model files: every fitted attribute comes back to the bit, and no file does anything but load or be refused."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import partwise
from partwise import PoissonNMF, Table
from partwise._registry import BUILT_IN
from partwise.contract import model_file
from partwise.core.result import Status, Trace
from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.arrays import load_arrays, save_arrays

GOLDEN = Path(__file__).parents[1] / "data" / "poisson_nmf_v1.partwise"


@pytest.fixture
def model(small_counts: np.ndarray) -> PoissonNMF:
    names = np.array([f"wörd {f}" for f in range(25)])
    return PoissonNMF(3, random_state=7, max_iter=25, tol=0.0).fit(Table(small_counts, column_labels=names))


@pytest.fixture
def path(model: PoissonNMF, tmp_path: Path) -> Path:
    model.save(tmp_path / "model.partwise")
    return tmp_path / "model.partwise"


def fitted(estimator: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}


def assert_same_model(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    assert fitted(left).keys() == fitted(right).keys()
    for name, value in fitted(left).items():
        other = getattr(right, name)
        assert type(other) is type(value), name
        if isinstance(value, np.ndarray):
            assert value.dtype == other.dtype, name
            if value.dtype.hasobject:
                assert value.tolist() == other.tolist()
            else:
                assert value.tobytes() == other.tobytes(), name
        elif isinstance(value, Trace):
            assert value.keys() == other.keys()
            for column in value:
                np.testing.assert_array_equal(value[column], other[column])
        else:
            assert value == other, name


class TestRoundTrip:
    def test_every_fitted_attribute(self, model: PoissonNMF, path: Path, small_counts: np.ndarray) -> None:
        loaded = partwise.load(path)
        assert_same_model(model, loaded)
        assert loaded.feature_names_in_[3] == "wörd 3"
        assert loaded.get_params() == {**model.get_params(), "n_jobs": None}
        table = Table(small_counts, column_labels=loaded.feature_names_in_.astype(str))
        np.testing.assert_array_equal(loaded.transform(table), model.transform(table))
        assert loaded.score(table) == model.score(table)
        np.testing.assert_array_equal(loaded.get_feature_names_out(), model.get_feature_names_out())

    @pytest.mark.parametrize(
        "arguments",
        [
            {"init": "nndsvd", "active_threshold": 0.5},
            {"init": (np.ones((40, 3)), np.ones((3, 25)))},
            {"init": (np.ones((40, 3)).tolist(), np.ones((3, 25)).tolist())},
            {"inference": "multiplicative", "tol": 1e-3, "max_iter": 300},
            {"tol": 1e-3, "progress": False, "n_jobs": 2, "callbacks": [lambda *_: None]},
        ],
    )
    def test_parameters(self, arguments: Any, small_counts: np.ndarray, tmp_path: Path) -> None:
        arguments = {"random_state": 1, "max_iter": 30, "tol": 0.0, **arguments}
        model = PoissonNMF(3, **arguments).fit(small_counts)
        loaded = partwise.load(model.save(tmp_path / "m") and tmp_path / "m")
        assert_same_model(model, loaded)
        for name in ("n_components", "inference", "max_iter", "tol", "active_threshold", "random_state"):
            assert getattr(loaded, name) == getattr(model, name)
        # Where a fit ran is not part of it.
        assert loaded.n_jobs is None
        assert loaded.callbacks == ()
        np.testing.assert_array_equal(loaded.fit(small_counts).components_, model.components_)

    @pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
    def test_generators_are_not_stored(self, make: Any, small_counts: np.ndarray, tmp_path: Path) -> None:
        model = PoissonNMF(2, random_state=make(0), max_iter=3, tol=0.0).fit(small_counts)
        assert partwise.load(model.save(tmp_path / "m") and tmp_path / "m").random_state is None

    def test_other_ways_to_be_fitted(self, small_counts: np.ndarray, tmp_path: Path) -> None:
        given_parts = PoissonNMF.from_components(np.eye(2, 25), feature_names=[str(f) for f in range(25)])
        batches = PoissonNMF(3, random_state=0).partial_fit(small_counts[:20]).partial_fit(small_counts[20:])
        nothing = PoissonNMF(3, random_state=0, max_iter=0, tol=0.0).fit(small_counts)
        for number, model in enumerate([given_parts, batches, nothing]):
            where = tmp_path / f"{number}.partwise"
            assert_same_model(model, partwise.load(model.save(where) and where))

    def test_equal_models_are_equal_files(self, model: PoissonNMF, path: Path, tmp_path: Path) -> None:
        copy.deepcopy(model).save(tmp_path / "other")
        assert (tmp_path / "other").read_bytes() == path.read_bytes()

    def test_saving_twice_replaces_the_file(self, model: PoissonNMF, path: Path) -> None:
        before = path.read_bytes()
        model.save(path)
        assert path.read_bytes() == before
        assert [file.name for file in path.parent.iterdir()] == ["model.partwise"]

    def test_has_the_permissions_of_any_new_file(self, path: Path, tmp_path: Path) -> None:
        (tmp_path / "new").touch()
        assert path.stat().st_mode == (tmp_path / "new").stat().st_mode

    def test_what_cannot_be_saved(self, model: PoissonNMF, tmp_path: Path) -> None:
        class Other(PoissonNMF):
            pass

        with pytest.raises(ValueError, match="not fitted"):
            PoissonNMF(2).save(tmp_path / "m")
        with pytest.raises(InvalidInputError, match="Other is not a registered model"):
            Other.from_components(np.eye(2)).save(tmp_path / "m")
        model.strange_ = 1.0  # type: ignore[attr-defined]
        with pytest.raises(InvalidInputError, match="PoissonNMF has set strange_, which it does not declare"):
            model.save(tmp_path / "m")
        del model.strange_  # type: ignore[attr-defined]
        model.kkt_residual_ = object()  # type: ignore[assignment]
        with pytest.raises(InvalidInputError, match="attribute kkt_residual_ is a object, which a model file cannot"):
            model.save(tmp_path / "m")
        assert not any(tmp_path.glob("m*"))


class TestGoldenFile:
    """A file of format version 1, which every later version must load."""

    def test_is_loaded_for_ever(self) -> None:
        model = partwise.load(GOLDEN)
        assert type(model) is PoissonNMF
        assert model.feature_names_in_.tolist() == ["cat", "dog", "fish", "bird", "naïve"]
        assert model.get_params()["n_components"] == model.n_components_ == 2
        assert model.random_state == 20250301
        assert model.inference == "coordinate"
        assert model.n_features_in_ == 5
        assert model.n_samples_seen_ == 6
        assert model.status_.converged
        assert len(model.trace_) == model.n_iter_
        np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-9)
        table = Table(np.array([[4, 0, 2, 0, 0], [0, 3, 1, 6, 2]]), column_labels=model.feature_names_in_.astype(str))
        expected = [[6.0, 0.0], [0.0, 12.0]]
        found = model.transform(table)
        order = np.argsort(found[1])
        np.testing.assert_allclose(found[:, order], expected, atol=1.0)
        np.testing.assert_allclose(found.sum(axis=1), [6, 12], rtol=1e-6)

    def test_is_small(self) -> None:
        assert GOLDEN.stat().st_size < 8192


class Trap:
    """An object whose unpickling writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def refused(path: Path) -> str:
    with pytest.raises(FileFormatError) as raised:
        partwise.load(path)
    assert type(raised.value) is FileFormatError
    return str(raised.value)


class TestHostileFiles:
    def test_a_pickle_is_never_opened(self, tmp_path: Path) -> None:
        sprung = tmp_path / "sprung"
        pickled = pickle.dumps(Trap(sprung))
        pickle.loads(pickled)
        assert sprung.exists()  # the trap works
        sprung.unlink()
        (tmp_path / "m").write_bytes(pickled)
        refused(tmp_path / "m")
        np.save(tmp_path / "m.npy", np.array([Trap(sprung)], dtype=object), allow_pickle=True)
        refused(tmp_path / "m.npy")
        assert not sprung.exists()

    @pytest.mark.parametrize(
        "content", [b"", b"{}", b"\x00" * 100, b"\xff" * 100, b"PK\x03\x04", b"\x08" + b"\x00" * 7 + b"{}      "]
    )
    def test_foreign_content(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "m").write_bytes(content)
        refused(tmp_path / "m")

    def test_foreign_safetensors(self, tmp_path: Path) -> None:
        from safetensors.numpy import save_file

        save_file({"a": np.ones(3)}, tmp_path / "m")
        assert "not of partwise" in refused(tmp_path / "m")
        save_arrays(tmp_path / "m", {"a": np.ones(3)}, {"kind": "partwise checkpoint"})
        assert "is not a model file of partwise" in refused(tmp_path / "m")

    def test_truncated(self, path: Path) -> None:
        content = path.read_bytes()
        for length in [*range(0, 64), *range(64, len(content), 97), len(content) - 1]:
            path.write_bytes(content[:length])
            refused(path)
        path.write_bytes(content + b"more")
        refused(path)

    def test_every_flipped_bit_is_noticed(self, path: Path) -> None:
        content = path.read_bytes()
        rng = np.random.default_rng(0)
        for position in [*range(0, 300, 2), *rng.integers(300, len(content), 300).tolist()]:
            flipped = bytearray(content)
            flipped[position] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(flipped))
            try:
                loaded = partwise.load(path)
            except FileFormatError:
                continue
            # What does not count (white space in the header) may differ; all that counts must not.
            path.write_bytes(content)
            assert_same_model(loaded, partwise.load(path))

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="there is no file"):
            partwise.load(tmp_path / "nowhere")

    def test_newer_formats(self, path: Path) -> None:
        for version in (2, 0, -1, "1", None, 1.5):
            rewrite(path, lambda arrays, metadata, v=version: metadata.update(format_version=v))
            assert "this partwise reads 1 to 1" in refused(path)


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """Change the content of a model file, and make its checksum fit, as a forger would."""
    arrays, metadata = load_arrays(path)
    metadata.pop("checksum")
    change(arrays, metadata)
    save_arrays(path, arrays, {**metadata, "checksum": model_file._checksum(metadata, arrays)})


def put(place: str, name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda arrays, metadata: metadata[place].update({name: value})


def put_array(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda arrays, metadata: arrays.update({name: value})


def plain(value: Any) -> dict[str, Any]:
    return {"kind": "value", "value": value}


FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "another class": lambda arrays, metadata: metadata.update({"class": "os.system"}),
    "no class": lambda arrays, metadata: metadata.pop("class"),
    "class of another kind": lambda arrays, metadata: metadata.update({"class": ["PoissonNMF"]}),
    "no parameters": lambda arrays, metadata: metadata.pop("parameters"),
    "parameters of another kind": lambda arrays, metadata: metadata.update({"parameters": 5}),
    "unknown parameter": put("parameters", "power", plain(3)),
    "parameter out of range": put("parameters", "n_components", plain(-1)),
    "parameter of another kind": put("parameters", "tol", plain("small")),
    "parameter not allowed": put("parameters", "inference", plain("magic")),
    "unknown attribute": put("attributes", "danger_", plain(1)),
    "method as attribute": put("attributes", "transform", plain(1)),
    "private attribute": put("attributes", "__class__", plain("object")),
    "no components": lambda arrays, metadata: metadata["attributes"].pop("components_"),
    "components are text": put("attributes", "components_", plain("none")),
    "array is absent": lambda arrays, metadata: arrays.pop("attribute/components_"),
    "components of another shape": put_array("attribute/components_", np.ones((3, 24))),
    "components transposed": put_array("attribute/components_", np.ones((25, 3))),
    "components of float32": put_array("attribute/components_", np.ones((3, 25), np.float32)),
    "components negative": put_array("attribute/components_", -np.ones((3, 25))),
    "components NaN": put_array("attribute/components_", np.full((3, 25), np.nan)),
    "components infinite": put_array("attribute/components_", np.full((3, 25), np.inf)),
    "mean activations of another shape": put_array("attribute/mean_activations_", np.ones(4)),
    "names of another number": put_array("attribute/feature_names_in_", np.array(["a"])),
    "names are numbers": put_array("attribute/feature_names_in_", np.ones(25)),
    "number of components": put("attributes", "n_components_", plain(4)),
    "number of components is text": put("attributes", "n_components_", plain("3")),
    "number of components is true": put("attributes", "n_components_", plain(True)),
    "number of features": put("attributes", "n_features_in_", plain(-25)),
    "iterations": put("attributes", "n_iter_", plain(None)),
    "samples": put("attributes", "n_samples_seen_", plain("many")),
    "residual": put("attributes", "kkt_residual_", plain("low")),
    "active components": put_array("attribute/active_components_", np.array([0, 1, 7])),
    "active components real": put_array("attribute/active_components_", np.array([0.0, 1.0, 2.0])),
    "half of the on-line statistics": lambda arrays, metadata: (
        metadata["attributes"].update({"online_exposure_": {"kind": "array"}}),
        arrays.update({"attribute/online_exposure_": np.ones((25, 3))}),
    ),
    "status": put("attributes", "status_", {"kind": "status", "value": {"code": "excellent", "message": "!"}}),
    "status with more": put(
        "attributes", "status_", {"kind": "status", "value": {"code": "stopped", "message": "", "x": 1}}
    ),
    "status is a number": put("attributes", "status_", plain(1)),
    "trace is a number": put("attributes", "trace_", plain(1)),
    "trace without columns": put("attributes", "trace_", {"kind": "trace", "columns": []}),
    "trace with other columns": put("attributes", "trace_", {"kind": "trace", "columns": ["iteration", "x"]}),
    "trace of text": put_array("attribute/trace_/trace/objective", np.array(["a"] * 25)),
    "trace of other lengths": put_array("attribute/trace_/trace/objective", np.ones(3)),
    "unknown kind": put("attributes", "components_", {"kind": "pickle", "value": "gASV"}),
    "no kind": put("attributes", "components_", {}),
    "note is text": put("attributes", "components_", "array"),
    "value is a list": put("attributes", "n_iter_", plain([1])),
}


@pytest.mark.parametrize("name", list(FORGERIES))
def test_forgeries(name: str, path: Path) -> None:
    rewrite(path, FORGERIES[name])
    sentence = refused(path)
    assert "is a damaged model file" in sentence or "holds a model that cannot be loaded" in sentence


SHORT: dict[str, Any] = {"random_state": 0, "progress": False}
CHAINS: dict[str, Any] = {"n_draws": 2, "burn_in": 1, **SHORT}
KINDS: dict[str, Callable[[], Any]] = {
    "GammaPoissonNMF": lambda: partwise.GammaPoissonNMF(2, inference="vem", max_iter=2, **SHORT),
    "NegativeBinomialNMF": lambda: partwise.NegativeBinomialNMF(2, max_iter=2, **SHORT),
    "BetaGammaPFA": lambda: partwise.BetaGammaPFA(2, **CHAINS),
    "AllocationNMF": lambda: partwise.AllocationNMF(2, **CHAINS),
    "EmpiricalBayesPoissonNMF": lambda: partwise.EmpiricalBayesPoissonNMF(2, max_iter=2, **SHORT),
    "BinaryNMF": lambda: partwise.BinaryNMF(2, **CHAINS),
    "LogisticPCA": lambda: partwise.LogisticPCA(2, max_iter=2, **SHORT),
}
COMMON_FORGERIES = {
    "no active components": put("attributes", "active_components_", plain(None)),
    "active components": put_array("attribute/active_components_", np.array([0, 7])),
    "number of active components": lambda arrays, metadata: metadata["attributes"].pop("n_active_components_"),
    "number of components": put("attributes", "n_components_", plain(3)),
    "iterations": lambda arrays, metadata: metadata["attributes"].pop("n_iter_"),
    "samples": put("attributes", "n_samples_seen_", plain("many")),
    "status": put("attributes", "status_", plain(None)),
    "trace": put("attributes", "trace_", plain(None)),
    "components": put_array("attribute/components_", np.full((2, 5), np.nan)),
    "components of whole numbers": put_array("attribute/components_", np.ones((2, 5), np.int64)),
}
OWN_FORGERIES = [
    ("GammaPoissonNMF", put_array("attribute/rate_", np.ones(3))),
    ("GammaPoissonNMF", put("attributes", "online_statistic_", plain(1))),
    ("AllocationNMF", put("attributes", "online_averages_", plain(1))),
    ("AllocationNMF", put_array("attribute/evenness_draws_", np.ones((2, 3)))),
    ("AllocationNMF", put("attributes", "n_active_draws_", plain(None))),
    ("BinaryNMF", put("attributes", "log_likelihood_draws_", plain(None))),
    ("BinaryNMF", put("attributes", "online_averages_", plain(1))),
    ("BinaryNMF", put_array("attribute/components_", np.full((2, 5), 1.5))),
    ("BinaryNMF", put_array("attribute/probabilities_", np.ones((6, 4)))),
    ("BinaryNMF", put_array("attribute/missing_cells_", np.array([30]))),
    ("LogisticPCA", put_array("attribute/intercept_", np.ones(4))),
]


def saved(kind: str, path: Path) -> None:
    KINDS[kind]().fit(np.arange(30).reshape(6, 5) % 7 % 2).save(path)


def test_every_estimator_is_forged() -> None:
    assert {*KINDS, "PoissonNMF"} == {one.class_name for one in BUILT_IN}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", list(KINDS))
def test_forgeries_of_every_estimator(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.partwise"
    saved(kind, path)
    content = path.read_bytes()
    own = {f"own {at}": change for at, (name, change) in enumerate(OWN_FORGERIES) if name == kind}
    for name, change in {**COMMON_FORGERIES, **own}.items():
        path.write_bytes(content)
        rewrite(path, change)
        with pytest.raises(FileFormatError, match="is a damaged model file"):
            pytest.fail(f"{name} of {kind} is taken for {partwise.load(path)}")


def test_forging_is_possible_at_all(path: Path) -> None:
    """A change that leaves a sound model passes: the refusals above are not about the forging itself."""
    rewrite(path, put_array("attribute/components_", np.full((3, 25), 0.04)))
    assert partwise.load(path).components_[0, 0] == 0.04


def test_changes_without_the_checksum_are_noticed(path: Path) -> None:
    arrays, metadata = load_arrays(path)
    components = arrays["attribute/components_"]
    components[0, 0] = np.nextafter(components[0, 0], 1)
    save_arrays(path, arrays, metadata)
    assert "its checksum is not that of its content" in refused(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.floats() | st.text(max_size=5) | st.just("array"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NUMBERS = [np.ones((3, 25)), np.ones(3), np.ones(()), np.zeros((0, 3)), np.ones((2, 2, 2)), np.full((25, 3), np.nan)]
_OTHERS = [np.array(["a"] * 25), np.zeros(0, dtype=np.str_), np.arange(25), np.ones((3, 25), np.int8)]
_ARRAYS = st.sampled_from([*_NUMBERS, *_OTHERS])


def nodes(tree: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [way] * bool(way) + [found for key, value in inner for found in nodes(value, (*way, key))]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_arbitrary_content(data: Any, path: Path, tmp_path: Path) -> None:
    """Any node of the metadata, or any array, replaced by anything: refused, or a model that works."""

    def change(arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        if data.draw(st.booleans()):
            arrays[data.draw(st.sampled_from(sorted(arrays)))] = data.draw(_ARRAYS)
            return
        *way, last = data.draw(st.sampled_from(nodes(metadata)))
        tree: Any = metadata
        for key in way:
            tree = tree[key]
        if data.draw(st.integers(0, 4)) == 0:
            del tree[last]
        else:
            tree[last] = data.draw(_JSON)

    forged = tmp_path / "forged.partwise"
    forged.write_bytes(path.read_bytes())
    rewrite(forged, change)
    try:
        model = partwise.load(forged)
    except FileFormatError:
        return
    names = getattr(model, "feature_names_in_", None)
    X = Table(np.ones((2, 25)), column_labels=None if names is None else names.astype(str))
    if names is not None:
        assert np.all(np.isfinite(model.transform(X)))
    assert isinstance(model.status_, Status)
    assert math.isfinite(model.components_.sum())
    repr(model)


def test_deep_nesting(path: Path) -> None:
    note: Any = plain(1)
    for _ in range(150):
        note = {"kind": "tuple", "items": [note]}
    rewrite(path, put("attributes", "n_iter_", note))
    refused(path)


def test_metadata_are_plain_json(path: Path) -> None:
    """Nothing in the file names code: kinds are words of this module, the class is looked up in a table."""
    arrays, metadata = load_arrays(path)
    text = json.dumps(metadata)
    assert "partwise." not in text
    assert metadata["class"] == "PoissonNMF"
    assert all(not array.dtype.hasobject for array in arrays.values())


def test_data_in_place_of_a_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "counts.npz", counts=np.eye(3))
    with pytest.raises(FileFormatError, match=r"counts.npz holds data, not a model"):
        partwise.load(tmp_path / "counts.npz")
