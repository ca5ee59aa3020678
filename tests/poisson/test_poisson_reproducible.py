"""Same bits for any number of threads, after a resume, and a usable model after a real Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import partwise
from partwise import Checkpoint, PoissonNMF, Table
from partwise.engines.blocks import row_blocks
from partwise.errors import InvalidInputError

FITTED = ["components_", "mean_activations_", "kkt_residual_", "active_components_"]


def simulated(missing: float = 0.1) -> Table:
    rng = np.random.default_rng(0)
    dictionary = rng.dirichlet(np.full(200, 0.2), size=4)
    X = rng.poisson(rng.gamma(0.5, 60.0, size=(300, 4)) @ dictionary)
    mask = rng.random(X.shape) < missing
    return Table(sp.csr_array(X), missing=sp.csr_array(mask) if missing else None)


def assert_same_fit(left: Any, right: Any) -> None:
    for name in FITTED:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    np.testing.assert_array_equal(left.trace_["objective"], right.trace_["objective"])
    assert left.n_iter_ == right.n_iter_


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Cut the test's data into many blocks; the numbers of blocks that were made."""
    made: list[int] = []

    def cut(indptr: Any, *unused: int) -> list[tuple[int, int]]:
        blocks = row_blocks(indptr, 300)
        made.append(len(blocks))
        return blocks

    for place in ("passes.side", "likelihood.completion"):
        monkeypatch.setattr(f"partwise.{place}.row_blocks", cut)
    return made


@pytest.mark.parametrize("inference", ["coordinate", "multiplicative"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_threads(inference: str, missing: float, small_blocks: list[int]) -> None:
    table = simulated(missing)
    arguments: dict[str, Any] = {"inference": inference, "max_iter": 30, "tol": 0.0, "random_state": 0}
    models = [PoissonNMF(4, n_jobs=n_jobs, **arguments).fit(table) for n_jobs in (None, 1, 2, 3, -1)]
    assert min(small_blocks) > 20
    for model in models[1:]:
        assert_same_fit(model, models[0])
        np.testing.assert_array_equal(model.transform(table), models[0].transform(table))
        assert model.score(table) == models[0].score(table)


def test_seeds_differ_and_repeat() -> None:
    table = simulated()
    arguments: dict[str, Any] = {"max_iter": 12, "tol": 0.0}
    first = PoissonNMF(4, random_state=0, **arguments).fit(table)
    assert_same_fit(PoissonNMF(4, random_state=0, **arguments).fit(table), first)
    other = PoissonNMF(4, random_state=1, **arguments).fit(table)
    assert not np.array_equal(other.components_, first.components_)
    drawn = [PoissonNMF(4, random_state=make(5), **arguments).fit(table) for make in (np.random.default_rng,) * 2]
    assert_same_fit(*drawn)
    legacy = [PoissonNMF(4, random_state=np.random.RandomState(5), **arguments).fit(table) for _ in range(2)]
    assert_same_fit(*legacy)
    unseeded = [PoissonNMF(4, **arguments).fit(table) for _ in range(2)]
    assert not np.array_equal(unseeded[0].components_, unseeded[1].components_)


@pytest.mark.parametrize("inference", ["coordinate", "multiplicative"])
def test_resume_equals_uninterrupted(inference: str, tmp_path: Path) -> None:
    """Stopped at iterations 7 and 19, resumed twice, by another number of threads."""
    table = simulated()
    arguments: dict[str, Any] = {"inference": inference, "tol": 0.0, "random_state": 3}
    whole = PoissonNMF(4, max_iter=40, **arguments).fit(table)
    where = Checkpoint(tmp_path / "fit.checkpoint", iterations=5)
    for stop, n_jobs in ((7, 1), (19, 2), (40, 3)):
        model = PoissonNMF(4, max_iter=stop, checkpoint=where, resume=True, n_jobs=n_jobs, **arguments).fit(table)
        assert model.n_iter_ == stop
    assert_same_fit(model, whole)
    again = PoissonNMF(4, max_iter=40, checkpoint=where, resume=True, **arguments).fit(table)
    assert_same_fit(again, whole)


def test_resume_without_a_seed(tmp_path: Path) -> None:
    """The seed that was drawn is in the checkpoint."""
    table = simulated()
    path = tmp_path / "fit.checkpoint"
    PoissonNMF(4, max_iter=15, tol=0.0, checkpoint=str(path)).fit(table)
    twin = path.read_bytes()
    resumed = PoissonNMF(4, max_iter=25, tol=0.0, checkpoint=str(path), resume=True).fit(table)
    path.write_bytes(twin)
    again = PoissonNMF(4, max_iter=25, tol=0.0, checkpoint=str(path), resume=True).fit(table)
    assert_same_fit(resumed, again)


def test_resume_refuses_another_fit(tmp_path: Path) -> None:
    table = simulated()
    path = str(tmp_path / "fit.checkpoint")
    PoissonNMF(4, max_iter=5, tol=0.0, random_state=0, checkpoint=path).fit(table)
    with pytest.raises(InvalidInputError, match="with other parameters"):
        PoissonNMF(5, max_iter=9, tol=0.0, random_state=0, checkpoint=path, resume=True).fit(table)
    with pytest.raises(InvalidInputError, match="for other data"):
        PoissonNMF(4, max_iter=9, tol=0.0, random_state=0, checkpoint=path, resume=True).fit(simulated(0.0))
    with pytest.raises(InvalidInputError, match="with another seed"):
        PoissonNMF(4, max_iter=9, tol=0.0, random_state=1, checkpoint=path, resume=True).fit(table)
    with pytest.raises(InvalidInputError, match="use the same inference"):
        PoissonNMF(
            4, inference="multiplicative", max_iter=9, tol=0.0, random_state=0, checkpoint=path, resume=True
        ).fit(table)


SCRIPT = """
import signal, sys, warnings
import numpy as np
from partwise import PoissonNMF
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start commands in the background without it
warnings.simplefilter("always")
def tell(iteration, state, trace):
    print(iteration, flush=True)
X = np.random.default_rng(0).poisson(1.0, size=(400, 300))
model = PoissonNMF(8, max_iter=10**6, tol=0.0, random_state=0, n_jobs=2, callbacks=[tell], progress=False).fit(X)
print("ended", model.status_.code, model.n_iter_, model.transform(X).shape, flush=True)
model.save(sys.argv[1])
"""


def test_ctrl_c_leaves_a_loadable_model(tmp_path: Path) -> None:
    path = tmp_path / "partial.partwise"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        wait_for_line(process, "3")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    assert "InterruptedFitWarning: Interrupted after" in errors
    ended = output.strip().splitlines()[-1].split(maxsplit=3)
    assert ended[:2] == ["ended", "interrupted"]
    assert ended[3] == "(400, 8)"
    loaded = partwise.load(path)
    assert loaded.status_.code == "interrupted"
    assert loaded.n_iter_ == int(ended[2]) >= 3
    # What the fit had reached by then, and not something in between.
    X = np.random.default_rng(0).poisson(1.0, size=(400, 300))
    same = PoissonNMF(8, max_iter=loaded.n_iter_, tol=0.0, random_state=0).fit(X)
    np.testing.assert_array_equal(loaded.components_, same.components_)


def wait_for_line(process: subprocess.Popen[str], line: str, seconds: float = 300.0) -> None:
    assert process.stdout is not None
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([process.stdout], [], [], 1.0)
        if ready:
            found = process.stdout.readline()
            if found.strip() == line:
                return
            assert found, f"the process ended early: {process.stderr.read() if process.stderr else ''}"
    raise TimeoutError(f"no line {line!r} within {seconds} seconds")
