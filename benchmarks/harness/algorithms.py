"""Every algorithm with a fixed amount of work, on data from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.data import poisson_counts

N_ROWS, N_COMPONENTS = 1000, 20

Work = Callable[[], object]


def counts_of(n_rows: int = N_ROWS) -> Any:
    """The counts that the work is done on."""
    return poisson_counts(n_rows, 1500, 10, 0.05, seed=0)


def algorithms(n_rows: int = N_ROWS, n_components: int = N_COMPONENTS) -> dict[str, Work]:
    """All of them by name: fits of a few iterations, and likelihoods of a hundredth of the rows."""
    import partwise
    from partwise import likelihood

    counts = counts_of(n_rows)
    bits = (counts[: 3 * n_rows // 10, :300].toarray() > 0).astype(float)
    rng = np.random.default_rng(0)
    dictionary = rng.dirichlet(np.full(counts.shape[1], 0.1), n_components).T
    start = (rng.gamma(0.5, 10.0, (n_rows, n_components)), dictionary.T)
    narrow = dictionary[:, :3] / dictionary[:, :3].sum(axis=0)
    few_rows = counts[: n_rows // 100]
    alike = {"n_components": n_components, "random_state": 0, "progress": False}

    def fit(kind: Any, data: Any = counts, **options: Any) -> Work:
        return lambda: kind(**{**alike, **options}).fit(data)

    def new_rows() -> object:
        model = partwise.AllocationNMF(2, inference="vb", max_iter=1, progress=False).fit(counts[:2])
        model.components_, model.n_components_ = dictionary.T, n_components
        model.activation_concentration_ = np.full(n_components, 0.1)
        return model.transform(counts)

    iterate = {"max_iter": 10, "tol": 0.0}
    sample = {"burn_in": 5, "n_draws": 5}
    chain = {**sample, "n_chains": 1}
    few = {"max_iter": 2, "draws_per_iter": 5, "burn_in_per_iter": 0}
    priors = {"activation_prior": "gamma", "dictionary_prior": "gamma"}
    # priors that are given: learning them would be measured too
    flat = {"model": "beta-dir", "beta_prior": (1.0, 1.0), "concentration": 1.0}
    return {
        "poisson, coordinate": fit(partwise.PoissonNMF, **iterate),
        "poisson, em": fit(partwise.PoissonNMF, inference="multiplicative", **iterate),
        "gamma-poisson, mcem-c": fit(partwise.GammaPoissonNMF, inference="mcem-c", **few),
        # iterations alone: the default begins with a Poisson factorization, which the line after it measures too
        "gamma-poisson, vem": fit(partwise.GammaPoissonNMF, inference="vem", init=dictionary.T, shape=1.0, **iterate),
        "gamma-poisson, default": fit(partwise.GammaPoissonNMF, **iterate),
        "beta-gamma": fit(partwise.BetaGammaPFA, **sample),
        "allocation, gibbs": fit(partwise.AllocationNMF, **chain),
        "allocation, gibbs, 300 parts": fit(partwise.AllocationNMF, n_components=300, **chain),
        "allocation, gibbs-partial": fit(partwise.AllocationNMF, inference="gibbs-partial", **chain),
        "allocation, vb": fit(partwise.AllocationNMF, inference="vb", **iterate),
        "allocation, bld": fit(partwise.AllocationNMF, inference="bld", init=start, **iterate),
        "allocation, new rows": new_rows,
        "empirical Bayes, gamma": fit(partwise.EmpiricalBayesPoissonNMF, init="random", **priors, **iterate),
        "empirical Bayes, mixture": fit(partwise.EmpiricalBayesPoissonNMF, init="random", **iterate),
        "binary, gibbs": fit(partwise.BinaryNMF, bits, **flat, **chain),
        "binary, cvb0": fit(partwise.BinaryNMF, bits, inference="cvb0", **flat, **iterate),
        "binary, vb": fit(partwise.BinaryNMF, bits, inference="vb", **flat, **iterate),
        "likelihood, exact": lambda: likelihood.exact(counts[: n_rows // 20], narrow, 1.0, 1.0),
        "likelihood, smc": lambda: likelihood.smc(few_rows, dictionary, 0.5, 1.0, rng=0),
        "likelihood, annealed": lambda: likelihood.annealed(few_rows, dictionary, 0.5, 1.0, rng=0),
        "likelihood, left-to-right": lambda: likelihood.left_to_right(few_rows, dictionary, 0.5, 1.0, rng=0),
    }
