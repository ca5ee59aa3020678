"""Start-up: whole processes, from the interpreter's start to its end.

Files are in the system's cache, as one run goes before that is not counted. Modules have their bytecode, as an
installed package has, also where PYTHONDONTWRITEBYTECODE is set. "First ever fit" has an empty folder as numba's cache,
so it compiles every kernel that it needs.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.processes import Ended, last_line, run_command

_FIT = "import numpy; from partwise import PoissonNMF; PoissonNMF(3, random_state=0).fit(numpy.eye(30, dtype=int) + 1)"
_MODEL = "a.model"
_MAKE = _FIT.replace("PoissonNMF(3", "model = PoissonNMF(3") + f"; model.save('{_MODEL}'); model.transform([[1] * 30])"
_NEW = f"import partwise; partwise.load('{_MODEL}').transform([[1] * 30])"
# What every process of ours waits for: the interpreter, and the part of scikit-learn that estimators are made of.
_NEEDED = "import sklearn.base, sklearn.utils._param_validation, scipy.sparse"
_COMMAND = str(Path(sys.executable).with_name("partwise"))


@dataclass(frozen=True)
class _Case:
    what: str
    command: Sequence[str]
    most_seconds: float | None
    cold: bool = False
    must_say: str = ""


_CASES = (
    _Case("`import partwise`", (sys.executable, "-c", "import partwise"), 0.5),
    _Case("`partwise --help`", (_COMMAND, "--help"), 0.5),
    _Case("`from partwise import PoissonNMF`", (sys.executable, "-c", "from partwise import PoissonNMF"), 2),
    _Case("scikit-learn and SciPy alone, which the line above includes", (sys.executable, "-c", _NEEDED), None),
    _Case("load a model and transform one row, warm cache", (sys.executable, "-c", _NEW), None),
    _Case("numba as well, which the line above includes", (sys.executable, "-c", f"{_NEEDED}; import numba"), None),
    _Case("`partwise info MODEL`", (_COMMAND, "info", _MODEL), None),
    _Case("`partwise demo`, warm cache", (_COMMAND, "demo"), 5),
    _Case("first ever fit, empty cache", (sys.executable, "-c", _FIT), 10, cold=True, must_say="compiling"),
    _Case("the same fit, warm cache", (sys.executable, "-c", _FIT), None),
)


def measure(settings: Settings) -> Iterator[Line]:
    """Each command ``settings.repeats`` times."""
    with tempfile.TemporaryDirectory() as cache:
        kept = Path(cache)
        run_command((sys.executable, "-c", _MAKE), environment=_environment(kept, kept), folder=kept)
        for case in _CASES:
            yield _line(settings, case, kept)


def _line(settings: Settings, case: _Case, cache: Path) -> Line:
    goal = None if case.most_seconds is None else Goal(case.most_seconds, "below")
    warm_up = _run(case, cache)
    if warm_up.failed:
        return skipped(case.what, "", last_line(warm_up.messages), goal)
    ended = [_run(case, cache) for _ in range(settings.repeats)]
    note = f"the run before took {warm_up.seconds:.2f} s"
    if case.must_say:
        silent = sum(case.must_say not in run.messages for run in ended)
        note = f"silent about {case.must_say} in {silent} runs" if silent else f"says that it is {case.must_say}"
    return Line(case.what, "", Sample.of([run.seconds for run in ended], "s"), goal=goal, note=note)


def _run(case: _Case, cache: Path) -> Ended:
    with tempfile.TemporaryDirectory() as folder:
        if (cache / _MODEL).exists():
            shutil.copy(cache / _MODEL, folder)
        kernels = Path(folder) / "cache" if case.cold else cache
        return run_command(case.command, environment=_environment(cache, kernels), folder=Path(folder))


def _environment(cache: Path, kernels: Path) -> dict[str, str]:
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache / "bytecode")}
    return {"NUMBA_CACHE_DIR": str(kernels), **bytecode}
