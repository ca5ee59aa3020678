"""Where the paper's Dir-Dir results come from: two values of the second concentration, two kinds of start."""

from __future__ import annotations

from functools import partial
from typing import Any

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import bits, negative_log_likelihood, random_split
from partwise.reproduce.nbmf._methods import beta_dir_gs, dir_dir_gs
from partwise.reproduce.nbmf._protocol import Protocol

_SEED = 0


def compare(notebook: Notebook, protocol: Protocol) -> list[dict[str, Any]]:
    """Fit of all of parliament, and prediction of paleo's first split, for each model, concentration and start."""
    settings: list[tuple[str, dict[str, Any]]] = [("Beta-Dir", {})]
    settings += [("Dir-Dir, η = 1", {"activation_concentration": 1.0})]
    settings += [("Dir-Dir, η = 1/K", {"activation_concentration": None})]
    lines = []
    for name, changes in settings:
        for start in ("random", "vb"):
            run = partial(_run, name, {**changes, "init": start}, protocol, notebook.quick)
            lines.append({"model": name, "start": start, **notebook.step(f"dir-dir, {name}, start {start}", run)})
    return lines


def _run(name: str, changes: dict[str, Any], protocol: Protocol, quick: bool) -> dict[str, Any]:
    make = partial(beta_dir_gs if name == "Beta-Dir" else dir_dir_gs, protocol, _SEED, **changes)
    parliament = bits("parliament")
    whole = make().fit(parliament)
    split = random_split(bits("animals" if quick else "paleo"), _SEED)
    part = make().fit(split.train)
    return {
        "parliament": negative_log_likelihood(parliament, whole.predict_proba()),
        "parliament_active": whole.n_active_components_,
        "parliament_log_joint": float(whole.log_joint_draws_.mean()),
        "paleo": split.perplexity(part.predict_proba()),
        "paleo_active": part.n_active_components_,
        "paleo_log_joint": float(part.log_joint_draws_.mean()),
    }
