"""``python -m mutation [-n NUMBER] [--seed SEED]``: plant bugs in kernels and samplers, and see if the tests notice.

Mutants are chosen by the seed, spread evenly over every module of kernels and samplers. Each is planted in a copy of
the repository, and the fast tests of its package that call the changed function run against it, in processes of their
own, until one fails. Results are kept in ``out/mutation``, so an interrupted run goes on where it was.

The share of killed mutants is printed at the end: those that change nothing observable (``equivalent`` in
``mutation/survivors.toml``) are left out of it, and a test that runs for ever is a test that has noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from mutation.calls import Calls
from mutation.ledger import Explanations, Ledger, Result
from mutation.operators import Mutant
from mutation.targets import ROOT, all_mutants, choose
from mutation.trees import Tree, refresh
from mutation.trial import Outcome, Runner

OUT = ROOT / "out" / "mutation"
# A mutant meets the fastest tests that call it, until these have taken so many seconds without a bug.
BUDGET = 60.0


def package_of(module: str) -> str:
    """The folder of tests that mirrors a module."""
    return Path(module).parts[0]


def trace(base: Path, traced: Path, packages: Iterable[str]) -> Calls:
    """Run the tests that have not been traced yet, once, and say which functions they call."""
    files = Calls(base, traced).untraced(base, [f"tests/{package}" for package in sorted(set(packages))])
    if files:
        print(f"tracing {len(files)} files of tests, once", flush=True)
        environment = {**os.environ, "MUTATION_CALLS": str(traced), "CI": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(base / "src"), str(ROOT)])
        environment.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-m", "pytest", "-p", "mutation.tracing", "-p", "no:cacheprovider", "-q", "-n", "2"]
        subprocess.run([*command, *files], cwd=base, env=environment, check=False)
    return Calls(base, traced)


def attempt(runner: Runner, tree: Tree, calls: Calls, mutant: Mutant) -> Outcome:
    """Plant a mutant, run its tests, and undo it."""
    tests = calls.of(package_of(mutant.module), mutant.module, mutant.function)
    tests = [
        test
        for test, before in zip(tests, accumulate((t.seconds for t in tests), initial=0.0), strict=False)
        if before < BUDGET
    ]
    if not tests:
        return Outcome("survived", "no test of its package calls it", 0.0)
    tree.plant(mutant)
    try:
        return runner.run(tree.path, tests)
    finally:
        tree.restore(mutant)


def sound(runner: Runner, tree: Tree, calls: Calls) -> Tree:
    """A tree in which nothing is planted must pass, or every mutant would seem to be found."""
    tests = sorted(calls.tests, key=lambda test: test.seconds)[:5]
    if runner.run(tree.path, tests).outcome != "survived":
        raise RuntimeError(f"tests fail without a bug: see {tree.path / 'report.log'}")
    return tree


def work(mutants: Sequence[Mutant], ledger: Ledger, calls: Calls, processes: int, out: Path) -> list[Result]:
    """The results of some mutants, in so many processes."""
    explanations, runner, queue = Explanations(), Runner(), list(mutants)
    results: list[Result] = []
    lock = threading.Lock()

    def serve(number: int) -> None:
        tree: Tree | None = None
        while True:
            with lock:
                if not queue:
                    return
                mutant = queue.pop(0)
            package = package_of(mutant.module)
            result = ledger.known(mutant, package)
            entry = explanations.of(mutant)
            if result is None and not (entry and entry["kind"] == "equivalent"):
                tree = tree or sound(runner, Tree(out / "base", out / f"tree-{number}"), calls)
                result = ledger.add(mutant, package, attempt(runner, tree, calls, mutant))
            if entry and (result is None or result.outcome == "survived"):
                outcome = "equivalent" if entry["kind"] == "equivalent" else "survived"
                result = Result(mutant, outcome, entry["reason"], result.seconds if result else 0.0)
            assert result is not None
            with lock:
                results.append(result)
                print(f"{len(results)}/{len(mutants)} {describe(result)}", flush=True)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def describe(result: Result) -> str:
    """One line for one result."""
    mutant = result.mutant
    place = f"{mutant.module}:{mutant.line} {mutant.function}"
    line = f"{result.outcome:10} {place} [{mutant.operator}]  {result.by}  ({result.seconds} s)"
    return line if result.outcome in ("killed", "timeout") else f"{line}\n    - {mutant.before}\n    + {mutant.after}"


def summary(results: Sequence[Result]) -> tuple[str, float]:
    """The rate in words and as a number."""
    counts = Counter(result.outcome for result in results)
    killed = counts["killed"] + counts["timeout"]
    counted = killed + counts["survived"]
    rate = killed / counted if counted else 1.0
    words = f"{killed} of {counted} mutants killed ({rate:.1%}), {counts['timeout']} of them by a time limit; "
    modules = len({result.mutant.module for result in results})
    return words + f"{counts['survived']} survived; {counts['equivalent']} more are equivalent; {modules} modules", rate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__.split("\n\n")[0])
    parser.add_argument("-n", "--number", type=int, default=150, help="how many mutants (default 150)")
    parser.add_argument("--seed", type=int, default=0, help="which mutants (default 0)")
    parser.add_argument("--processes", type=int, default=2, help="how many at once (default 2)")
    parser.add_argument("--only", default="", help="only those of modules whose path begins so; several with commas")
    parser.add_argument("--least", type=float, default=0.9, help="the rate below which it exits with 1 (default 0.9)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of copies and results (default out/mutation)")
    options = parser.parse_args(arguments)
    out = options.out.absolute()
    chosen = choose(all_mutants(ROOT), options.number, options.seed)
    mutants = [mutant for mutant in chosen if mutant.module.startswith(tuple(options.only.split(",")))]
    refresh(ROOT, out / "base")
    calls = trace(out / "base", out / "calls.jsonl", [package_of(mutant.module) for mutant in mutants])
    results = work(mutants, Ledger(out / "results.jsonl", ROOT), calls, options.processes, out)
    words, rate = summary(results)
    (out / "summary.json").write_text(json.dumps({"rate": rate, "words": words, "seed": options.seed}, indent=1))
    print(words)
    return int(rate < options.least)


if __name__ == "__main__":
    sys.exit(main())
