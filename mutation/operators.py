"""Planted bugs: every way in which one place of a function can be changed, found in its syntax tree.

Operators swap arithmetic, move comparisons, indices, ranges and constants by one, drop statements, swap arguments, and
negate conditions. Annotations, docstrings, error messages and assertions are left alone.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.RShift: ast.LShift,
    ast.LShift: ast.RShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
Place = ast.stmt | ast.expr
RENAMED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One change of one place in a file."""

    module: str
    """path of the file below the package's folder"""
    function: str
    """qualified name of the outermost function or method"""
    operator: str
    line: int
    before: str
    """the lines of the changed place"""
    after: str
    source: str
    """the whole file with the change"""
    key: str
    """the same for the same change of the same function, wherever it stands in its file"""


def mutants(module: str, source: str, name: str, function: ast.FunctionDef) -> Iterator[Mutant]:
    """All mutants of a function of a file."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    head, tail = starts[function.lineno - 1], starts[_last_line(function)]
    for statement in _statements(function):
        for operator, node, planted in _changes(statement):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[_last_line(node) - 1] + (node.end_col_offset or 0)
            changed = text[:begin] + planted.encode() + text[end:]
            if changed == text:
                continue
            grown = len(changed) - len(text)
            first, last = starts[node.lineno - 1], starts[_last_line(node)]
            new_function = changed[head : tail + grown]
            yield Mutant(
                module=module,
                function=name,
                operator=operator,
                line=node.lineno,
                before=" ".join(text[first:last].decode().split()),
                after=" ".join(changed[first : last + grown].decode().split()),
                source=changed.decode(),
                key=hashlib.sha256(f"{module}:{name}:".encode() + new_function).hexdigest()[:16],
            )


def _last_line(node: Place) -> int:
    return node.end_lineno or node.lineno


def _statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """The statements of a function in which a change is a bug."""
    for child in ast.walk(function):
        if isinstance(child, ast.stmt) and child is not function and not isinstance(child, _LEFT_ALONE):
            if isinstance(child, ast.Expr) and not isinstance(child.value, ast.Call):
                continue
            yield child


_LEFT_ALONE = (
    ast.Raise,
    ast.Assert,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
    ast.FunctionDef,
    ast.ClassDef,
)


def _changes(statement: ast.stmt) -> Iterator[tuple[str, Place, str]]:
    """(operator, the node that is replaced, the text in its place) for a statement without its body."""
    if isinstance(statement, ast.AugAssign) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    ):
        yield "drop", statement, "pass"
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Subscript) for target in statement.targets):
        yield "drop", statement, "pass"
    if isinstance(statement, ast.AugAssign) and type(statement.op) in SWAPPED:
        op = SWAPPED[type(statement.op)]()
        yield "arithmetic", statement, ast.unparse(ast.AugAssign(statement.target, op, statement.value))
    if isinstance(statement, ast.If | ast.While):
        yield "negate", statement.test, f"not ({ast.unparse(statement.test)})"
    for node in _expressions(statement):
        yield from _expression_changes(node)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, without those of statements in its body, annotations and format strings."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.expr):
            yield node
        for name, value in ast.iter_fields(node):
            if name not in _NOT_EXPRESSIONS or not isinstance(node, ast.stmt):
                children = value if isinstance(value, list) else [value]
                waiting.extend(c for c in children if isinstance(c, ast.AST) and not isinstance(c, ast.JoinedStr))


_NOT_EXPRESSIONS = ("annotation", "returns", "decorator_list", "body", "orelse", "finalbody", "handlers")


def _expression_changes(node: ast.expr) -> Iterator[tuple[str, Place, str]]:
    match node:
        case ast.BinOp(left, op, right) if type(op) in SWAPPED and not _is_text(left):
            yield "arithmetic", node, f"({ast.unparse(ast.BinOp(left, SWAPPED[type(op)](), right))})"
        case ast.Compare(left, [op], [right]) if type(op) in COMPARED:
            yield "comparison", node, f"({ast.unparse(ast.Compare(left, [COMPARED[type(op)]()], [right]))})"
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "condition", node, f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.IfExp(test, _, _):
            yield "negate", test, f"(not ({ast.unparse(test)}))"
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            yield "constant", node, repr(value + 1)
        case ast.Subscript(_, index, ast.Load() | ast.Store()):
            for element in index.elts if isinstance(index, ast.Tuple) else [index]:
                yield from _index_changes(element)
        case ast.Call(function, arguments):
            if isinstance(function, ast.Name) and function.id == "range":
                for argument in arguments:
                    yield from _moved("range", argument)
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in RENAMED:
                yield "arithmetic", function, ast.unparse(function).removesuffix(name) + RENAMED[name]
            for first, second in pairwise(arguments if name not in RENAMED else ()):
                if not any(isinstance(argument, ast.Starred) or _is_text(argument) for argument in (first, second)):
                    swapped = {id(first): second, id(second): first}
                    changed = [swapped.get(id(argument), argument) for argument in arguments]
                    yield "arguments", node, ast.unparse(ast.Call(function, changed, node.keywords))


def _index_changes(index: ast.expr) -> Iterator[tuple[str, Place, str]]:
    if isinstance(index, ast.Slice):
        for bound in (index.lower, index.upper):
            if bound is not None:
                yield from _moved("index", bound)
    elif isinstance(index, ast.Name | ast.BinOp | ast.Constant | ast.Subscript) and not _is_text(index):
        yield from _moved("index", index)


def _moved(operator: str, node: ast.expr) -> Iterator[tuple[str, Place, str]]:
    if isinstance(node, ast.Starred):
        return
    for sign in "+-":
        yield (
            operator,
            node,
            f"({ast.unparse(node)}) {sign} 1" if not isinstance(node, ast.Name) else f"{node.id} {sign} 1",
        )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and not isinstance(node.value, int | float)
    )
