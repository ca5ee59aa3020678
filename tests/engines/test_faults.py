"""Processes of a fit are killed at random times: it costs time, and changes no bit.

The command is run as a user would run it, with workers that it starts itself. Which model is fitted, which process is
killed, and when, is drawn from a seed: a worker (the fit goes on by itself) or the command (it is run again with
--resume).
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
# Activations that stay on the workers, and labels of tokens with their totals, which random streams change.
ARGUMENTS = {
    "poisson": ["--inference", "multiplicative", "--max-iter", str(N_ITER), "--tol", "0"],
    "allocation": ["--inference", "gibbs-partial", "--set", f"burn_in={N_ITER - 10}", "--set", "n_draws=10"],
}
COMPARED = {"poisson": ["components_", "mean_activations_"], "allocation": ["components_", "activations_"]}
TRACED = {"poisson": "objective", "allocation": "log_joint"}
# Longer than any fit takes on a busy machine; a fit that hangs fails the test.
TIMEOUT = 600.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data."""
    folder = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.5, 60.0, size=(1500, 3)) @ rng.dirichlet(np.full(300, 0.2), size=3)
    sp.save_npz(folder / "counts.npz", sp.csr_matrix(rng.poisson(rates)))
    return folder


def undisturbed(folder: Path, model: str) -> Any:
    """The model that threads fit."""
    name = f"local-{model}"
    if not (folder / f"{name}.partwise").exists():
        local = [*command(folder, model, name), "--threads", "2"]
        subprocess.run(local, check=True, capture_output=True, timeout=TIMEOUT)
    return partwise.load(folder / f"{name}.partwise")


def command(folder: Path, model: str, name: str) -> list[str]:
    data, output = str(folder / "counts.npz"), str(folder / f"{name}.partwise")
    fit = [sys.executable, "-m", "partwise", "fit", data, "-o", output, "-k", "3", "--seed", "1"]
    return [*fit, "--model", model, *ARGUMENTS[model]]


class Fit:
    """A running command with its checkpoints."""

    def __init__(self, folder: Path, model: str, name: str) -> None:
        self.folder, self.model, self.name, self.checkpoint = folder, model, name, folder / f"{name}.checkpoint"
        checkpoints = ["--checkpoint", str(self.checkpoint), "--checkpoint-every", "0", "--resume"]
        dask = ["--engine", "dask", "--threads", "2"]
        with (folder / f"{name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command(folder, model, name), *dask, *checkpoints], stderr=log, stdout=log
            )

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


def survive(folder: Path, model: str, seed: int) -> Any:
    """Run a fit, kill what the seed says when it says so, and give the model that comes out."""
    dice = random.Random(seed)
    fit = Fit(folder, model, f"fit{seed}")
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
        return Fit(fit.folder, fit.model, fit.name)
    return fit


def assert_unchanged(folder: Path, model: str, seed: int) -> None:
    found, expected = survive(folder, model, seed), undisturbed(folder, model)
    for name in COMPARED[model]:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    traced = TRACED[model]
    np.testing.assert_array_equal(found.trace_[traced], expected.trace_[traced])
    assert found.n_iter_ == expected.n_iter_ == N_ITER


def test_a_killed_process_changes_no_bit(folder: Path) -> None:
    assert_unchanged(folder, "poisson", 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))
def test_twenty_killed_processes_in_a_row(folder: Path, seed: int) -> None:
    assert_unchanged(folder, random.Random(f"model {seed}").choice(sorted(ARGUMENTS)), seed)
