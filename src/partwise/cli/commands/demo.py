"""``partwise demo``: parts of pictures and of texts, from data that every installation has."""

from pathlib import Path

from partwise.cli.options import RunArguments, Seed, to_write
from partwise.cli.output import Outcome, say

EXAMPLES = ("partwise demo",)


def command(
    output: Path = to_write("Folder for the picture; it is created if needed.", "DIR", Path("out")),
    seed: Seed = 0,
    *,
    run: RunArguments,
) -> Outcome:
    """Try partwise on handwritten digits and on texts.

    Finds the strokes of digits and the topics of Python's help texts, prints them, and draws them to demo.png. The
    digits come with scikit-learn and the help texts with Python. Nothing is downloaded.
    """
    import time

    from partwise.cli.demonstration import draw, fit_digits, fit_topics
    from partwise.errors import MissingDependencyError

    start = time.perf_counter()
    output.mkdir(parents=True, exist_ok=True)
    examples = [fit(seed, n_jobs=run.threads, progress=run.progress) for fit in (fit_digits, fit_topics)]
    written = [output / "demo.png"]
    try:
        draw(examples[0], examples[1], written[0])
    except MissingDependencyError:  # no reason to fail
        written = []
        say('there is no picture: matplotlib is not installed; pip install "partwise[plot]" brings it.')
    seconds = time.perf_counter() - start
    facts = {"examples": [example.facts() for example in examples], "seconds": seconds, "written": written}
    lines = [line for example in examples for line in (*example.lines(), "")]
    lines += [*(f"wrote {path}" for path in written), "the same for your own data: partwise fit DATA -o MODEL -k 10"]
    return Outcome(facts, lines)
