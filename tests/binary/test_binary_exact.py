"""Samplers against full enumeration of all labels of 3 x 3 matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from enumeration import enumerate_posterior, single_label_log_evidence

from mutants import mutant
from partwise.binary.inference import gibbs, posterior
from partwise.binary.inference.cells import Cells
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs
from partwise.binary.inference.partial import BinaryPartialGibbs
from partwise.binary.kernels.collapsed import sweep_beta_dirichlet
from partwise.binary.model import KINDS, BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.engines import resolve_engine

X = np.array([[1.0, 0.0, 1.0], [0.0, np.nan, 1.0], [0.0, 0.0, 1.0]])
N_RUNS = 40


def model_of(kind: Any, n_components: int) -> BinaryModel:
    # every component has priors of its own
    own = np.linspace(0.6, 1.7, n_components)
    return BinaryModel(kind, n_components, 1.3 * own, 0.6 / own, 0.7 * own, 0.4 * own[::-1])


def scores(sampler: type[BinaryCollapsedGibbs], model: BinaryModel) -> tuple[np.ndarray, np.ndarray]:
    """How many Monte Carlo standard errors the mean, and the second moment, of every cell are off."""
    cells = Cells.of(BinaryMatrix.build(X), model.kind)
    algorithm = sampler(
        model, n_draws=60, burn_in=20, thin=5, n_chains=1, active_threshold=0.01, engine=resolve_engine()
    )
    means, squares = [], []
    for seed in range(N_RUNS):
        draws = run(algorithm, cells, key=Key(seed), max_iter=algorithm.n_sweeps, progress=False).state.draws
        found = draws.probability[:, 0] / draws.n_kept
        mean, square = (part.T if model.kind == "dir-beta" else part for part in found)
        means.append(mean)
        squares.append(square)
    exact = enumerate_posterior(model, X)

    def score(parts: list[np.ndarray], truth: np.ndarray) -> np.ndarray:
        return np.abs(np.mean(parts, axis=0) - truth) / (np.std(parts, axis=0, ddof=1) / np.sqrt(N_RUNS))

    return score(means, exact.mean), score(squares, exact.mean**2 + exact.std**2)


# A Student variable with 39 degrees of freedom passes 4 once in 3,700: over all 180 numbers below, one seed in 20.
@pytest.mark.parametrize("n_components", [2, 3])
@pytest.mark.parametrize(
    ("sampler", "kind"),
    [
        *((BinaryCollapsedGibbs, kind) for kind in KINDS),
        (BinaryPartialGibbs, "beta-dir"),
        (BinaryPartialGibbs, "dir-beta"),
    ],
)
def test_sampler_agrees_with_enumeration(sampler: type[BinaryCollapsedGibbs], kind: str, n_components: int) -> None:
    mean, square = scores(sampler, model_of(kind, n_components))
    assert mean.max() < 4.0
    assert square.max() < 4.0


def test_no_attempts_is_the_same_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    # every label that the first proposal does not give is then drawn from all weights
    monkeypatch.setattr(BinaryCollapsedGibbs, "attempts", 0)
    for kind in ("beta-dir", "dir-dir"):
        mean, _ = scores(BinaryCollapsedGibbs, model_of(kind, 3))
        assert mean.max() < 4.0


BUGS = {
    "missing decrement": {"own = 1.0 if new == old else 0.0": "own = 0.0"},
    "swapped alpha and beta": {"bounds = np.empty(2)": "bounds = np.empty(2)\n    prior = prior[:, ::-1].copy()"},
    "concentrations in the wrong order": {"np.cumsum(concentration)": "np.cumsum(concentration[::-1].copy())"},
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_disagrees(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs, "sweep_beta_dirichlet", mutant(sweep_beta_dirichlet, BUGS[bug]))
    mean, _ = scores(BinaryCollapsedGibbs, model_of("beta-dir", 2))
    assert mean.max() > 4.0


def test_counting_missing_cells_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_rows(counts: np.ndarray, concentration: np.ndarray) -> posterior.FactorMoments:
        parameters = concentration + counts
        precision = np.full(counts.shape[0], concentration.sum() + X.shape[0])
        return posterior.FactorMoments(parameters / precision[:, None], np.zeros(counts.shape), precision)

    monkeypatch.setattr(gibbs, "dirichlet_moments", all_rows)
    mean, _ = scores(BinaryCollapsedGibbs, model_of("beta-dir", 2))
    assert mean.max() > 4.0


@pytest.mark.parametrize("n_components", [2, 3])
def test_two_labels_and_one_label_give_the_same_evidence(n_components: int) -> None:
    # Eq. 110 with its second gamma function outside the product, against the pairs that the sampler uses
    model = model_of("dir-dir", n_components)
    small = X[:, :2]
    assert np.isclose(enumerate_posterior(model, small).log_evidence, single_label_log_evidence(model, small))


def test_published_dir_dir_sampler_is_reducible_at_two_components() -> None:
    # z given c, then c given z (Eq. 60, 61): for a zero and K = 2 each pins the other for ever
    model = model_of("dir-dir", 2)
    exact = enumerate_posterior(model, X).mean
    rng = np.random.default_rng(0)
    found = np.array([_published_mean(model, rng, 120) for _ in range(20)])
    score = np.abs(found.mean(axis=0) - exact) / (found.std(axis=0, ddof=1) / np.sqrt(len(found)))
    assert score.max() > 4.0


def _published_mean(model: BinaryModel, rng: np.random.Generator, n_sweeps: int) -> np.ndarray:
    cells = [tuple(cell) for cell in np.argwhere(~np.isnan(X))]
    z = {cell: int(rng.integers(2)) for cell in cells}
    c = {cell: z[cell] if X[cell] else 1 - z[cell] for cell in cells}
    rows, columns = np.zeros((3, 2)), np.zeros((3, 2))
    for n, f in cells:
        rows[n, c[n, f]] += 1
        columns[f, z[n, f]] += 1
    total, priors = np.zeros((3, 3)), model.priors
    for _ in range(n_sweeps):
        for n, f in cells:
            rows[n, c[n, f]] -= 1
            columns[f, z[n, f]] -= 1
            if X[n, f]:
                weights = (priors.concentration + columns[f]) * (priors.activation_concentration + rows[n])
                z[n, f] = c[n, f] = int(rng.random() * weights.sum() > weights[0])
            else:
                z[n, f] = 1 - c[n, f]
                c[n, f] = 1 - z[n, f]
            rows[n, c[n, f]] += 1
            columns[f, z[n, f]] += 1
        h, w = priors.activation_concentration + rows, priors.concentration + columns
        total += (h / h.sum(axis=1, keepdims=True)) @ (w / w.sum(axis=1, keepdims=True)).T
    return total / n_sweeps
