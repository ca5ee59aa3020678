"""Sums in kernels must have the same bits at any address of their arrays, on which threads and processes differ.

In a loop that both adds up a float and stores to an array, the compiler asks at run time whether arrays overlap, and
takes one of two loops that add in different orders. How it asks depends on the addresses. So sums stand in loops that
store nothing.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import partwise

SOURCE = Path(partwise.__file__).parent
# Calls that do not keep the compiler from vectorising a loop; any other does.
VECTORISED = {"max", "min", "abs", "float", "int", "sqrt", "floor", "fabs"}


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _storing_sums(function: ast.FunctionDef) -> list[int]:
    """Lines of innermost loops that add to a float and store to an array."""
    floats = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, float)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    lines = []
    for loop in ast.walk(function):
        if not isinstance(loop, ast.For) or any(
            isinstance(node, ast.For | ast.While | ast.Break | ast.Continue | ast.Return)
            for statement in loop.body
            for node in ast.walk(statement)
        ):
            continue
        nodes = [node for statement in loop.body for node in ast.walk(statement)]
        if any(isinstance(node, ast.Call) and _called(node) not in VECTORISED for node in nodes):
            continue
        # A sum whose values on the way are used has one order only.
        used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        adds = any(
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add | ast.Sub)
            and isinstance(node.target, ast.Name)
            and node.target.id in floats - used
            for node in nodes
        )
        stores = any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in nodes)
        if adds and stores:
            lines.append(loop.lineno)
    return lines


def _kernels(text: str) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id.endswith("kernel") for mark in node.decorator_list)
    ]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_sums_store_nothing(path: Path) -> None:
    found = [(kernel.name, line) for kernel in _kernels(path.read_text()) for line in _storing_sums(kernel)]
    assert not found, f"sums in loops that store: {found}"


def test_a_storing_sum_is_found() -> None:
    text = (
        "@kernel\ndef f(x, out):\n    total = 0.0\n    for k in range(x.size):\n"
        "        out[k] = x[k]\n        total += out[k]\n    return total\n"
    )
    (kernel,) = _kernels(text)
    assert _storing_sums(kernel) == [4]
