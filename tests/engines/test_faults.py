"""Processes of a fit are killed at random times: it costs time, and changes no bit.

The command is run as a user would run it, with workers that it starts itself. Which process is killed, and when, is
drawn from a seed: a worker (the fit goes on by itself) or the command (it is run again with --resume).
"""

from __future__ import annotations

import os
import random
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
from partwise.core.checkpoint import read_checkpoint

pytest.importorskip("distributed", reason="needs the extra partwise[dask]")
psutil = pytest.importorskip("psutil", reason="finds the workers of a command")

N_ITER = 25
ARGUMENTS = ["-k", "3", "--max-iter", str(N_ITER), "--tol", "0", "--seed", "1", "--inference", "multiplicative"]
# Longer than any fit takes on a busy machine; a fit that hangs fails the test.
TIMEOUT = 240.0


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with data, and the model that threads fit to them."""
    folder = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.5, 60.0, size=(1500, 3)) @ rng.dirichlet(np.full(300, 0.2), size=3)
    sp.save_npz(folder / "counts.npz", sp.csr_matrix(rng.poisson(rates)))
    subprocess.run([*command(folder, "local"), "--threads", "2"], check=True, capture_output=True, timeout=TIMEOUT)
    return folder, partwise.load(folder / "local.partwise")


def command(folder: Path, name: str) -> list[str]:
    data, model = str(folder / "counts.npz"), str(folder / f"{name}.partwise")
    return [sys.executable, "-m", "partwise", "fit", data, "-o", model, *ARGUMENTS]


class Fit:
    """A running command with its checkpoints."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.checkpoint = folder, name, folder / f"{name}.checkpoint"
        checkpoints = ["--checkpoint", str(self.checkpoint), "--checkpoint-every", "0", "--resume"]
        dask = ["--engine", "dask", "--threads", "2"]
        with (folder / f"{name}.log").open("ab") as log:
            self.process = subprocess.Popen([*command(folder, name), *dask, *checkpoints], stderr=log, stdout=log)

    def iteration(self) -> int:
        """The iteration of the last checkpoint."""
        return len(read_checkpoint(self.checkpoint).trace) if self.checkpoint.exists() else 0

    def wait_for(self, iteration: int) -> bool:
        """Wait until the fit is that far; false if it has ended."""
        deadline = time.monotonic() + TIMEOUT
        while self.iteration() < iteration and self.process.poll() is None:
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        return self.process.poll() is None

    def workers(self) -> list[int]:
        """Processes that work for the command."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [child.pid for child in found if "spawn_main" in " ".join(child.cmdline())]

    def said(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()[-3000:]

    def finish(self) -> None:
        assert self.process.wait(TIMEOUT) == 0, self.said()


def survive(folder: Path, seed: int) -> Any:
    """Run a fit, kill what the seed says when it says so, and give the model that comes out."""
    dice = random.Random(seed)
    fit = Fit(folder, f"fit{seed}")
    try:
        fit = disturb(fit, dice)
        fit.finish()
    finally:
        fit.process.kill()
    return partwise.load(folder / f"fit{seed}.partwise")


def disturb(fit: Fit, dice: random.Random) -> Fit:
    """Kill something; the fit that is to be finished, which is another one if the command itself was killed."""
    alive = fit.wait_for(dice.randrange(1, N_ITER - 5))
    # Anywhere within an iteration.
    time.sleep(dice.random() * 0.1)
    assert alive, f"the fit ended before anything could be killed: {fit.said()}"
    if dice.random() < 0.75:
        os.kill(dice.choice(fit.workers()), signal.SIGKILL)
    else:
        fit.process.kill()
        fit.process.wait(TIMEOUT)
        assert not (fit.folder / f"{fit.name}.partwise").exists()
        return Fit(fit.folder, fit.name)
    return fit


def assert_same(model: Any, expected: Any) -> None:
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.mean_activations_, expected.mean_activations_)
    np.testing.assert_array_equal(model.trace_["objective"], expected.trace_["objective"])
    assert model.n_iter_ == expected.n_iter_ == N_ITER


def test_a_killed_process_changes_no_bit(fitted: tuple[Path, Any]) -> None:
    folder, expected = fitted
    assert_same(survive(folder, 0), expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))
def test_twenty_killed_processes_in_a_row(fitted: tuple[Path, Any], seed: int) -> None:
    folder, expected = fitted
    assert_same(survive(folder, seed), expected)
