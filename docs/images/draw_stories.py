"""Draws how each model says that data come about, and which model suits which data.

``python docs/images/draw_stories.py`` writes docs/explanation/stories/*.svg.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "explanation" / "stories"
COUNTS = (
    ("5", "0", "2", "0", "1", "0", "", "3"),
    ("0", "4", "0", "", "0", "7", "1", "0"),
    ("2", "1", "3", "0", "1", "2", "0", "1"),
)
BITS = (
    ("1", "0", "1", "0", "1", "0", "", "1"),
    ("0", "1", "0", "", "0", "1", "1", "0"),
    ("1", "1", "1", "0", "1", "0", "0", "1"),
)
# The drawing has its own background, so that it can be read whatever the colours of the page are.
STYLE = """
    text { font: 15px system-ui, sans-serif; fill: var(--ink) }
    .title { font-weight: 600 } .small { font-size: 13px; fill: var(--dim) } .middle { text-anchor: middle }
    .box { fill: var(--box); stroke: var(--line) } .cell, .arrow { fill: none; stroke: var(--line) }
    .arrow { stroke: var(--dim) }
    svg { --back: #fff; --ink: #212529; --dim: #495057; --box: #f1f5f5; --line: #adb5bd }
    svg { --part: #00796b; --sample: #b35900 }
    @media (prefers-color-scheme: dark) {
      svg { --back: #1e2129; --ink: #e9ecef; --dim: #ced4da; --box: #2a2f3a; --line: #6c757d }
      svg { --part: #4db6ac; --sample: #ffb366 }
    }
"""


@dataclass(frozen=True)
class Story:
    """What a drawing says: about a part, about a sample, about a cell, and what is seen."""

    part: tuple[str, ...]
    sample: tuple[str, ...]
    cell: tuple[str, ...]
    noise: str
    cells: tuple[tuple[str, ...], ...] = COUNTS
    signed: bool = False


STORIES = {
    "poisson": Story(
        ("w_{fk}: share of feature f", "no prior"),
        ("h_{nk}: counts from part k", "no prior"),
        ("expected count  λ_{nf} = Σ_{k} w_{fk} h_{nk}",),
        "Poisson noise",
    ),
    "empirical-bayes": Story(
        ("w_{fk}: rate of feature f", "prior of the part: learned"),
        ("h_{nk}: activation of part k", "prior of the part: learned"),
        ("expected count  λ_{nf} = Σ_{k} w_{fk} h_{nk}",),
        "Poisson noise",
    ),
    "gamma-poisson": Story(
        ("w_{fk}: rate of feature f", "no prior"),
        ("h_{nk} ~ Gamma(shape_{k}, rate_{k})", "integrated out in the fit"),
        ("expected count  λ_{nf} = Σ_{k} w_{fk} h_{nk}",),
        "Poisson noise",
    ),
    "negative-binomial": Story(
        ("w_{fk}: share of feature f", "no prior"),
        ("h_{nk}: counts from part k", "no prior"),
        ("expected count  λ_{nf} = Σ_{k} w_{fk} h_{nk}", "times noise of the cell  ε_{nf} ~ Gamma(r, r), mean 1"),
        "Poisson noise",
    ),
    "allocation": Story(
        ("w_{·k} ~ Dirichlet(α)", "shares of features, sum 1"),
        ("h_{n·} ~ Dirichlet(β)", "length L_{n} ~ Gamma(a, b)"),
        ("counts of each part, not seen", "S_{nfk} ~ Poisson(w_{fk} h_{nk} L_{n})"),
        "sum over the parts",
        tuple(tuple(value or "0" for value in row) for row in COUNTS),
    ),
    "beta-gamma": Story(
        ("φ_{·k} ~ Dirichlet(η)", "shares of features, sum 1"),
        ("h_{nk} ~ Gamma(r, scale s_{k})", "s_{k} = p_{k} / (1 − p_{k}); near 0: part off"),
        ("expected count  λ_{nf} = Σ_{k} φ_{fk} h_{nk}",),
        "Poisson noise",
    ),
    "binary": Story(
        ("w_{fk}: probability of feature f", "prior: Beta, learned"),
        ("h_{nk}: share of part k", "prior: Dirichlet, learned"),
        ("probability of a yes  p_{nf} = Σ_{k} w_{fk} h_{nk}",),
        "yes with this probability",
        BITS,
    ),
    "logistic-pca": Story(
        ("w_{fk}: any sign", "penalty on its size"),
        ("h_{nk}: any sign", "penalty on its size"),
        ("log odds of a yes  θ_{nf} = μ_{f} + Σ_{k} w_{fk} h_{nk}", "probability  p_{nf} = 1 / (1 + exp(−θ_{nf}))"),
        "yes with this probability",
        BITS,
        signed=True,
    ),
}


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A line of text; what stands in ``_{...}`` is set lower."""
    pieces = re.split(r"_\{(.*?)\}", words)
    lower = '<tspan font-size="11" dy="4">{}</tspan><tspan dy="-4">\u200b</tspan>'
    spans = [(lower if at % 2 else "{}").format(escape(piece)) for at, piece in enumerate(pieces)]
    return f'  <text x="{x:g}" y="{y:g}" class="{kind}">{"".join(spans)}</text>'


def bars(x: float, base: float, heights: tuple[int, ...], colour: str) -> list[str]:
    """A small bar chart; negative heights hang down."""
    return [
        f'  <rect x="{x + 11 * at}" y="{base - max(high, 0)}" width="8" height="{abs(high)}" fill="var(--{colour})"/>'
        for at, high in enumerate(heights)
    ]


def arrow(path: str) -> str:
    """A line with a head."""
    return f'  <path d="{path}" class="arrow" marker-end="url(#head)"/>'


def drawing(name: str, story: Story) -> str:
    """The drawing of a model as SVG."""
    both = story.part, story.sample
    top, height = (58, 92) if story.signed else (66, 92)
    shapes = (
        ((28, 6, -16, 3, -9, 2, -4, 10), (22, -12, 8)) if story.signed else ((36, 3, 20, 2, 11, 2, 4, 24), (34, 8, 20))
    )
    deep = len(story.cell) * 22 + 14
    under = 146 + deep
    tall = under + 142
    lines = []
    thing = "direction" if story.signed else "part"
    for x, title, words, shape, colour in zip(
        (10, 285), (f"Each {thing} k", "Each sample n"), both, shapes, ("part", "sample"), strict=True
    ):
        lines += [
            f'  <rect x="{x}" y="10" width="265" height="{height + 20}" rx="6" class="box"/>',
            text(x + 12, 32, title, "title"),
        ]
        lines += bars(x + 265 - 12 - 11 * len(shape), top, shape, colour)
        lines += [text(x + 12, 90 + 20 * at, line, "" if at == 0 else "small") for at, line in enumerate(words)]
        lines.append(arrow(f"M{x + 132} {height + 30} L{248 if x < 100 else 312} 144"))
    lines.append(f'  <rect x="75" y="146" width="410" height="{deep}" rx="6" class="box"/>')
    lines += [text(280, 168 + 22 * at, line, "middle") for at, line in enumerate(story.cell)]
    lines += [arrow(f"M280 {under} V{under + 34}"), text(292, under + 22, story.noise, "small")]
    for row, values in enumerate(story.cells):
        for column, value in enumerate(values):
            x, y = 152 + 32 * column, under + 38 + 24 * row
            lines += [
                f'  <rect x="{x}" y="{y}" width="32" height="24" class="cell"/>',
                text(x + 16, y + 17, value, "middle"),
            ]
    blank = " A blank cell is missing." if any("" in row for row in story.cells) else ""
    lines.append(text(280, under + 130, f"What you see: samples × features.{blank}", "small middle"))
    said = "; ".join(
        [f"each {thing}: " + ", ".join(story.part), "each sample: " + ", ".join(story.sample), *story.cell, story.noise]
    )
    return page(name, said, tall, lines)


CHOICE = {
    "Counts: 0, 1, 2, …": (
        ("a quick look; also fractions", "PoissonNMF"),
        ("topics of documents, shares, lists", "AllocationNMF (LDA)"),
        ("sparse counts, to score new samples", "GammaPoissonNMF"),
        ("sparse parts with learned priors", "EmpiricalBayesPoissonNMF"),
        ("counts vary more than Poisson noise", "NegativeBinomialNMF"),
        ("to compare with published results", "BetaGammaPFA"),
    ),
    "Yes or no, present or absent": (
        ("parts that you can read", "BinaryNMF"),
        ("prediction only, signs allowed", "LogisticPCA"),
    ),
}


def choice() -> str:
    """Which model suits which data, as SVG."""
    lines, y = [text(12, 30, "What is in a cell of your table?", "title")], 46
    for kind, models in CHOICE.items():
        deep = 34 + 30 * len(models)
        lines += [
            f'  <rect x="10" y="{y}" width="540" height="{deep}" rx="6" class="box"/>',
            text(22, y + 23, kind, "title"),
        ]
        for at, (want, model) in enumerate(models):
            row = y + 50 + 30 * at
            lines += [text(22, row, want, "small"), arrow(f"M276 {row - 5} H292"), text(298, row, model, "title")]
        y += deep + 12
    said = "; ".join(f"{want}: {model}" for models in CHOICE.values() for want, model in models)
    return page("Which model should I use?", said, y, lines)


def page(name: str, said: str, tall: int, lines: list[str]) -> str:
    """A drawing with its title, style and background."""
    head = '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {tall}" width="560" height="{tall}" role="img">',
        f"  <title>{escape(name)}: {escape(re.sub('[{}]', '', said))}</title>",
        f"  <style>{STYLE}  </style>",
        f'  <defs>{head}<path d="M0 0 L10 5 L0 10 z" fill="var(--dim)"/></marker></defs>',
        f'  <rect width="560" height="{tall}" rx="8" fill="var(--back)"/>',
        *lines, "</svg>", ""])  # fmt: skip


def main(folder: Path = FOLDER) -> None:
    """Write all drawings."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, story in STORIES.items():
        (folder / f"{name}.svg").write_text(drawing(name, story), encoding="utf-8")
    (folder / "which-model.svg").write_text(choice(), encoding="utf-8")


if __name__ == "__main__":
    main(*(Path(one) for one in sys.argv[1:]))
