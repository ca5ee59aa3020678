"""Where the paper's Dir-Dir results come from: two values of the second concentration, two kinds of start."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

from partwise.binary.estimator import BinaryNMF
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import bits, negative_log_likelihood, random_split
from partwise.reproduce.nbmf._methods import beta_dir_gs, dir_dir_gs, run_lengths

_SEED = 0
_FORMATS = ("{:,.0f}", "{}", "{:,.0f}", "{:.4f}", "{}", "{:,.0f}")


def make(notebook: Notebook) -> None:
    """Fit of all of parliament, and prediction of paleo's first split, for each model, concentration and start."""
    lengths = run_lengths(notebook.quick)
    settings: dict[str, dict[str, Any]] = {
        "Beta-Dir": {},
        "Dir-Dir, η = 1": {"activation_concentration": 1.0},
        "Dir-Dir, η = 1/K": {"activation_concentration": 1.0 / lengths.n_components},
    }
    rows = []
    for (name, changes), start in product(settings.items(), ("random", "vb")):
        make_model = partial(beta_dir_gs if name == "Beta-Dir" else dir_dir_gs, lengths, _SEED, **changes, init=start)
        found = notebook.step(f"dir-dir, {name}, start {start}", _run, make_model, notebook.quick)
        rows.append([name, start, *(form.format(value) for form, value in zip(_FORMATS, found, strict=True))])
    head = ["model", "start", "parliament, NLL", "active", "log joint", "paleo, perplexity", "active", "log joint"]
    notebook.table("Dir-Dir: second concentration and start", head, rows)


def _run(make_model: Callable[[], BinaryNMF], quick: bool) -> list[float]:
    """Loss, active parts and log joint density of a fit to all of parliament, then the same of a split of paleo."""
    parliament = bits("parliament")
    whole = make_model().fit(parliament)
    split = random_split(bits("animals" if quick else "paleo"), _SEED)
    part = make_model().fit(split.train)
    losses = negative_log_likelihood(parliament, whole.predict_proba()), split.perplexity(part.predict_proba())
    fits = zip(losses, (whole, part), strict=True)
    return [one for loss, fit in fits for one in (loss, fit.n_active_components_, float(fit.log_joint_draws_.mean()))]
