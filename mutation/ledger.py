"""What became of each mutant: results that a later run takes up, and survivors that the repository explains."""

from __future__ import annotations

import json
import threading
import tomllib
from dataclasses import dataclass
from pathlib import Path

from mutation.calls import digest, digest_of_code
from mutation.operators import Mutant
from mutation.trial import Outcome

EXPLAINED = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True)
class Result:
    """A mutant and what became of it: ``killed``, ``timeout``, ``survived`` or ``equivalent``."""

    mutant: Mutant
    outcome: str
    by: str
    """the test that killed it, or why it could survive"""
    seconds: float


class Ledger:
    """A file of JSON lines. A mutant is tried again when the test that killed it has changed, or is gone.

    A survivor is tried again when the sources or the tests of its package have changed.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self._file = file
        self._root = root
        self._code = digest_of_code(root)
        self._lock = threading.Lock()
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self._known = {line["key"]: line for line in map(json.loads, lines)}

    def known(self, mutant: Mutant, package: str) -> Result | None:
        """The result of an earlier run, if it still holds."""
        line = self._known.get(mutant.key)
        if line is None or line["tests"] != self._tests(package, line["outcome"], line["by"]):
            return None
        return Result(mutant, line["outcome"], line["by"], line["seconds"])

    def add(self, mutant: Mutant, package: str, outcome: Outcome) -> Result:
        """Keep a result."""
        line = {
            "key": mutant.key,
            "module": mutant.module,
            "function": mutant.function,
            "operator": mutant.operator,
            "line": mutant.line,
            "before": mutant.before,
            "after": mutant.after,
            "outcome": outcome.outcome,
            "by": outcome.by,
            "seconds": outcome.seconds,
            "tests": self._tests(package, outcome.outcome, outcome.by),
        }
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return Result(mutant, outcome.outcome, outcome.by, outcome.seconds)

    def _tests(self, package: str, outcome: str, by: str) -> str:
        """The state of the tests on which a result depends."""
        killer = self._root / by.partition("::")[0]
        if outcome != "survived" and killer.is_file():
            return digest([killer], self._root)
        own = list((self._root / "tests" / package).glob("*.py")) or (self._root / "tests").rglob("*.py")
        return self._code + digest(own, self._root)


class Explanations:
    """The survivors that `survivors.toml` lists: equivalent to the original, or let live for a reason."""

    def __init__(self, file: Path = EXPLAINED) -> None:
        listed = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self.entries: list[dict[str, str]] = listed.get("survivor", [])

    def of(self, mutant: Mutant) -> dict[str, str] | None:
        """The entry of a mutant: the same change of the same lines of the same function."""
        for entry in self.entries:
            if (entry["module"], entry["function"], entry["before"], entry["after"]) == (
                mutant.module,
                mutant.function,
                mutant.before,
                mutant.after,
            ):
                return entry
        return None
