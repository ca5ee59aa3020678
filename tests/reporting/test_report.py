"""Reports hold what the model and the data say, stay small, and keep hostile labels harmless."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import partwise
from hostile_labels import HOSTILE
from large_tables import N_SAMPLES, large_table
from partwise import AllocationNMF, BinaryNMF, GammaPoissonNMF, LogisticPCA, PoissonNMF
from partwise.datasets import simulate_batches, simulate_poisson
from partwise.errors import BatchWarning, InvalidInputError
from partwise.io.table import Table
from partwise.reporting.diagnostics import deviance_explained
from partwise.reporting.encoding import embedded_json, grey_png, visible
from partwise.reporting.model_view import ModelView


class Elements(HTMLParser):
    """What a page is made of, as a browser would see it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.setdefault(self._open[-1], []).append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def content_of(page: str) -> dict:
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    content = json.loads(block)
    assert isinstance(content, dict)
    return content


@pytest.fixture(scope="module")
def counts() -> tuple[PoissonNMF, Table]:
    table, _, _ = simulate_poisson(60, 50, 4, random_state=1)
    return PoissonNMF(4, random_state=0).fit(table), table


def test_parts_are_those_of_the_model(counts) -> None:
    model, table = counts
    parts = content_of(partwise.report(model, table))["parts"]
    shares = model.transform(table).sum(axis=0) * model.components_.sum(axis=1)
    order = np.argsort(-shares, kind="stable")
    np.testing.assert_allclose(parts["weights"], (shares / shares.sum())[order], rtol=1e-3)
    automatic = model.automatic_part_names()
    assert parts["names"] == [automatic[k] for k in order]
    assert parts["numbers"] == order.tolist()
    inside = model.components_ / model.components_.sum(axis=1, keepdims=True)
    overall = (shares / shares.sum()) @ inside
    for position, k in enumerate(order):
        names = [parts["features"][at] for at in parts["lists"][position]]
        found = [list(table.column_labels).index(name) for name in names]
        np.testing.assert_allclose(parts["values"][position], inside[k, found], rtol=1e-3)
        np.testing.assert_allclose([parts["overall"][at] for at in parts["lists"][position]], overall[found], rtol=1e-3)
        # whatever the slider says, the features that it puts first are there
        for balance in (0.0, 0.3, 1.0):
            present = np.flatnonzero(inside[k])
            relevance = np.log(inside[k, present]) - (1 - balance) * np.log(overall[present])
            first = np.lexsort((-inside[k, present], -np.round(relevance, 3)))[:30]
            assert set(present[first]) <= set(found)


def test_samples_are_those_of_the_data(counts) -> None:
    model, table = counts
    groups = ["even" if n % 2 == 0 else "odd" for n in range(60)]
    page = content_of(partwise.report(model, table, groups=groups))
    samples = page["samples"]
    assert samples["labels"] == list(table.row_labels)
    np.testing.assert_allclose(samples["totals"], table.matrix.sum(axis=1))
    weights = model.transform(table) * model.components_.sum(axis=1)
    shares = weights / weights.sum(axis=1, keepdims=True)
    first = np.array(samples["parts"]).reshape(60, 3)[:, 0]
    assert [page["parts"]["names"][part] for part in first] == [
        model.automatic_part_names()[k] for k in shares.argmax(axis=1)
    ]
    np.testing.assert_allclose(np.array(samples["shares"]).reshape(60, 3)[:, 0] / 1000, shares.max(axis=1), atol=6e-4)
    assert [samples["groups"][group] for group in samples["group_of"]] == groups
    bars = samples["structure"]["samples"]
    assert sorted(bars) == list(range(60))
    assert [groups[n] for n in bars] == sorted(groups)
    heights = np.array(samples["structure"]["shares"]).reshape(60, 4)
    np.testing.assert_allclose(heights.sum(axis=1), 1000, atol=3)


def test_deviance_explained_is_that_of_the_formula(counts) -> None:
    model, table = counts
    X = table.matrix.toarray().astype(float)
    activations = model.transform(table)
    found = deviance_explained(ModelView.of(model, table))
    assert found is not None

    def deviance(rates: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return 2 * (np.where(X > 0, X * np.log(X / rates), 0.0) - X + rates).sum(axis=1)

    plain = np.outer(X.sum(axis=1), X.sum(axis=0)) / X.sum()
    ours, without = deviance(activations @ model.components_), deviance(plain)
    np.testing.assert_allclose(found.by_sample, 1 - ours / without, rtol=1e-6)
    assert found.explained == pytest.approx(1 - ours.sum() / without.sum(), rel=1e-6)
    assert 0 < found.explained < 1


def test_missing_cells_do_not_count() -> None:
    rng = np.random.default_rng(0)
    bits = (rng.random((30, 8)) < np.where(np.arange(8) % 2, 0.9, 0.2)).astype(float)
    bits[rng.random(bits.shape) < 0.2] = np.nan
    model = BinaryNMF(3, n_draws=20, burn_in=20, thin=1, random_state=0).fit(bits)
    activations = model.transform(bits)
    found = deviance_explained(ModelView.of(model, bits))
    assert found is not None
    seen = ~np.isnan(bits)

    def loss(probability: np.ndarray) -> float:
        right = np.where(np.nan_to_num(bits) > 0, probability, 1 - probability)
        return float(-np.log(right[seen]).sum())

    frequencies = np.broadcast_to(np.nanmean(bits, axis=0), bits.shape)
    assert found.explained == pytest.approx(1 - loss(activations @ model.components_) / loss(frequencies), rel=1e-6)


def test_batches_are_named_or_used() -> None:
    data = simulate_batches(300, 60, n_groups=3, n_shared=1, n_batches=3, effect=1.0, random_state=0).table
    page = partwise.report(PoissonNMF(6, random_state=0).fit(data), data)
    assert re.search(r"is mostly batch batch\d \(R2 0\.\d+\): fit with batch= \(in the command --batch\)", page)
    model = PoissonNMF(4, random_state=0).fit(data, batch="batch")
    assert "mostly batch" not in partwise.report(model, data, batch="batch")
    view = ModelView.of(model, data, batch="batch")
    own = data.metadata["batch"] == "batch1"
    alone = model.for_batch("batch1")
    np.testing.assert_allclose(
        view.expected(np.flatnonzero(own)), alone.transform(data[own]) @ alone.components_, rtol=1e-6
    )
    found = deviance_explained(view)
    assert found is not None
    with pytest.warns(BatchWarning):
        without = deviance_explained(ModelView.of(model, data))
    assert without is not None
    assert found.explained > without.explained


@pytest.mark.parametrize(
    "model",
    [
        BinaryNMF(4, n_draws=20, burn_in=20, thin=1, n_chains=2, random_state=0),
        LogisticPCA(2, random_state=0),
        AllocationNMF(3, inference="gibbs", random_state=0),
        GammaPoissonNMF(3, inference="vem", max_iter=20, tol=0, random_state=0),
        partwise.EmpiricalBayesPoissonNMF(3, max_iter=5, tol=0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_model_has_a_report(model) -> None:
    X = (np.random.default_rng(0).random((40, 12)) < 0.4).astype(int)
    content = content_of(partwise.report(model.fit(X), X))
    assert len(content["parts"]["names"]) == model.n_components_
    assert content["samples"]["labels"][0] == "sample 0"
    assert content["diagnostics"]["checks"]["panels"][0]["observed"]
    chains = {row["name"] for row in content["diagnostics"]["chains"]}
    assert ("log_joint" in chains) == isinstance(model, BinaryNMF | AllocationNMF)
    assert content["parts"]["signed"] == isinstance(model, LogisticPCA)
    if isinstance(model, BinaryNMF):
        # Dir-Beta, the default, has a probability of each feature in a part
        assert content["parts"]["inside_words"] == "probability in the part"
        frequencies = model.transform(X).mean(axis=0) @ model.components_
        np.testing.assert_allclose(content["parts"]["overall"], frequencies, rtol=1e-3)


def test_without_data() -> None:
    given = PoissonNMF.from_components(np.eye(3), component_names=["a", "b", "c"])
    page = partwise.report(given)
    content = content_of(page)
    assert content["samples"] is None
    assert content["diagnostics"] == {"trace": [], "chains": [], "checks": None}
    assert content["parts"]["names"] == ["a", "b", "c"]
    with pytest.raises(InvalidInputError, match="groups belong to samples"):
        partwise.report(given, groups=["x"])


def test_data_that_are_no_counts_have_no_checks() -> None:
    X = np.random.default_rng(0).gamma(1.0, size=(20, 6))
    content = content_of(partwise.report(PoissonNMF(2, random_state=0).fit(X), X))
    assert content["diagnostics"]["checks"] is None
    assert content["samples"]["explained"] is not None


def test_images() -> None:
    model = PoissonNMF.from_components(np.array([[0.0, 1.0, 0.5, 0.0, 0.0, 0.0], [0.0] * 5 + [1.0]]))
    images = content_of(partwise.report(model, image_shape=(2, 3)))["parts"]["images"]
    raw = base64.b64decode(images[0].removeprefix("data:image/png;base64,"))
    width, height, depth, colour = struct.unpack(">IIBB", raw[16:26])
    assert (width, height, depth, colour) == (3, 2, 8, 0)
    size = struct.unpack(">I", raw[33:37])[0]
    lines = zlib.decompress(raw[41 : 41 + size])
    assert list(lines) == [0, 255, 0, 128, 0, 255, 255, 255]
    assert grey_png(np.zeros((1, 2))) != grey_png(np.ones((1, 2)))
    with pytest.raises(InvalidInputError, match="4 pixels"):
        partwise.report(model, image_shape=(2, 2))


def test_same_seed_same_page(counts) -> None:
    model, table = counts
    assert partwise.report(model, table, random_state=1) == partwise.report(model, table, random_state=1)


def test_file_is_the_page(counts, tmp_path: Path) -> None:
    model, table = counts
    page = partwise.report(model, table, output=tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == page.encode("utf-8")
    with pytest.raises(OSError, match="no directory"):
        partwise.report(model, table, output=tmp_path / "nowhere" / "report.html")


@pytest.fixture(scope="module")
def hostile_page() -> str:
    rng = np.random.default_rng(0)
    n = len(HOSTILE)
    labels = np.array(HOSTILE, dtype=np.str_)
    table = Table(rng.poisson(3.0, size=(n, n)), labels, labels)
    model = PoissonNMF(2, random_state=0).fit(table)
    model.component_names_ = np.array(HOSTILE[:2], dtype=object)
    return partwise.report(model, table, title=HOSTILE[0], groups=HOSTILE)


def test_hostile_labels_stay_text(hostile_page: str) -> None:
    page = Elements(hostile_page)
    harmless = Elements(partwise.report(PoissonNMF.from_components(np.eye(2))))
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in harmless.tags}
    scripts = page.named("script")
    assert [script.get("type") for script in scripts] == ["application/json", None]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.texts["title"] == [HOSTILE[0]]
    assert content_of(hostile_page)["samples"]["labels"] == [visible(label) for label in HOSTILE]
    hostile_page.encode("utf-8")  # no lone surrogate is left
    assert not set("\u202e\u2028\u2029\x00\x1b") & set(hostile_page)


@pytest.mark.parametrize("label", HOSTILE)
def test_embedded_json_cannot_end_its_element(label: str) -> None:
    text = embedded_json([visible(label)])
    assert not set("<>&'\u2028\u2029") & set(text)
    assert json.loads(text) == [visible(label)]


def test_labels_of_ordinary_scripts_stay() -> None:
    for label in ("Καφές", "日本語", "עברית", "می‌خواهم", "👩‍🔬", "a b", "x\u00a0y"):
        assert visible(label) == label
    assert len(visible("x" * 10_000)) == 120


def test_policy_allows_only_what_the_page_holds(hostile_page: str) -> None:
    (policy,) = [meta["content"] for meta in Elements(hostile_page).named("meta") if "http-equiv" in meta]
    directives = dict(part.strip().split(" ", 1) for part in str(policy).split(";"))
    assert directives["default-src"] == "'none'"
    assert "unsafe" not in str(policy)
    # texts of elements are compared as a browser hashes them
    (style,) = re.findall(r"<style>(.*?)</style>", hostile_page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", hostile_page, re.DOTALL)
    for directive, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert directives[directive] == f"'sha256-{digest}'"
    assert hostile_page.index("Content-Security-Policy") < hostile_page.index("<style>")


def test_page_loads_nothing(hostile_page: str) -> None:
    for tag, attributes in Elements(hostile_page).tags:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form"}
        assert "src" not in attributes
        assert str(attributes.get("href", "#")).startswith("#")
    assets = Path(partwise.__file__).parent / "reporting" / "assets"
    scripts = "".join(path.read_text(encoding="utf-8") for path in assets.glob("*.js"))
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"):
        assert word not in scripts
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", scripts)


def test_parts_can_be_read_without_scripts(counts) -> None:
    model, table = counts
    page = partwise.report(model, table)
    (plain,) = re.findall(r"<noscript>(.*?)</noscript>", page, re.DOTALL)
    for part in partwise.plotting.top_features(model, n=3):
        for name, _ in part:
            assert html.escape(name) in plain


def test_many_parts_and_long_labels_stay_small() -> None:
    rng = np.random.default_rng(0)
    components = rng.dirichlet(np.full(400, 0.05), size=210)
    labels = np.array([f"{n} " + "ü" * 300 for n in range(800)])
    X = sp.csr_array(rng.poisson(0.02, size=(800, 400)))
    model = PoissonNMF.from_components(components, feature_names=["f" * 500 + str(f) for f in range(400)])
    table = Table(X, labels, np.array(["f" * 500 + str(f) for f in range(400)]))
    page = partwise.report(model, table)
    content = content_of(page)
    assert len(content["parts"]["names"]) == 200
    assert content["parts"]["total"] == 210
    assert max(map(len, content["samples"]["labels"])) <= 120
    assert len(page.encode()) < 3e6


@pytest.mark.slow
def test_hostile_labels_cannot_make_a_page_large() -> None:
    labels = np.array([f"<\u202e{n}" * 20 for n in range(100_000)])
    X = sp.csr_array(np.ones((100_000, 1), dtype=np.int64))
    page = partwise.report(PoissonNMF.from_components([[1.0]]), Table(X, labels), groups=labels)
    assert len(page.encode()) < 10e6


@pytest.mark.slow
def test_large_data_stay_below_ten_megabytes() -> None:
    """20,000 features and 100,000 samples."""
    model, table = large_table()
    page = partwise.report(model, table, groups=np.arange(N_SAMPLES) % 7)
    assert len(page.encode()) < 10e6
    assert len(content_of(page)["samples"]["labels"]) == N_SAMPLES


def test_references_that_parts_are_like() -> None:
    names = np.array([f"f{n}" for n in range(6)])
    model = PoissonNMF.from_components(
        np.kron(np.eye(2), np.full((1, 3), 1 / 3)), feature_names=names, component_names=["one", "two"]
    )
    reference = Table(model.components_.T[:, ::-1], names, np.array(["<i>second</i>", "first"]))
    page = partwise.report(model, reference=reference)
    section = page.partition('<section id="references"')[2].partition("</section>")[0]
    assert '<th scope="row">one</th><td>first</td><td>1.00</td>' in section
    assert '<th scope="row">two</th><td>&lt;i&gt;second&lt;/i&gt;</td><td>1.00</td>' in section
    assert 'href="#references"' in page
    assert "references-heading" not in partwise.report(model)
