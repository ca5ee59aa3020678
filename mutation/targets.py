"""What is mutated: every compiled kernel, and every function of the modules that sample or optimise with them."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path

from mutation.operators import Mutant, mutants

ROOT = Path(__file__).parents[1]
SOURCE = "src/partwise"

# Folders whose modules run kernels: algorithms of the families, and what the families share.
SAMPLER_FOLDERS = {"inference", "likelihood", "sampling", "passes"}


def is_kernel(function: ast.FunctionDef) -> bool:
    """Is it compiled? By `kernel`, `inner_kernel` or `inline_kernel`."""
    return any(isinstance(name, ast.Name) and name.id.endswith("kernel") for name in function.decorator_list)


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of a module and methods of its classes, with their qualified names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    yield f"{node.name}.{child.name}", child


def all_mutants(root: Path) -> dict[str, list[Mutant]]:
    """Every mutant of every kernel and sampler, by module (its path below the source folder)."""
    found = {}
    for file in sorted((root / SOURCE).rglob("*.py")):
        module = file.relative_to(root / SOURCE).as_posix()
        text = file.read_text(encoding="utf-8")
        named = list(functions(ast.parse(text)))
        if not SAMPLER_FOLDERS & set(Path(module).parts[:-1]) or "kernels" in Path(module).parts[:-1]:
            named = [(name, function) for name, function in named if is_kernel(function)]
        planted = [mutant for name, function in named for mutant in mutants(module, text, name, function)]
        if planted:
            found[module] = planted
    return found


def choose(found: dict[str, list[Mutant]], number: int, seed: int) -> list[Mutant]:
    """So many mutants, spread evenly over modules, and within a module over its functions.

    The choice within a module depends on the seed and on that module only, so a change elsewhere keeps it.
    """
    queues = {module: _spread(module, planted, seed) for module, planted in found.items()}
    order = sorted(queues)
    random.Random(f"{seed}").shuffle(order)
    chosen: list[Mutant] = []
    while len(chosen) < number and any(queues.values()):
        for module in order:
            if queues[module] and len(chosen) < number:
                chosen.append(queues[module].pop())
    return chosen


def _spread(module: str, planted: list[Mutant], seed: int) -> list[Mutant]:
    """The mutants of a module, to be taken from the end: one of each function in turn, then of each operator."""
    rng = random.Random(f"{seed}:{module}")
    by_function: dict[str, list[Mutant]] = {}
    for mutant in planted:
        by_function.setdefault(mutant.function, []).append(mutant)
    for queue in by_function.values():
        rng.shuffle(queue)
    taken: list[Mutant] = []
    names = sorted(by_function)
    rng.shuffle(names)
    while any(by_function.values()):
        taken.extend(by_function[name].pop() for name in names if by_function[name])
    return taken[::-1]
