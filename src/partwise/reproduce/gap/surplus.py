"""More components than parts: twenty data sets of the larger dictionary."""

from itertools import count
from typing import Any

import numpy as np

from partwise import GammaPoissonNMF
from partwise.likelihood import exact, smc
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap._paper import DICTIONARY, counts

_SCALE, _N_PARTS, _STD_ERROR = 100, DICTIONARY.shape[1], 0.3


def make(notebook: Notebook) -> None:
    """Compute, and report."""
    seeds = range(2 if notebook.quick else 20)
    results = [notebook.step(f"surplus components: data set {seed}", compared, seed) for seed in seeds]
    found = {name: np.array([result[name] for result in results]) for name in results[0]}
    ours, joint = np.median(found["share"]), np.median(found["joint_share"])
    # Columns of 1e-8 of the counts are as empty as columns of 0.
    larger = "at least" if joint >= 5 * max(ours, 1e-3) else "not"
    rows = [
        [f"{seed}", *(f"{r[name]:.2f}" for name in ("three", "five", "error"))]
        + [f"{r[name]:.1%}" for name in ("share", "joint_share")]
        for seed, r in zip(seeds, results, strict=True)
    ]
    head = ["data set", "K = 3", "K = 5", "standard error", "surplus, MMLE", "surplus, joint"]
    notebook.table(
        f"Surplus components, {len(results)} data sets",
        head,
        rows,
        before=f"- K = 3: exact log-likelihood minus the truth's: least {found['three'].min():.2f}, median"
        f" {np.median(found['three']):.2f}.\n"
        f"- K = 5: by SMC, least {found['five'].min():.2f}, in standard errors"
        f" {np.min(found['five'] / found['error']):.1f} (largest standard error {found['error'].max():.2f}).\n"
        f"- Share of the surplus columns at K = 5, median: MMLE {ours:.2%}, joint {joint:.2%}, which is {larger} five"
        f" times larger. Above 2% in {np.sum(found['share'] > 0.02)} and {np.sum(found['joint_share'] > 0.02)} data"
        " sets.",
    )


def compared(seed: int) -> dict[str, float]:
    """Log-likelihoods relative to the truth's with 3 and 5 components, and the shares of the surplus columns."""
    X = counts(_SCALE, seed)
    truth = exact(X, _SCALE * DICTIONARY, 1.0, 1.0).total
    settings: dict[str, Any] = {"random_state": seed, "progress": False}
    three = GammaPoissonNMF(3, **settings).fit(X)
    five = GammaPoissonNMF(5, **settings).fit(X)
    joint = GammaPoissonNMF(5, inference="joint", **settings).fit(X)
    held = five.components_.sum(axis=1) > 0
    for n_draws in (4**power for power in count(4)):
        found = smc(X, five.components_[held].T, 1.0, 1.0, rng=seed, n_draws=n_draws)
        if found.total_std_error <= _STD_ERROR:
            break
    return {
        "three": exact(X, three.components_.T, 1.0, 1.0).total - truth,
        "five": found.total - truth,
        "error": found.total_std_error,
        "share": surplus_share(five),
        "joint_share": surplus_share(joint),
    }


def surplus_share(model: GammaPoissonNMF) -> float:
    """Share of the expected counts that all but the two largest columns hold."""
    sums = np.sort(model.components_.sum(axis=1) * model.shape_ / model.rate_)[::-1]
    return float(sums[_N_PARTS:].sum() / sums.sum())
