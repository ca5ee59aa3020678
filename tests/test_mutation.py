"""The planted bugs of ``make mutate``: what is changed, which are chosen, and that a copy is restored."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mutation import calls as calls_module
from mutation.calls import Calls, Digests
from mutation.ledger import Explanations, Ledger, Result
from mutation.operators import Mutant, mutants
from mutation.targets import all_mutants, choose, functions, is_kernel
from mutation.trees import Tree, refresh
from mutation.trial import Outcome, Runner

ROOT = Path(__file__).parents[1]
CODE = '''
def kernel(a): return a

@kernel
def total(values, start: int = 3) -> float:
    """Sum of 7 values."""
    if start < 0 and len(values) == 0:
        raise ValueError(f"start is {start + 1}")
    sum = 0.0
    for i in range(start, 9):
        sum += values[i - 1] * max(sum, 2)
    return power(sum, start)
'''


def planted() -> list[Mutant]:
    ((name, function),) = [(name, node) for name, node in functions(ast.parse(CODE)) if is_kernel(node)]
    return list(mutants("module.py", CODE, name, function))


@pytest.mark.parametrize(
    ("operator", "after"),
    [
        ("negate", "if not (start < 0 and len(values) == 0):"),
        ("condition", "if (start < 0 or len(values) == 0):"),
        ("comparison", "if (start <= 0) and len(values) == 0:"),
        ("comparison", "if start < 0 and (len(values) != 0):"),
        ("constant", "sum = 1.0"),
        ("range", "for i in range(start + 1, 9):"),
        ("range", "for i in range(start, (9) - 1):"),
        ("drop", "pass"),
        ("arithmetic", "sum -= values[i - 1] * max(sum, 2)"),
        ("arithmetic", "sum += (values[i - 1] / max(sum, 2))"),
        ("arithmetic", "sum += values[i - 1] * min(sum, 2)"),
        ("index", "sum += values[(i - 1) + 1] * max(sum, 2)"),
        ("arguments", "return power(start, sum)"),
    ],
)
def test_operators(operator: str, after: str) -> None:
    assert (operator, after) in {(mutant.operator, mutant.after) for mutant in planted()}


def test_only_code_that_matters_is_changed() -> None:
    for mutant in planted():
        ast.parse(mutant.source)
        changed = [new for old, new in zip(CODE.splitlines(), mutant.source.splitlines(), strict=True) if old != new]
        assert len(changed) == 1
        assert not any(word in changed[0] for word in ("Sum of", "raise", "def ", "@"))
    assert len({mutant.key for mutant in planted()}) == len(planted())


def test_keys_do_not_depend_on_the_place_in_the_file() -> None:
    moved = "\n\n# a comment\n" + CODE
    ((name, function),) = [(name, node) for name, node in functions(ast.parse(moved)) if is_kernel(node)]
    again = mutants("module.py", moved, name, function)
    assert [mutant.key for mutant in again] == [mutant.key for mutant in planted()]


def test_choice_is_seeded_and_spread_over_every_module() -> None:
    found = all_mutants(ROOT)
    chosen = choose(found, 2 * len(found), seed=0)
    assert [mutant.key for mutant in chosen] == [mutant.key for mutant in choose(found, 2 * len(found), seed=0)]
    assert [mutant.key for mutant in chosen] != [mutant.key for mutant in choose(found, 2 * len(found), seed=1)]
    counts = Counter(mutant.module for mutant in chosen)
    assert set(counts) == set(found)
    assert max(counts.values()) <= 3
    kernels = [module for module in found if "kernels" in module]
    assert len(kernels) > 20
    assert len(found) > len(kernels) + 20
    for module in kernels:
        tree = ast.parse((ROOT / "src" / "partwise" / module).read_text(encoding="utf-8"))
        compiled = {name for name, function in functions(tree) if is_kernel(function)}
        assert {mutant.function for mutant in found[module]} <= compiled


def repository(folder: Path) -> Path:
    for name, text in {"src/partwise/a.py": CODE, "tests/a/test_a.py": "", "pyproject.toml": ""}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_trees_are_restored(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    refresh(root, tmp_path / "base")
    compiled = tmp_path / "base" / "src" / "partwise" / "__pycache__" / "a.total.kernel"
    compiled.parent.mkdir()
    compiled.write_text("compiled")
    tree = Tree(tmp_path / "base", tmp_path / "tree")
    mutant = Mutant(**{**vars(planted()[0]), "module": "a.py"})
    tree.plant(mutant)
    file = tree.path / "src" / "partwise" / "a.py"
    kernels = file.parent / "__pycache__"
    assert file.read_text() == mutant.source
    (kernels / "a.total.kernel").write_text("of the mutant")
    (kernels / "a.other.kernel").write_text("of the mutant")
    tree.restore(mutant)
    assert file.read_text() == CODE
    assert [(k.name, k.read_text()) for k in kernels.iterdir()] == [("a.total.kernel", "compiled")]
    (root / "tests/a/test_a.py").write_text("changed")
    (root / "src/partwise/a.py").rename(root / "src/partwise/b.py")
    refresh(root, tmp_path / "base")
    assert sorted(p.name for p in (tmp_path / "base").rglob("*.*") if p.is_file()) == sorted(
        ["b.py", "test_a.py", "pyproject.toml", "a.total.kernel"]
    )
    assert (tmp_path / "base/tests/a/test_a.py").read_text() == "changed"
    assert (root / "src/partwise/b.py").read_text() == CODE


def test_results_are_taken_up(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    first, second, third = planted()[:3]
    ledger = Ledger(tmp_path / "results.jsonl", root)
    ledger.add(first, "a", Outcome("killed", "tests/a/test_a.py::test", 1.0))
    ledger.add(second, "a", Outcome("survived", "", 2.0))
    again = Ledger(tmp_path / "results.jsonl", root)
    assert again.known(first, "a") == Result(first, "killed", "tests/a/test_a.py::test", 1.0)
    assert again.known(second, "a") == Result(second, "survived", "", 2.0)
    assert again.known(third, "a") is None
    (root / "tests/a/test_b.py").write_text("more tests")
    assert again.known(first, "a") is not None
    assert again.known(second, "a") is None, "a survivor meets the new tests"
    (root / "tests/a/test_a.py").write_text("other tests")
    assert again.known(first, "a") is None, "the test that killed it may be another one"
    ledger.add(third, "without_tests", Outcome("survived", "", 2.0))
    (root / "src/partwise/a.py").write_text("changed")
    assert Ledger(tmp_path / "results.jsonl", root).known(third, "without_tests") is None


def test_a_mutant_meets_the_tests_that_call_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    lines: list[dict[str, Any]] = [
        {"test": "tests/a/test_a.py::slow", "seconds": 9.0, "calls": ["a/k.py:one", "a/k.py:two"]},
        {"test": "tests/a/test_a.py::fast", "seconds": 1.0, "calls": ["a/k.py:one"]},
    ]
    traced = tmp_path / "calls.jsonl"
    digests = Digests(root)
    traced.write_text(
        "\n".join(json.dumps({**line, "digest": digests.of(line["test"], line["calls"])}) for line in lines)
    )
    calls = Calls(root, traced)
    assert [test.name[-4:] for test in calls.of("a", "a/k.py", "one")] == ["fast", "slow"]
    assert [test.name[-4:] for test in calls.of("a", "a/k.py", "two")] == ["slow"]
    assert len(calls.of("a", "a/k.py", "new")) == 2, "a function that no test was seen to call meets the whole package"
    assert len(calls.of("b", "a/k.py", "one")) == 2, "a package without tests of its own is tested by others"
    assert not calls.untraced(root, ["tests/a"])
    (root / "tests/helper.py").write_text("def shared(): ...")
    assert Calls(root, traced).untraced(root, ["tests/a"]) == ["tests/a/test_a.py"], "what tests share has changed"
    (root / "tests/helper.py").unlink()
    assert not Calls(root, traced).untraced(root, ["tests/a"])
    (root / "src/partwise/a.py").write_text("changed")
    assert not Calls(root, traced).untraced(root, ["tests/a"]), "no test calls anything there"
    (root / "src/partwise/a").mkdir()
    (root / "src/partwise/a/k.py").write_text("changed")
    assert Calls(root, traced).untraced(root, ["tests/a"]) == ["tests/a/test_a.py"], "what it calls has changed"


SHARE = '"""A share."""\n\n\ndef share(part, whole):\n    return part / whole\n\n\ndef run(n):\n'
SHARE += "    while n > 0:\n        n -= 1\n    return share(1.0, n + 2.0)\n"
TESTS = '"""A test."""\n\nfrom own import run\n\n\ndef test_run():\n    assert run(3) == 0.5\n'


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("n + 2.0", "n + 2.0", "survived"),
        ("n > 0", "n >= 0", "killed"),  # a wrong number
        ("share(1.0, n + 2.0)", "share(n + 2.0)", "killed"),  # arguments that must raise
        ("n -= 1", "pass", "timeout"),  # for ever
        ('"""A share."""', "share(", "killed"),  # not even an import
    ],
)
def test_a_mutant_meets_its_tests_in_a_process_of_its_own(
    before: str, after: str, outcome: str, tmp_path: Path
) -> None:
    for name, text in {"src/own.py": SHARE.replace(before, after), "tests/a/test_run.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['slow', 'browser']\n")
    found = Runner(compiling=3.0).run(tmp_path, [calls_module.Test("tests/a/test_run.py::test_run", 0.0, frozenset())])
    assert found.outcome == outcome, (tmp_path / "report.log").read_text()
    assert found.by in ("", "import", "tests/a/test_run.py::test_run")


def test_explained_survivors_are_mutants_of_today() -> None:
    every = {(m.module, m.function, m.before, m.after) for planted in all_mutants(ROOT).values() for m in planted}
    for entry in Explanations().entries:
        assert entry["kind"] in ("equivalent", "survivor")
        assert entry["reason"]
        place = entry["module"], entry["function"], entry["before"], entry["after"]
        assert place in every, "remove an entry whose code has changed"
