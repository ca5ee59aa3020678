"""Rules of the house that no linter knows: short functions, one meaning per class name, callers that do not guess."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import partwise

SOURCE = Path(partwise.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 60
# What asks models through the contract, and nothing else.
CALLERS = ("selection", "reporting", "plotting", "cli", "bridges", "tl", "pl", "text", "restarts", "refit", "datasets")
GUESSES = (
    re.compile(r"hasattr\((?:self\.)?(?:model|estimator|fitted|view\.model), *\""),
    re.compile(r"\b(?:model|estimator|fitted)\._[a-z]\w*\("),
    re.compile(r"\b(?:model|estimator|fitted)\.\w+_ = "),
)


def definitions(kind: type[ast.AST]) -> Iterator[tuple[Path, ast.AST]]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kind):
                yield path.relative_to(SOURCE), node


def code_lines(function: ast.FunctionDef, path: Path) -> int:
    """Lines of a function without its docstring, comments and blank lines."""
    body = function.body
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    skipped = range(first.lineno, (first.end_lineno or 0) + 1) if documented else range(0)
    lines = (SOURCE / path).read_text(encoding="utf-8").splitlines()
    own = range(function.lineno, (function.end_lineno or 0) + 1)
    kept = [lines[at - 1].strip() for at in own if at not in skipped]
    return sum(bool(line) and not line.startswith("#") for line in kept)


def is_kernel(function: ast.FunctionDef) -> bool:
    return any("kernel" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_functions_are_short() -> None:
    long = {
        f"{path}:{node.name}": code_lines(node, path)
        for path, node in definitions(ast.FunctionDef)
        if isinstance(node, ast.FunctionDef) and not is_kernel(node)
    }
    assert {name: size for name, size in long.items() if size > MOST_LINES} == {}


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, node in definitions(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        homes[node.name].append(str(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_nobody_guesses_what_a_model_is() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] in CALLERS
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(guess.search(line) for guess in GUESSES)
    ]
    assert found == []


def test_private_modules_and_names_stay_in_their_package() -> None:
    # `_registry` and `_version` are nobody's: they lie beside the packages.
    found = []
    for path, node in definitions(ast.ImportFrom):
        assert isinstance(node, ast.ImportFrom)
        origin = (node.module or "").split(".")
        if origin[0] != "partwise" or origin[1:2] == [path.parts[0]]:
            continue
        private = [name for name in (*origin[2:], *(alias.name for alias in node.names)) if re.match("_[a-z]", name)]
        found += [f"{path}:{node.lineno} {name}" for name in private]
    assert found == []


def test_class_names_of_models_stand_in_the_registry_alone() -> None:
    from partwise._registry import BUILT_IN

    names = {model.class_name for model in BUILT_IN}
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in FILES
        if path.relative_to(SOURCE).parts[0] in CALLERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert found == []
