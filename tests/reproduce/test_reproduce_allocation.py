"""The allocation paper: parts of its reproduction in seconds, the whole short version marked slow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

from partwise.allocation import AllocationModel
from partwise.core.keys import Key
from partwise.reproduce import find
from partwise.reproduce.allocation import figure1, table1


def test_best_decomposition_gains_on_every_matrix() -> None:
    runs = [table1.trajectory(seed) for seed in range(3)]
    for run in runs:
        assert run["least_change"][0] >= 0.0
        assert np.diff(run["log_p"]).min() >= 0.0
        assert run["log_p"][-1] > run["log_p"][0] + 1.0


def test_unrestricted_relaxation_is_at_least_the_restricted_one() -> None:
    decomposition, relaxed, whole = table1.bounds(0)
    # Log p(S) of one S by tables and by SciPy: they may differ by 7e-11 for each of 160 entries.
    assert relaxed >= decomposition - 160 * 7e-11
    assert np.isfinite(whole)


def test_unrestricted_relaxation_stays_on_the_data() -> None:
    model = AllocationModel(3, 2, 1.0, 1.0, 5.0, 1.0)
    s = model.simulate(Key(0), 4).allocations + 0.5
    assert table1.unrestricted(model, s) >= model.log_allocation(s)


def test_recovered_parts_are_counted() -> None:
    parts = figure1.swimmer().parts.astype(float)
    assert figure1.recovered(parts) == 17
    assert figure1.recovered(parts[:5]) == 5
    assert figure1.recovered(np.ones((17, 1024))) == 0


def test_slices_are_the_counts_of_one_picture() -> None:
    drawn = figure1.swimmer()
    split = figure1.slices(drawn.counts[99], drawn.parts.astype(float), drawn.present[99].astype(float))
    np.testing.assert_array_equal(split, drawn.present[99][:, None] * drawn.parts)


MODEL = AllocationModel(8, 2, 1.0, 1.0, 40.0, 1.0)
TINY = np.finfo(float).tiny  # for features and samples without counts


def kl_nmf(counts: np.ndarray, shape: float, marks: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Log p(S), matrices x marks, and the last log-likelihoods, of KL-NMF from factors drawn from Gamma(shape, 1)."""
    rng, n = np.random.default_rng(0), len(counts)
    activations, dictionary = (rng.gamma(shape, 1.0, (n, size, 2)) + 1e-12 for size in (10, 8))
    reached = []
    for update in range(1, marks[-1] + 1):
        rates = activations @ dictionary.swapaxes(1, 2) + TINY
        activations *= counts / rates @ dictionary / dictionary.sum(axis=1, keepdims=True)
        rates = activations @ dictionary.swapaxes(1, 2) + TINY
        dictionary *= (counts / rates).swapaxes(1, 2) @ activations / (activations.sum(axis=1, keepdims=True) + TINY)
        if update in marks:
            shares = activations[:, :, None] * dictionary[:, None]
            allocations = counts[..., None] * shares / (shares.sum(axis=3, keepdims=True) + TINY)
            reached.append([MODEL.log_allocation(each) for each in allocations])
    rates = activations @ dictionary.swapaxes(1, 2) + TINY
    return np.array(reached).T, (counts * np.log(rates) - rates).sum(axis=(1, 2))


@pytest.fixture(scope="module")
def matrices() -> np.ndarray:
    return np.array([table1.matrix(seed).to_scipy().toarray() for seed in range(150)], dtype=float)


def error(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.std(axis=0) / np.sqrt(len(values)))


def test_kl_nmf_gets_no_higher_with_more_or_fewer_updates(matrices: np.ndarray) -> None:
    """Its log p(S) rises with its updates and ends 3 nats below the paper's -239.2: -258, -246, -243, -242."""
    reached, _ = kl_nmf(matrices, 1.0, (10, 30, 100, 1000))
    means = reached.mean(axis=0)
    assert np.all(np.diff(means) > 0)
    # Three standard errors: a false alarm once in 700 seeds.
    assert means[-1] + 3 * error(reached)[-1] < -239.2


def test_sparse_starts_of_kl_nmf_end_as_high_as_the_paper(matrices: np.ndarray) -> None:
    """Factors that start near zero stay there, which costs hardly any likelihood and gains log p(S)."""
    (even, even_likelihood), (sparse, sparse_likelihood) = (kl_nmf(matrices, shape, (400,)) for shape in (1.0, 0.1))
    gain, cost = sparse - even, even_likelihood - sparse_likelihood
    assert gain.mean() - 3 * error(gain)[0] > 1.0
    assert cost.mean() < 2.0
    assert np.median(cost) < 0.1
    assert abs(sparse.mean() + 239.2) < 3 * error(sparse)[0]


def test_samples_of_equal_length_explain_three_nats_of_kl_nmf(matrices: np.ndarray) -> None:
    """With 40 tokens in every sample, instead of lengths drawn from the model, log p(S) is higher by about 3 nats."""
    rng = np.random.default_rng(1)
    parts, shares = rng.dirichlet(np.ones(8), (150, 2)), rng.dirichlet(np.ones(2), (150, 10))
    equal, _ = kl_nmf(rng.multinomial(40, shares @ parts).astype(float), 1.0, (400,))
    drawn, _ = kl_nmf(matrices, 1.0, (400,))
    assert abs(equal.mean() + 239.2) < 3 * error(equal)[0]
    assert 0.0 < equal.mean() - drawn.mean() < 3.2 + 3 * np.hypot(error(equal)[0], error(drawn)[0])


def test_third_term_of_equation_9_is_of_the_total_of_each_component() -> None:
    """With one feature its weights are 1, so that α cannot matter; with S_+++ for S_++k it would."""
    allocations = np.array([[[3.0, 2.0]]])
    ours = [AllocationModel(1, 2, alpha, 1.0, 5.0, 1.0).log_allocation(allocations) for alpha in (0.5, 4.0)]
    assert ours[0] == pytest.approx(ours[1], abs=1e-12)
    # Only the third term changes: Γ(α + 3) Γ(α + 2) becomes Γ(α + 5)².
    change = [gammaln(alpha + 3) + gammaln(alpha + 2) - 2 * gammaln(alpha + 5) for alpha in (0.5, 4.0)]
    assert abs(change[0] - change[1]) > 1.0


@pytest.mark.slow
def test_short_version(tmp_path: Path) -> None:
    find("allocation").run(tmp_path, True)
    written = {file.name for file in tmp_path.iterdir()}
    assert {"report.md", "table1_gain.png", "figure1_bld.pdf", "figure1_bld_slices.png", "results.json"} <= written
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    assert steps["figure 1, bld, with slices"]["result"]["recovered"] >= 14
