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
import math
import os
import queue
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

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


def trace(base: Path, traced: Path, packages: Iterable[str], processes: int) -> Calls:
    """Run the tests that have not been traced as they are today, once, and say which functions they call.

    One package at a time: lines of an interrupted run do not count, because they may lack tests of a file.
    """
    for package in sorted(packages):
        files = Calls(base, traced).untraced(base, [f"tests/{package}"])
        if not files:
            continue
        print(f"tracing {len(files)} files of tests of {package}, once", flush=True)
        unfinished = traced.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        environment = {**os.environ, "MUTATION_CALLS": str(unfinished), "CI": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(base / "src"), str(ROOT)])
        environment.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-m", "pytest", "-p", "mutation.tracing", "-p", "no:cacheprovider", "-q"]
        command += ["-n", str(processes)] if processes > 1 else []
        code = subprocess.run([*command, *files], cwd=base, env=environment, check=False).returncode
        # Files of slow tests alone have nothing to trace.
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise RuntimeError(f"pytest could not trace the tests (exit code {code})")
        if unfinished.exists():
            lines = traced.read_text(encoding="utf-8").splitlines(keepends=True) if traced.exists() else []
            others = [line for line in lines if json.loads(line)["test"].partition("::")[0] not in files]
            traced.write_text("".join(others) + unfinished.read_text(encoding="utf-8"), encoding="utf-8")
    return Calls(base, traced)


def attempt(runner: Runner, tree: Tree, calls: Calls, mutant: Mutant) -> Outcome:
    """Plant a mutant, run its tests, and undo it."""
    tests = calls.of(package_of(mutant.module), mutant.module, mutant.function)
    spent = accumulate((test.seconds for test in tests), initial=0.0)
    tests = [test for test, before in zip(tests, spent, strict=False) if before < BUDGET]
    tree.plant(mutant)
    try:
        return runner.run(tree.path, tests)
    finally:
        tree.restore(mutant)


def check(runner: Runner, tree: Tree, calls: Calls, packages: Iterable[str]) -> None:
    """Nothing planted, all must pass: a file of tests that cannot be imported would seem to find every bug."""
    tests = [test for package in packages for test in calls.of_package(package)]
    fastest = {test.file: test for test in sorted(tests, key=lambda test: -test.seconds)}
    if runner.run(tree.path, list(fastest.values())).outcome != "survived":
        raise RuntimeError(f"tests fail without a bug: see {tree.path / 'report.log'}")


def work(
    mutants: Sequence[Mutant], ledger: Ledger, calls: Calls, processes: int, out: Path, until: float = math.inf
) -> list[Result]:
    """The results of some mutants, in so many processes; none begins after ``until`` of the monotonic clock."""
    explanations, runner = Explanations(), Runner()
    results: list[Result] = []
    waiting: list[Mutant] = []
    for mutant in mutants:
        entry, known = explanations.of(mutant), ledger.known(mutant, package_of(mutant.module))
        if entry and entry["kind"] == "equivalent":
            results.append(Result(mutant, "equivalent", entry["reason"], 0.0))
        elif known is not None:
            results.append(known)
        else:
            waiting.append(mutant)
    print("\n".join(map(describe, results)), flush=True)
    if not waiting:
        return results
    trees = [Tree(out / "base", out / f"tree-{number}") for number in range(min(processes, len(waiting)))]
    check(runner, trees[0], calls, {package_of(mutant.module) for mutant in waiting})
    free: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def one(mutant: Mutant) -> Result | None:
        tree = free.get()
        try:
            if time.monotonic() > until:
                return None
            return ledger.add(mutant, package_of(mutant.module), attempt(runner, tree, calls, mutant))
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        try:
            for future in as_completed([pool.submit(one, mutant) for mutant in waiting]):
                result = future.result()
                if result is not None:
                    results.append(result)
                    print(f"{len(results)}/{len(mutants)} {describe(result)}", flush=True)
        except BaseException:  # above all Ctrl-C: end with the mutants that run now
            pool.shutdown(wait=False, cancel_futures=True)
            raise
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
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no mutant so long after tracing")
    options = parser.parse_args(arguments)
    # A shell has processes in the background ignore Ctrl-C, and so would the fits that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = options.out.absolute()
    found = all_mutants(ROOT)
    chosen = choose(found, options.number, options.seed)
    mutants = [mutant for mutant in chosen if mutant.module.startswith(tuple(options.only.split(",")))]
    refresh(ROOT, out / "base")
    packages = {package_of(mutant.module) for mutant in mutants}
    if not all((ROOT / "tests" / package).is_dir() for package in packages):  # one is tested by others
        packages = set(map(package_of, found))
    calls = trace(out / "base", out / "calls.jsonl", packages, options.processes)
    until = time.monotonic() + 60.0 * options.minutes
    results = work(mutants, Ledger(out / "results.jsonl", out / "base"), calls, options.processes, out, until)
    for result in results:  # once more together, with the reasons of those that are explained
        if result.outcome == "survived":
            entry = Explanations().of(result.mutant)
            print(describe(replace(result, by=entry["reason"] if entry else "not explained in survivors.toml")))
    words, rate = summary(results)
    if len(results) < len(mutants):
        words += f"; {len(mutants) - len(results)} were not run for time: run the command again"
    (out / "summary.json").write_text(json.dumps({"rate": rate, "words": words, "seed": options.seed}, indent=1))
    print(words)
    return int(rate < options.least)


if __name__ == "__main__":
    sys.exit(main())
