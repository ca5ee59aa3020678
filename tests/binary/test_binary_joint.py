"""A joint distribution test (Geweke 2004) of the samplers, and that it finds planted bugs.

A chain draws factors, labels and bits from the joint distribution, and then alternates between a sweep given the bits
and new bits given the labels. If the sampler is right, a chain looks at its end as at its start, on average over many
independent chains. Some cells are missing, and are filled in by prediction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mutants import mutant
from partwise.binary.inference import gibbs, partial, priors
from partwise.binary.inference.cells import Cells
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs, BinaryGibbsState, log_joint_of_counts
from partwise.binary.inference.partial import BinaryPartialGibbs
from partwise.binary.inference.posterior import BinaryDraws, cell_moments, dirichlet_moments, row_moments
from partwise.binary.kernels import collapsed
from partwise.binary.kernels import partial as partial_kernels
from partwise.binary.model import BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine

N_ROWS, N_COLUMNS, N_COMPONENTS = 8, 5, 3
HIDDEN = np.zeros((N_ROWS, N_COLUMNS), bool)
HIDDEN[[0, 1, 2, 5, 4, 7], [0, 0, 0, 3, 4, 0]] = True
ROWS, COLUMNS = np.nonzero(~HIDDEN)
BY_COLUMN = np.lexsort((ROWS, COLUMNS))
PATTERN = Cells.of(BinaryMatrix.build(np.where(HIDDEN, np.nan, 0.0)))
N_CHAINS, N_STEPS = 400, 12


def model_of(kind: Any, *estimated: Any) -> BinaryModel:
    return BinaryModel(kind, N_COMPONENTS, 0.3, 0.15, 1.0, 0.6, estimated=estimated)


class Chain:
    """Priors, labels and bits of one chain, all sizes those of the arrays above."""

    def __init__(self, sampler: type[BinaryCollapsedGibbs], model: BinaryModel, seed: int) -> None:
        self.key = Key(seed)
        self.rng = np.random.default_rng(seed)
        drawn = np.array(model.priors)
        for at, name in enumerate(("beta", "beta", "concentration", "activation_concentration")):
            if name in model.estimated:
                drawn[at] = self.rng.standard_gamma(1.0, size=N_COMPONENTS)
        self.model = model.with_priors(drawn)
        self.algorithm = sampler(
            model, n_draws=1, burn_in=10**9, thin=1, n_chains=1, active_threshold=0.01, engine=resolve_engine()
        )
        self.by_row = sampler is BinaryPartialGibbs
        w = self.rng.dirichlet(self.model.priors.concentration, size=N_COLUMNS)
        self.z = _choose(self.rng, w)
        if model.kind == "dir-dir":
            h = self.rng.dirichlet(self.model.priors.activation_concentration, size=N_ROWS)
            self.c = _choose(self.rng, h, by_row=True)
            self.bits = (self.z == self.c).astype(int)
        else:
            self.new_bits()

    def new_bits(self) -> None:
        """Bits given labels, the beta factor drawn anew; for Dir-Dir bits are what the labels say."""
        if self.model.kind == "dir-dir":
            self.forget_pairs()
            return
        priors = self.model.priors
        h = self.rng.beta(priors.alpha, priors.beta, size=(N_ROWS, N_COMPONENTS))
        self.bits = (self.rng.random((N_ROWS, N_COLUMNS)) < h[np.arange(N_ROWS)[:, None], self.z]).astype(int)

    def forget_pairs(self) -> None:
        """Second labels given the first, which changes the bits: c from its prior given the other rows' none."""
        h = self.rng.dirichlet(self.model.priors.activation_concentration, size=N_ROWS)
        self.c = _choose(self.rng, h, by_row=True)
        self.bits = (self.z == self.c).astype(int)

    def sweep(self, iteration: int) -> None:
        """One sweep of the sampler, given the bits of the observed cells; hidden ones are predicted."""
        cells = replace(PATTERN, codes=PATTERN.codes + self.bits[ROWS, COLUMNS].astype(np.int32))
        state = self.state()
        state, _ = self.algorithm.step(self.key.at(iteration), cells, state)
        labels, second = state.labels[0].astype(int), state.row_labels[0].astype(int)
        if self.by_row:
            self.z[ROWS, COLUMNS] = labels
        else:
            self.z[ROWS[BY_COLUMN], COLUMNS[BY_COLUMN]] = labels
        if self.model.kind == "dir-dir":
            self.c[ROWS, COLUMNS] = second
        self.model = self.model.with_priors(state.priors[0])
        rows = row_moments(self.model, state.row_counts[0])
        columns = gibbs.dirichlet_moments(state.column_counts[0], self.model.priors.concentration)
        probability, _ = cell_moments(rows, columns)
        self.bits[HIDDEN] = self.rng.random(int(HIDDEN.sum())) < probability[HIDDEN]
        self.counts = state.row_counts[0], state.column_counts[0]

    def state(self) -> BinaryGibbsState:
        """What the sampler would have reached."""
        z = self.z[ROWS, COLUMNS]
        column_counts = np.zeros((N_COLUMNS, N_COMPONENTS), np.int32)
        np.add.at(column_counts, (COLUMNS, z), 1)
        labels = (z if self.by_row else z[BY_COLUMN]).astype(np.uint8)
        if self.model.kind == "dir-dir":
            second = self.c[ROWS, COLUMNS].astype(np.uint8)
            row_counts = np.zeros((N_ROWS, N_COMPONENTS), np.int32)
            np.add.at(row_counts, (ROWS, second), 1)
        else:
            second = np.empty(0, np.uint8)
            row_counts = np.zeros((N_ROWS, N_COMPONENTS, 2), np.int32)
            np.add.at(row_counts, (ROWS, z, self.bits[ROWS, COLUMNS]), 1)
        draws = BinaryDraws.empty(PATTERN, N_COMPONENTS, 1, 1)
        return BinaryGibbsState(
            [labels], [second], [row_counts], [column_counts], np.array(self.model.priors)[None], draws
        )

    def statistics(self) -> np.ndarray:
        """Numbers that do not depend on how components are called."""
        state = self.state()
        rows, columns = state.row_counts[0], state.column_counts[0]
        return np.array(
            [
                log_joint_of_counts(self.model, rows, columns),
                self.bits[~HIDDEN].sum(),
                self.bits[HIDDEN].sum(),
                (columns.astype(float) ** 2).sum(),
                (rows.astype(float) ** 2).sum(),
                (self.z == self.c)[~HIDDEN].sum() if self.model.kind == "dir-dir" else self.z[0, 0] == self.z[1, 1],
                *np.log(np.array(self.model.priors)).sum(axis=1),
                *np.sqrt(np.array(self.model.priors)).sum(axis=1),
            ]
        )


def _choose(rng: np.random.Generator, weights: np.ndarray, *, by_row: bool = False) -> np.ndarray:
    edges = weights.cumsum(axis=1)[:, :-1]
    edges = edges[:, None, :] if by_row else edges[None, :, :]
    return (rng.random((N_ROWS, N_COLUMNS))[..., None] > edges).sum(axis=2)


def smallest_p_value(sampler: type[BinaryCollapsedGibbs], model: BinaryModel) -> float:
    """Of t-tests of the mean change of each statistic, and of its square, Bonferroni corrected."""
    changes = []
    for seed in range(N_CHAINS):
        chain = Chain(sampler, model, seed)
        first = chain.statistics()
        for iteration in range(1, N_STEPS + 1):
            if iteration > 1:
                chain.new_bits()
            chain.sweep(iteration)
        last = chain.statistics()
        changes.append(np.concatenate((last - first, last**2 - first**2)))
    changed = np.array(changes)
    changed = changed[:, np.ptp(changed, axis=0) > 0]  # priors that are given do not change
    p_values = stats.ttest_1samp(changed, 0.0).pvalue
    return float(min(1.0, p_values.size * p_values.min()))


# A false alarm in 1 of 1,000 seeds for each case.
@pytest.mark.parametrize(
    ("sampler", "kind"),
    [(BinaryCollapsedGibbs, "beta-dir"), (BinaryCollapsedGibbs, "dir-dir"), (BinaryPartialGibbs, "beta-dir")],
)
def test_sampler_keeps_the_joint_distribution(sampler: type[BinaryCollapsedGibbs], kind: str) -> None:
    assert smallest_p_value(sampler, model_of(kind)) > 1e-3


SWAPPED = {"bounds = np.empty(2)": "bounds = np.empty(2)\n    prior = prior[:, ::-1].copy()"}
BUGS: dict[str, tuple[Any, Any, type[BinaryCollapsedGibbs], str, dict[str, str]]] = {
    "missing decrement": (
        gibbs,
        collapsed.sweep_beta_dirichlet,
        BinaryCollapsedGibbs,
        "beta-dir",
        {"own = 1.0 if new == old else 0.0": "own = 0.0", "counts[old, x] -= 1.0": "counts[old, x] -= 0.0"},
    ),
    "swapped alpha and beta": (
        gibbs,
        collapsed.sweep_beta_dirichlet,
        BinaryCollapsedGibbs,
        "beta-dir",
        SWAPPED,
    ),
    "bounds never raised": (
        gibbs,
        collapsed.sweep_beta_dirichlet,
        BinaryCollapsedGibbs,
        "beta-dir",
        {"= max(bounds[": "= min(bounds["},
    ),
    "missing decrement in the partial sampler": (
        partial,
        partial_kernels.sweep_rows,
        BinaryPartialGibbs,
        "beta-dir",
        {"counts[old, x] -= 1.0": "counts[old, x] -= 0.0"},
    ),
    "pairs that disagree with the bit": (
        gibbs,
        collapsed.sweep_dirichlet_dirichlet,
        BinaryCollapsedGibbs,
        "dir-dir",
        {"(z == c) == is_one": "(z == c) or not is_one"},
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, real, sampler, kind, changes = BUGS[bug]
    monkeypatch.setattr(module, real.__name__, mutant(real, changes))
    assert smallest_p_value(sampler, model_of(kind)) < 1e-3


def test_counting_missing_cells_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_rows(counts: np.ndarray, concentration: np.ndarray) -> Any:
        right = dirichlet_moments(counts, concentration)
        precision = np.full(counts.shape[0], concentration.sum() + N_ROWS)
        return right._replace(mean=(concentration + counts) / precision[:, None], precision=precision)

    monkeypatch.setattr(gibbs, "dirichlet_moments", all_rows)
    assert smallest_p_value(BinaryCollapsedGibbs, model_of("beta-dir")) < 1e-3


LEARNED = [
    (BinaryCollapsedGibbs, "beta-dir", ("beta", "concentration")),
    (BinaryPartialGibbs, "beta-dir", ("beta", "concentration")),
    (BinaryCollapsedGibbs, "dir-dir", ("concentration", "activation_concentration")),
]


@pytest.mark.parametrize(("sampler", "kind", "estimated"), LEARNED)
def test_sampler_that_learns_priors_keeps_the_joint_distribution(
    sampler: type[BinaryCollapsedGibbs], kind: str, estimated: tuple[str, ...]
) -> None:
    assert smallest_p_value(sampler, model_of(kind, *estimated)) > 1e-3


PRIOR_BUGS = {
    "tables of other components": ("exceeding", lambda real: lambda counts: real(counts[:, ::-1])),
    "every label opens a table": ("tables", lambda real: lambda generator, above, base: above.sum(axis=1)),
    "no waits": ("waits", lambda real: lambda generator, above, base: np.zeros(len(above))),
}


@pytest.mark.parametrize(
    "bug", [bug if bug == "no waits" else pytest.param(bug, marks=pytest.mark.slow) for bug in PRIOR_BUGS]
)
def test_bug_planted_in_the_draw_of_priors_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, plant = PRIOR_BUGS[bug]
    monkeypatch.setattr(priors, name, plant(getattr(priors, name)))
    assert smallest_p_value(BinaryCollapsedGibbs, model_of("beta-dir", "beta", "concentration")) < 1e-3
