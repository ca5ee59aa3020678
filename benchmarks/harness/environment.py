"""What a measurement depends on besides the code: machine, versions, date, and who else was using the machine."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Self

PACKAGES = ("partwise", "numpy", "scipy", "numba", "llvmlite", "scikit-learn", "threadpoolctl")
PEERS = ("dask", "gensim", "hpfrec", "lda", "nbmf-mm", "poismf", "tomotopy")
# Set before any library is loaded: every process of a benchmark, ours or a peer's, has one thread unless it asks.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
# Threads may lack this part of a core before a table says that it was measured under load.
BUSY = 0.1


def describe() -> dict[str, Any]:
    """Versions, machine and date."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": _versions(),
        "system": platform.platform(),
        "processor": _proc_field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
    }


def _versions() -> dict[str, str]:
    installed = {distribution.name for distribution in metadata.distributions()}
    return {name: metadata.version(name) for name in (*PACKAGES, *PEERS) if name in installed}


def _commit() -> str:
    """The commit that was measured, marked where the measured code differs from it."""
    root = Path(__file__).parents[2]
    try:
        commit = _git(root, "rev-parse", "--short", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with changes in src" if changed else commit


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _proc_field(path: str, name: str) -> str:
    try:
        text = Path(path).read_text()
    except OSError:
        return ""
    found = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith(name)]
    return found[0] if found else ""


class OthersUse:
    """How many cores others used, on average, while a context was open; None where the system does not say."""

    cores: float | None = None

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self._before = _seconds_of_others()
        return self

    def __exit__(self, *unused: object) -> None:
        after = _seconds_of_others()
        if self._before is not None and after is not None:
            self.cores = max(0.0, (after - self._before) / (time.perf_counter() - self._began))


def _seconds_of_others() -> float | None:
    """Processor seconds that the machine has spent, less those of this process and of children that have ended."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _waiting, interrupt, soft_interrupt, stolen = (int(field) for field in fields[:8])
    machine = (user + nice + system + interrupt + soft_interrupt + stolen) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return machine - (own.user + own.system + own.children_user + own.children_system)
