"""A model of another distribution goes through everything, without any change in partwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import partwise
from partwise._registry import find_estimator, model_names, registered_models
from partwise.errors import BrokenModelWarning, FileFormatError, InvalidInputError
from partwise.selection import compare

SCRIPT = """
import numpy as np, partwise
from partwise._registry import find_estimator

PoissonMixture = find_estimator("poisson-mixture")
rng = np.random.default_rng(0)
X = rng.poisson(60 * rng.dirichlet(np.full(12, 0.3), size=3)[rng.integers(3, size=60)])
model = PoissonMixture(3, random_state=0).fit(X)
model.save("groups.partwise")
loaded = partwise.load("groups.partwise")
assert type(loaded) is PoissonMixture
assert np.array_equal(loaded.transform(X), model.transform(X)) and loaded.score(X) == model.score(X) < 0
assert np.array_equal(loaded.weights_, model.weights_)
found = partwise.selection.compare(X, models=["poisson", "poisson-mixture"], ranks=[1, 3], random_state=0)
assert found.recommended == ("poisson-mixture", 3), found.sentence
page = partwise.report(model, X)
assert "PoissonMixture" in page and "Mixtures of Poisson profiles" in page
partwise.plotting.save_figure(partwise.plotting.plot_top_features(model), "parts.png")
partwise.plotting.save_figure(partwise.plotting.plot_predictive_checks(model, X), "checks.png")
np.savez("counts.npz", X=X)
"""


def _environment(toy_folder: Path) -> dict[str, str]:
    source = str(Path(partwise.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(toy_folder), source])}


def _run(words: list[str], toy_folder: Path, folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env=_environment(toy_folder), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_goes_through_python_and_the_command(toy_folder: Path, tmp_path: Path) -> None:
    _run([sys.executable, "-W", "ignore", "-c", SCRIPT], toy_folder, tmp_path)
    command = [sys.executable, "-m", "partwise"]
    data, model = "counts.npz", "fitted.partwise"
    fit = _run(
        [*command, "fit", data, "-o", model, "--model", "poisson-mixture", "-k", "3", "--seed", "0"],
        toy_folder,
        tmp_path,
    )
    assert fit.startswith("PoissonMixture: Converged")
    info = json.loads(_run([*command, "info", model, "--json"], toy_folder, tmp_path))
    assert info["model"] == "PoissonMixture"
    score = json.loads(_run([*command, "score", model, data, "--json"], toy_folder, tmp_path))
    assert score["score"] == "document completion"
    assert score["perplexity"] == pytest.approx(np.exp(-score["log_likelihood_per_token"]))
    _run([*command, "transform", model, data, "-o", "activations.csv"], toy_folder, tmp_path)
    _run([*command, "plot", model, "-o", "plot.png"], toy_folder, tmp_path)
    _run([*command, "report", model, data, "-o", "report.html"], toy_folder, tmp_path)
    compared = _run(
        [*command, "compare", data, "--models", "poisson-mixture", "--ranks", "1,3", "--seed", "0", "--json"],
        toy_folder,
        tmp_path,
    )
    assert json.loads(compared)["recommended"] == {"model": "poisson-mixture", "rank": 3}
    assert "poisson-mixture" in _run([*command, "fit", "--help"], toy_folder, tmp_path)


def test_a_file_of_a_model_that_is_not_installed_is_refused(toy_folder: Path, tmp_path: Path) -> None:
    _run([sys.executable, "-W", "ignore", "-c", SCRIPT], toy_folder, tmp_path)
    with pytest.raises(FileFormatError, match="cannot be loaded: no model called 'PoissonMixture' is registered"):
        partwise.load(tmp_path / "groups.partwise")


@pytest.mark.usefixtures("toy_installed")
def test_it_takes_part_in_comparisons_by_default() -> None:
    assert model_names()["poisson-mixture"] == "PoissonMixture"
    assert "poisson-mixture" in partwise.selection.model_names("counts")
    assert "poisson-mixture" not in partwise.selection.model_names("bits")


@pytest.mark.usefixtures("toy_installed")
def test_it_is_scored_by_its_own_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = find_estimator("poisson-mixture")
    asked = []
    own = cls.held_out_log_likelihood

    def counted(self: object, held_out: object) -> object:
        asked.append(type(held_out).__name__)
        return own(self, held_out)

    monkeypatch.setattr(cls, "held_out_log_likelihood", counted)
    X = np.random.default_rng(0).poisson(2.0, size=(30, 6))
    compare(X, models=["poisson-mixture"], ranks=[1, 2], random_state=0, n_restarts=1)
    assert asked == ["ThinnedCounts"] * 2


@pytest.mark.usefixtures("toy_installed")
def test_an_undeclared_attribute_is_refused_when_saving(tmp_path: Path) -> None:
    model = find_estimator("poisson-mixture")(2, random_state=0).fit(np.random.default_rng(0).poisson(2, (20, 5)))
    model.surprise_ = 1.0
    with pytest.raises(InvalidInputError, match=r"PoissonMixture has set surprise_, which it does not declare"):
        model.save(tmp_path / "model.partwise")


def test_a_model_that_cannot_be_imported_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "broken_models-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-models\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[partwise.models]\nbroken = no_such_module:Broken\n")
    monkeypatch.syspath_prepend(tmp_path)
    registered_models.cache_clear()
    try:
        assert model_names()["broken"] == "Broken"
        with pytest.warns(BrokenModelWarning, match="'broken' of another package is left out.*no_such_module"):
            assert "poisson" in partwise.selection.model_names("counts")
    finally:
        monkeypatch.undo()
        registered_models.cache_clear()
