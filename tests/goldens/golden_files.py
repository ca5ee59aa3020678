"""Write the files that later versions must read: of each estimator a model and a checkpoint; and a comparison.

`make goldens` runs this. Before the first release, run it after a change of formats. Files of a released version are
never written anew: add a folder for the new version.
"""

from __future__ import annotations

import dataclasses
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import partwise
from partwise import Checkpoint
from partwise._registry import BUILT_IN, find_estimator

FOLDER = Path(__file__).parent / "0.1.0"
NAMES = [model.class_name for model in BUILT_IN]
_EFFORT = {"burn_in": 4, "n_draws": 4, "max_iter": 8}
_STOPPED_AT = 3


def data_for(cls: Any) -> np.ndarray:
    """A small table of the kind that a model takes."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.5, 8.0, size=(14, 2)) @ rng.dirichlet(np.full(6, 0.4), size=2))
    counts[counts.sum(axis=1) == 0, 0] = 1
    return (counts > 0).astype(np.int64) if cls.declares.data == "bits" else counts


def estimator(cls: Any, **parameters: Any) -> Any:
    """An estimator that is fitted quickly."""
    known = {field.name for field in dataclasses.fields(cls)}
    effort = {name: value for name, value in _EFFORT.items() if name in known}
    return cls(**{"n_components": 2, "random_state": 0, "progress": False, **effort, **parameters})


def compared(output: Path) -> Any:
    """A small comparison, taken up from its folder if that is there."""
    X = data_for(find_estimator("PoissonNMF"))
    return partwise.selection.compare(
        X, models=["poisson"], ranks=[1, 2], n_restarts=1, random_state=0, output=output, progress=False
    )


def stop(iteration: int, state: object, trace: object) -> bool:
    """A callback."""
    return iteration == _STOPPED_AT


def main() -> None:
    """Write everything anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in NAMES:
            cls = find_estimator(name)
            X = data_for(cls)
            checkpoint = Checkpoint(FOLDER / f"{name}.checkpoint", iterations=_STOPPED_AT)
            estimator(cls, checkpoint=checkpoint, callbacks=[stop]).fit(X)
            fitted = estimator(cls).fit(X)
            fitted.save(FOLDER / f"{name}.partwise")
            np.savez(FOLDER / f"{name}.npz", components=fitted.components_, activations=fitted.transform(X))
        found = compared(FOLDER / "comparison")
    (FOLDER / "comparison.txt").write_text(str(found.recommended.rank) + "\n")


if __name__ == "__main__":
    main()
