"""Measures what people read: the length of sentences, and words that have a plainer or agreed name.

``python docs/prose.py`` prints what to mend in README, pages, messages, reports, docstrings; ``--all`` adds comments.
The docs build and ``tests/test_prose.py`` fail on what it finds.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
LONGEST = 35  # words in a sentence
MEDIAN = 20
# Pages for readers with a job to do. The limit on the median applies to these.
GUIDES = ("README.md", "docs/index.md", "docs/tutorials/", "docs/how-to/")
APPENDIX = ("docs/papers/", "docs/extend/", "docs/reference/changelog.md", "CHANGELOG.md", "CONTRIBUTING.md")

_UNIT = "(?:nats?|(?:milli)?seconds|ms|ns|bytes|numbers|counts|tokens|particles|log-likelihood|log p|one)"
_ONE = "(?:[Aa]n?|[Oo]ne|[Tt]wo|[Tt]hree|[Ee]ight)"
_THING = (
    "(?:line|bar|panel|task|file|fit|draw|step|column|row|colour|name|entry|chain|thread|circle|folder|seed|point"
    "|number|label|sum|sweep|pass|cell)(?:e?s)?"
)
# What not to write, and what to write instead.
BANNED = {
    rf"\b(?:{_UNIT}|{_ONE} {_THING}) an? (?!time\b|few\b|little\b|lot\b)[a-z-]+\b": (
        "'per': 'nats per token', 'one line per fit'"
    ),
    r"\b(?:same|equal|identical) bits\b|(?<!_)\bto the bit\b|\bchanges? no bit\b|\bbits of one that\b": (
        "'reproducible bit for bit', 'the same result bit for bit'"
    ),
    r"\bholes?\b|\bholed\b|\bhidden cells?\b": "missing cell, held-out cell",
    r"\bnumbers of (?:parts|components)\b": "'number of parts' in the singular",
    r"\bknows? missing\b": "handles missing cells",
    r"\bas many as were asked for\b|\bended as asked\b": "'Ran the ... you asked for'",
    r"\bEnded after\b": "'Converged after', 'Stopped early after' or 'Ran the ...'",
    r"\bto go on with\b|\btaken? up (?:again|later)\b|\btakes? (?:it|them) up\b": "'continue', 'resume'",
    r"\banew\b": "again",
    r"\bgone over\b|\bgoes over\b|\bgo over\b": "'visit', 'process'",
    r"\bat hand\b": "current",
    r"\bby the way\b": "'also'",
    r"\bis to be had\b|\bare to be had\b": "is available",
    r"\btimes better\b": "'12% worse', '4 times faster'",
    r"\bhad better\b": "should",
    r"\bnobody's\b|\bheirs\b": "plain words",
    r"\bworked on\b": "processed",
    r"\bof (?:yours|its own|their own|your own)\b.*\bof (?:yours|its own|their own|your own)\b": "say it once",
    r"\bon-line\b(?! expectation-maximization)": "online",
    r"\bbeside others\b": "'compared with other tools'",
    r"\b(?:isn't|aren't) wanted\b|\bare wanted\b|\bwanted are\b": "'need', 'required'",
    r"\bfitted anew\b": "refitted",
    r"(?<!principal )(?<!mixture )(?<![-_\"])\bcomponents?\b(?![-\"])": "'part' ('mixture component' of a prior)",
    r"(?<![-_])\branks?\b(?!-|=| must\b| (?:1|K|one)\b)": "'number of parts', 'place' in a list, 'order' or 'compare'",
    r"\ba share worth naming\b": "'a noticeable share'",
    r"\bgreater is better\b": "'higher is better'",
    r"\bhelps? you to\b": "'helps you choose'",
}
# Experiments of the papers keep the papers' words. Inside priors, a component is always one of a mixture.
# Kernels keep the word component too, which their code uses throughout.
EXEMPT = ("src/partwise/reproduce/", "src/partwise/priors/")
_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|al|vs|cf|etc|Fig|Eq|No|approx|resp)\.$")
_END = re.compile(r"(?<=[.!?…])[\"')\]*_]*\s+(?=[\"'(\[*_]*[A-Z0-9`‘“])")


@dataclass(frozen=True)
class Sentence:
    """A sentence and where it stands."""

    text: str
    place: str
    counted: bool = True  # does it enter the median? Cells of tables and summaries in one phrase do not

    @property
    def n_words(self) -> int:
        """Words; a piece of code, a number and a formula in one piece are one each."""
        return len(re.findall(r"[\w'’./%$-]*\w[\w'’./%$-]*", self.text))


def sentences(text: str, place: str, counted: bool = True) -> Iterator[Sentence]:
    """The sentences of a paragraph."""
    text = re.sub(r"\s+", " ", text).strip()
    pieces: list[str] = []
    for piece in _END.split(text):
        if pieces and _ABBREVIATIONS.search(pieces[-1]):
            pieces[-1] += " " + piece
        else:
            pieces.append(piece)
    yield from (Sentence(piece, place, counted) for piece in pieces if re.search("[A-Za-z]", piece))


def plain(text: str) -> str:
    """Markdown without its marks; code is one word."""
    text = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)(?:\{[^}]*\})?", r"\1", text)
    text = re.sub(r"``?[^`]+``?", "CODE", text)
    return re.sub(r"\*\*|(?<!\w)\*|\*(?!\w)|~", "", text)


def of_page(path: Path) -> Iterator[Sentence]:
    """The prose of a Markdown page: paragraphs, list items and cells of tables, without code and headings."""
    text = re.sub(
        r"<!--.*?-->|<svg.*?</svg>", lambda m: "\n" * m[0].count("\n"), path.read_text("utf-8"), flags=re.DOTALL
    )
    fenced, paragraph, start, blank = False, [], 1, True
    name = path.relative_to(ROOT).as_posix()

    def flush() -> Iterator[Sentence]:
        yield from sentences(plain(" ".join(paragraph)), f"{name}:{start}")
        paragraph.clear()

    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        if bare.startswith("```"):
            yield from flush()
            fenced = not fenced
        elif fenced or bare.startswith(("#", "--8<--", ":::", "!!!", "???", "<")):
            yield from flush()
        elif bare.startswith("|"):
            yield from flush()
            cells = [cell for cell in bare.strip("|").split("|") if not re.fullmatch(r"[\s:-]*", cell)]
            for cell in cells:
                yield from sentences(plain(cell), f"{name}:{number}", counted=False)
        elif not bare or (line.startswith("    ") and blank and not paragraph):
            yield from flush()
        else:
            if re.match(r"\s*(?:[-*+]|\d+\.|:|\[\^\w+\]:)\s", line):
                yield from flush()
                bare = re.sub(r"^(?:[-*+]|\d+\.|:|\[\^\w+\]:)\s+", "", bare)
            if not paragraph:
                start = number
            paragraph.append(bare)
        blank = not bare or (blank and line.startswith("    "))
    yield from flush()


def _literal(node: ast.expr) -> str | None:
    """The text of a string, with a word for each value that is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values)
    return None


def of_source(path: Path) -> Iterator[Sentence]:
    """The messages of a module: its strings of four words or more that read like a sentence."""
    tree = ast.parse(path.read_text("utf-8"))
    name = path.relative_to(ROOT).as_posix()
    skip: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _literal(node.value) is not None:
            skip.add(id(node.value))  # docstrings
        if isinstance(node, ast.JoinedStr):
            skip.update(id(child) for child in ast.walk(node) if child is not node)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in skip:
            text = _literal(node)
            if text and len(text.split()) >= 4 and not re.search(r"[{}<>;]\s*$|^\s*[<{]|https?://|^[a-z ]{80,}$", text):
                for paragraph in re.split(r"\n\s*\n|\n(?=\s*[\$•-])", text):
                    if not paragraph.lstrip().startswith("$"):
                        yield from sentences(plain(paragraph), f"{name}:{node.lineno}")


def of_asset(path: Path) -> Iterator[Sentence]:
    """The words of the page of a report, and those that its scripts write: strings of four words or more."""
    text = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".html":
        found = [(text[: match.start()].count("\n") + 1, match[1]) for match in re.finditer(r">([^<>]+)<", text)]
    else:
        strings = r"\"([^\"\n]*)\"|`([^`]*)`"
        lines = enumerate(text.splitlines(), 1)
        found = [(n, one[0] or one[1]) for n, line in lines for one in re.findall(strings, line.split("//")[0])]
    for line, words in found:
        said = re.sub(r"\$\{[^}]*\}|\$\w+", "X", words)
        if len(re.findall(r"[A-Za-z]{2,}", said)) >= 4 and not re.search(r"[{}()\[\]=;]{2}|=>|: *\(", said):
            yield from sentences(said, f"{name}:{line}")


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a docstring, and what lists say about each name; without examples, formulas and tables."""
    found: list[str] = []
    lines, formula, after = re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines(), False, ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        set_in = line.startswith("    ")
        named = bool(line) and not set_in and following.startswith("    ")  # a name of a list stands alone on its line
        if not line.strip() or line.lstrip().startswith("|") or re.fullmatch("-+", line.strip()) or named:
            yield " ".join(found)
            found = []
        elif not (formula := set_in and (formula or not after.strip())) and not line.lstrip().startswith(
            (">>>", "...")
        ):
            found.append(line.strip())
        after = line
    yield " ".join(found)


def docstrings(path: Path) -> Iterator[Sentence]:
    """The prose of docstrings, the lists of parameters included."""
    source = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            line = node.body[0].lineno
            for paragraph in _paragraphs(text):
                yield from sentences(plain(paragraph), f"{name}:{line}", counted=False)


def comments(path: Path) -> Iterator[Sentence]:
    """The prose of comments of a line or more."""
    source = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    comment: list[str] = []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        match = re.match(r"\s*# (.*)", line)
        if match:
            comment.append(match[1])
        elif comment:
            yield from sentences(plain(" ".join(comment)), f"{name}:{number - len(comment)}", counted=False)
            comment = []


def faults(found: list[Sentence]) -> list[str]:
    """What to mend: banned words, and sentences that are too long."""
    wrong = []
    for one in found:
        for pattern, instead in BANNED.items():
            if (one.place.startswith(EXEMPT) or "kernels" in one.place) and (
                "component" in pattern or "rank" in pattern
            ):
                continue
            if match := re.search(pattern, one.text, re.IGNORECASE):
                wrong.append(f"{one.place}: '{match[0]}': write {instead}")
        if one.n_words > LONGEST:
            wrong.append(f"{one.place}: {one.n_words} words: {one.text}")
    return wrong


def pages() -> list[Path]:
    """README and the pages of the site."""
    root = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*root, *sorted((ROOT / "docs").rglob("*.md"))]


def groups() -> dict[str, list[Sentence]]:
    """All prose, by what it is for."""
    found: dict[str, list[Sentence]] = {"guides": [], "pages": [], "appendix": [], "messages": [], "docstrings": []}
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        kind = "guides" if name.startswith(GUIDES) else "appendix" if name.startswith(APPENDIX) else "pages"
        found[kind] += of_page(page)
    for module in sorted((ROOT / "src").rglob("*.py")):
        found["messages"] += of_source(module)
        found["docstrings"] += docstrings(module)
    for asset in sorted((ROOT / "src" / "partwise" / "reporting" / "assets").iterdir()):
        if asset.suffix in (".html", ".js"):
            found["messages"] += of_asset(asset)
    return found


def check() -> list[str]:
    """Everything that README, pages and messages must mend."""
    found = groups()
    wrong = [fault for all_of_it in found.values() for fault in faults(all_of_it)]
    for name in ("guides", "messages"):
        middle = median(one.n_words for one in found[name] if one.counted)
        if middle > MEDIAN:
            wrong.append(f"{name}: the median sentence has {middle} words, {MEDIAN} at most are asked for")
    return wrong


def on_pre_build(config: object) -> None:
    """Stop the docs build where there is something to mend."""
    if wrong := check():
        from mkdocs.exceptions import PluginError

        raise PluginError("\n".join(wrong))


def main() -> int:
    """Print what to mend, and how long sentences are."""
    found = groups()
    wrong = check()
    if "--all" in sys.argv:
        for module in sorted((ROOT / "src").rglob("*.py")):
            wrong += faults(list(comments(module)))
    for line in wrong:
        print(line)
    for name, all_of_it in found.items():
        lengths = [one.n_words for one in all_of_it if one.counted or name == "docstrings"]
        print(f"{name}: {len(lengths)} sentences, median {median(lengths)} words, longest {max(lengths)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
