"""Run by the Python of a fresh environment: does what a page says, in order, and prints the seconds of each step.

``python follow_page.py STEPS.json`` reads a list of pairs, ``["python", code]`` or ``["partwise", words]``. Code shares
one interpreter, as in a notebook. The last line of the output is JSON: label, seconds and processor seconds of each.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path


def processor_seconds() -> float:
    """Of this process and of all commands so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def label(kind: str, what: str | list[str]) -> str:
    """A command with its first argument, or the first line of code that does something."""
    if isinstance(what, list):
        return " ".join([kind, *what[:2]])
    lines = [line for line in what.splitlines() if line and not line.startswith(("import ", "from ", "#"))]
    return lines[0] if lines else "import"


def main() -> None:
    """Stop at the first step that fails."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    program = str(Path(sys.executable).with_name("partwise"))
    found = []
    for kind, what in json.loads(Path(sys.argv[1]).read_text("utf-8")):
        began, used = time.perf_counter(), processor_seconds()
        if kind == "python":
            exec(compile(what, "<page>", "exec"), namespace)
        else:
            subprocess.run([program, *what], check=True)
        found.append([label(kind, what), time.perf_counter() - began, processor_seconds() - used])
    print()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
