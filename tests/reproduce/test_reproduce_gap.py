"""The paper on closed-form marginal likelihoods, in small."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from partwise import GammaPoissonNMF
from partwise.core.keys import Key
from partwise.gamma_poisson import GammaPoissonModel
from partwise.likelihood import auto, exact
from partwise.reproduce import available, find
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap import contour, nips, surplus
from partwise.reproduce.gap._paper import ALGORITHMS, DICTIONARY, counts, followed


def test_is_listed() -> None:
    assert "gap" in available()
    assert find("gap").description.startswith("Filstroff et al. (2018)")


def test_figure_1_keeps_the_mean(tmp_path: Path) -> None:
    """The iterates of MCEM-C lie on w_1 + w_2 = mean (Eq. 49); those of the other two do not."""
    contour.make(Notebook(tmp_path, quick=True))
    assert "Largest distance" in (tmp_path / "report.md").read_text()
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    sums = {name: np.sum(steps[f"figure 1: {name}"]["result"], axis=1) for name in ("mcem-c", "mcem-h", "mcem-ch")}
    assert np.ptp(sums["mcem-c"]) < 1e-10
    assert np.ptp(sums["mcem-h"]) > 1e-3
    assert np.ptp(sums["mcem-ch"]) > 1e-3
    assert (tmp_path / "figure1.png").stat().st_size > 1000


def costs(scale: float, n_iterations: int, n_draws: int) -> dict[str, float]:
    """C_ML at the end of the three algorithms."""
    X = counts(scale)
    ends = {name: followed(X, 3, name, n_iterations, n_draws).kept[n_iterations] for name in ALGORITHMS}
    return {name: -exact(X, dictionary, 1.0, 1.0).total for name, dictionary in ends.items()}


def test_figure_2_all_reach_the_same_likelihood() -> None:
    # 350.76 is the least that is known; noise of eight draws costs about 0.1.
    assert all(350.7 < cost < 351.3 for cost in costs(1, 250, 16).values())


def test_figure_3_only_mcem_c_gets_there_soon() -> None:
    found = costs(100, 60, 30)
    assert found["mcem-c"] < 1618 < 1625 < min(found["mcem-h"], found["mcem-ch"])


def test_published_run_in_parts_is_one_run(tmp_path: Path) -> None:
    X = counts(10, n_samples=30)
    found = nips.published(Notebook(tmp_path, quick=True), X, "mcem-c", 0, 5, 10)
    whole = GammaPoissonNMF(
        nips.N_COMPONENTS, inference="mcem-c", max_iter=5, draws_per_iter=5, burn_in_per_iter=5, random_state=0
    ).fit(X)
    np.testing.assert_allclose(found["norms"], whole.column_norms_, rtol=1e-12)
    assert found["marks"] == [1, 3, 5]
    assert len(found["seconds"]) == 5
    assert found["scores"][-1] == nips.score(X, whole.components_.T)[0]


def test_published_run_that_is_cut_off_within_a_part_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = counts(10, n_samples=30)
    # The last step ends with the fit alone, as if the machine had gone off before it was scored.
    monkeypatch.setattr(nips, "_PARTS", (1,))
    notebook = Notebook(tmp_path, quick=True)
    nips.published(notebook, X, "mcem-c", 0, 1, 10)
    settings = {"draws_per_iter": 5, "burn_in_per_iter": 5, "checkpoint": tmp_path / "mcem-c_0.checkpoint"}
    nips.curve(X, "mcem-c", 0, begin=1, max_iter=3, resume=True, **settings)
    found = nips.published(Notebook(tmp_path, quick=True), X, "mcem-c", 0, 5, 10)
    assert len(found["norms"]) == len(found["seconds"]) == 5
    assert min(found["seconds"]) > 0
    whole = GammaPoissonNMF(nips.N_COMPONENTS, inference="mcem-c", max_iter=5, random_state=0, **settings).fit(X)
    np.testing.assert_allclose(found["norms"], whole.column_norms_, rtol=1e-12)


def test_likelihood_on_the_way_climbs() -> None:
    found = nips.curve(counts(10), "saem", 0, max_iter=20)
    assert found["marks"] == [1, 5, 20]
    assert found["scores"][-1] > found["scores"][0] + 5 * max(found["errors"])


def test_surplus_share() -> None:
    model = GammaPoissonNMF.from_components([[6.0, 0.0], [0.0, 3.0], [0.5, 0.5]])
    assert surplus.surplus_share(model) == pytest.approx(0.1)


def test_three_components_are_no_worse_than_the_truth() -> None:
    X = counts(100, seed=0, n_samples=25)
    model = GammaPoissonNMF(3, random_state=0).fit(X)
    assert exact(X, model.components_.T, 1.0, 1.0).total >= exact(X, 100 * DICTIONARY, 1.0, 1.0).total


def test_joint_likelihood_has_no_maximum() -> None:
    """Eq. 3 to 6 with W, H and β free: s W, H / s and s β lower the cost by N K log s."""
    rng = np.random.default_rng(0)
    activations, shape, rate = rng.gamma(1.0, 1.0, (7, 2)), np.array([0.5, 2.0]), np.array([1.0, 3.0])

    def penalty(h: np.ndarray, b: np.ndarray) -> float:
        return float(((1 - shape) * np.log(h) + b * h - shape * np.log(b)).sum())

    fall = penalty(activations, rate) - penalty(activations / 10.0, 10.0 * rate)
    assert fall == pytest.approx(7 * 2 * np.log(10.0))


@pytest.mark.slow
def test_more_columns_than_parts_can_pay() -> None:
    """Six parts: the truth, six columns fitted from it, and ten, of which eight stay, each likelier than the last."""
    parts = 150 * np.random.default_rng(0).dirichlet(np.full(100, 0.1), size=6).T / 6
    X = GammaPoissonModel(parts).simulate(Key(0).for_stage("data"), 200)
    six = GammaPoissonNMF(6, init=parts.T, random_state=0).fit(X)
    ten = GammaPoissonNMF(10, random_state=0).fit(X)
    found = [auto(X, dictionary, 1.0, 1.0, rng=0) for dictionary in (parts, six.components_.T, ten.components_.T)]
    np.testing.assert_allclose([each.total for each in found], [-21824, -21666, -21633], atol=1.0)
    assert max(each.total_std_error for each in found) < 0.7
    assert ten.n_active_components_ == 8


@pytest.mark.slow
def test_surplus_components() -> None:
    """On five of the twenty data sets."""
    results = [surplus.compared(seed) for seed in range(5)]
    assert all(result["three"] >= 0 for result in results)
    assert all(result["error"] <= 0.3 for result in results)
    assert all(result["five"] >= -3 * result["error"] for result in results)
    assert np.median([result["share"] for result in results]) < 0.02


@pytest.mark.slow
def test_whole_quick_version(tmp_path: Path) -> None:
    find("gap").run(tmp_path, True)
    assert "Figure 4" in (tmp_path / "report.md").read_text()
    for name in ("figure1", "figures2_and_3", "figure4", "likelihood_against_time"):
        assert (tmp_path / f"{name}.png").exists()
