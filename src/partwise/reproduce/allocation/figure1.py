"""Figure 1: the swimmer by KL-NMF, best latent decomposition, annealed mode and posterior draws; S and parts."""

from typing import Any

import numpy as np

from partwise.allocation.estimator import AllocationNMF
from partwise.allocation.model import AllocationModel
from partwise.datasets.bundled import SWIMMER_SHAPE, swimmer
from partwise.kernels.arrays import Floats
from partwise.poisson.estimator import PoissonNMF
from partwise.reproduce._notebook import Notebook

N_COMPONENTS = 17
ENOUGH = 0.9
PRIORS: dict[str, Any] = {
    "dictionary_concentration": 0.05,
    "activation_concentration": [10.0] * (N_COMPONENTS - 1) + [60.0],
    "length_shape": 100.0,
    "length_rate": 1.0,
}
LEVEL = 1
SAMPLE = 99
"""The 100th picture, whose slices of S the paper shows."""


def recovered(components: Floats) -> int:
    """How many of the 17 true parts have a component at a cosine of at least 0.9."""
    parts = swimmer().parts / np.linalg.norm(swimmer().parts, axis=1, keepdims=True)
    cosines = components / np.linalg.norm(components, axis=1, keepdims=True) @ parts.T
    return int(np.count_nonzero(cosines.max(axis=0) >= ENOUGH))


def fit(inference: str, n_starts: int, n_sweeps: int) -> dict[str, Any]:
    """The best of some starts by the model's own score, never by the truth."""
    counts = swimmer(LEVEL).counts
    best: dict[str, Any] = {}
    scores, found = [], []
    for seed in range(n_starts):
        model, score = _fitted(inference, counts, n_sweeps, seed)
        scores.append(score)
        found.append(recovered(model.components_))
        if score == max(scores):
            best = {"components": _drawn(model).round(6).tolist(), "recovered": found[-1], "score": score}
            best["slices"] = slices(counts[SAMPLE], model.components_, _activations(model)).round(6).tolist()
    return {**best, "scores": scores, "all_recovered": found}


def _fitted(inference: str, counts: Any, n_sweeps: int, seed: int) -> tuple[Any, float]:
    """A model fitted from one start, and its score."""
    if inference == "kl-nmf":
        nmf = PoissonNMF(N_COMPONENTS, max_iter=500, tol=1e-7, random_state=seed).fit(counts)
        return nmf, float(nmf.trace_.latest("objective")[0][1])
    if inference == "gibbs":
        settings: dict[str, Any] = {"burn_in": n_sweeps, "n_draws": n_sweeps // 4}
    else:
        settings = {"inference": inference, "max_iter": n_sweeps if inference == "map" else 400, "tol": 0.0}
    model = AllocationNMF(N_COMPONENTS, **PRIORS, **settings, n_chains=1, random_state=seed).fit(counts)
    return model, float(model.log_joint_draws_.mean()) if inference == "gibbs" else model.log_allocation_


def slices(counts: Any, components: Floats, activations: Floats) -> Floats:
    """Counts of one picture split over the parts, components x pixels: x_f w_fk h_k / Σ_j w_fj h_j."""
    shares = components * activations[:, None]
    return np.asarray(counts * shares / np.maximum(shares.sum(axis=0), np.finfo(np.float64).tiny))


def _activations(model: Any) -> Floats:
    """Of that picture: as fitted, or the most likely given the parts."""
    fitted = getattr(model, "activations_", None)
    return np.asarray(model.transform(swimmer(LEVEL).counts[[SAMPLE]])[0] if fitted is None else fitted[SAMPLE])


def _drawn(model: Any) -> Floats:
    """Components, those without counts left white: all that is known of them is the prior."""
    counts = getattr(model, "component_counts_", np.ones(N_COMPONENTS))
    return np.asarray(np.where(counts[:, None] >= 1.0, model.components_, 0.0))


def truth() -> float:
    """Log p(S) of the decomposition that the pictures were made by."""
    drawn = swimmer(LEVEL)
    model = AllocationModel(drawn.counts.shape[1], N_COMPONENTS, **PRIORS)
    return model.log_allocation(LEVEL * drawn.present[:, None, :] * drawn.parts.T[None])


def make(notebook: Notebook) -> None:
    """Pictures of each method's parts and of one picture's slices of S, and a table of how many parts are right."""
    from partwise.plotting import plot_parts_images

    n_starts, n_sweeps = (1, 200) if notebook.quick else (5, 1000)
    rows = [["truth", "17", "", f"log p(S) = {notebook.step('figure 1, truth', truth):.0f}"]]
    for inference in ("kl-nmf", "bld", "map", "gibbs"):
        result = notebook.step(f"figure 1, {inference}, with slices", fit, inference, n_starts, n_sweeps)
        score = {"kl-nmf": "log-likelihood", "gibbs": "mean log p(X, labels)"}.get(inference, "log p(S)")
        each = ", ".join(str(number) for number in result["all_recovered"])
        rows.append([inference, f"{result['recovered']} of 17", each, f"{score} = {result['score']:.0f}"])
        name = f"figure1_{inference.replace('-', '_')}"
        for suffix, pictures, common in (("", "components", False), ("_slices", "slices", True)):
            figure = plot_parts_images(np.array(result[pictures]), SWIMMER_SHAPE, n_columns=9, common_scale=common)
            notebook.figure(name + suffix, figure)
    notebook.table("Figure 1", ["method", "parts at cosine 0.9", "of each start", "score"], rows)
