"""Files of released versions stay readable, and give the numbers that they gave.

If a checkpoint gives other numbers, an algorithm has changed: raise its REVISION, so that older checkpoints are
refused. Before the first release, `make goldens` writes the files anew.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import golden_files as goldens
import numpy as np
import pytest

import partwise
from partwise._registry import find_estimator
from partwise.core.checkpoint import read_checkpoint
from partwise.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore")
FOLDER = goldens.FOLDER


def test_every_estimator_has_files() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.partwise")) == sorted(goldens.NAMES)
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 400_000


@pytest.mark.parametrize("name", goldens.NAMES)
def test_models(name: str) -> None:
    expected = np.load(FOLDER / f"{name}.npz")
    model = partwise.load(FOLDER / f"{name}.partwise")
    np.testing.assert_array_equal(model.components_, expected["components"])
    found = model.transform(goldens.data_for(type(model)))
    np.testing.assert_allclose(found, expected["activations"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", goldens.NAMES)
def test_checkpoints(name: str, tmp_path: Path) -> None:
    """A checkpoint goes on to the numbers of the uninterrupted fit, or is refused with a sentence."""
    path = tmp_path / "fit.checkpoint"
    shutil.copy(FOLDER / f"{name}.checkpoint", path)
    stored = read_checkpoint(path)
    assert stored.written_by
    cls = find_estimator(name)
    try:
        model = goldens.estimator(cls, checkpoint=path, resume=True).fit(goldens.data_for(cls))
    except InvalidInputError as refusal:
        if "cannot resume" in str(refusal):
            return
        raise
    expected = np.load(FOLDER / f"{name}.npz")
    np.testing.assert_allclose(model.components_, expected["components"], rtol=1e-6, atol=1e-9)


def test_a_comparison_goes_on(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "comparison", tmp_path / "comparison")
    before = (tmp_path / "comparison" / "fits.csv").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = goldens.compared(tmp_path / "comparison")
    assert str(found.recommended.rank) == (FOLDER / "comparison.txt").read_text().strip()
    assert (tmp_path / "comparison" / "fits.csv").read_text() == before, "fits were done again"
