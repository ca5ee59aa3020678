"""``partwise count``: texts to a table of documents x words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from partwise.cli.files import check_outputs, is_safetensors
from partwise.cli.options import option, to_write
from partwise.cli.output import Outcome, refuse_if

if TYPE_CHECKING:
    from partwise.text.counting import Wanted

EXAMPLES = (
    "partwise count articles/ -o counts.npz --stop-words english --min-df 5",
    "partwise count posts.csv -o counts.npz --text-column body --id-column id --time-column year",
    "partwise count articles/ -o new_counts.npz --vocabulary counts.npz",
)


@dataclass(frozen=True)
class ColumnArguments:
    """Columns of a table of texts."""

    text_column: str | None = option("Column that holds the text.")
    id_column: str | None = option("Column that names the document.")
    group_column: str | None = option("Column with the group of each document.")
    time_column: str | None = option("Column with the time of each document.")


@dataclass(frozen=True)
class WordArguments:
    """Which words are counted."""

    min_df: str = option("Leave out words in fewer than N documents: a number or a share like 0.01.", "2", metavar="N")
    max_df: str = option("Leave out words in more than N documents: a number or a share like 0.5.", "1.0", metavar="N")
    max_features: int | None = option("Keep only this many words, those with the highest counts.", min=1)
    stop_words: str | None = option("Words to leave out: English ones, or those in a file.", metavar="english|FILE")
    ngrams: str = option("Lengths of the word sequences to count: 1-2 counts words and pairs.", "1", metavar="N|N-M")
    token_pattern: str | None = option("Pattern of a word; by default two or more letters or digits.", metavar="REGEX")
    vocabulary: Path | None = option("Count only the words of this model or .npz file, or those in a text file.")

    def wanted(self) -> Wanted:
        """Arguments for `count_texts`."""
        from partwise.text.counting import TOKEN_PATTERN, Wanted

        return Wanted(
            _threshold(self.min_df, "--min-df"),
            _threshold(self.max_df, "--max-df"),
            self.max_features,
            self.stop_words,
            _lengths(self.ngrams),
            TOKEN_PATTERN if self.token_pattern is None else self.token_pattern,
            None if self.vocabulary is None else _vocabulary(self.vocabulary),
        )


def command(
    source: Path = typer.Argument(
        ...,
        metavar="SOURCE",
        help="Folder of .txt files, a .csv, .tsv, .jsonl (.gz) or .parquet file, or a .txt file of one text per line.",
    ),
    *,
    output: Path = to_write("The counts to write, .npz.", default=...),
    columns: ColumnArguments,
    words: WordArguments,
    keep_texts: bool = option("Write the texts into the file as well, for reports to show.", False),
    encoding: str = option("Encoding of text files.", "utf-8"),
) -> Outcome:
    """Count the words of texts.

    Writes counts, words, names of documents, groups and times to one .npz file, which every command reads. Words are
    found as scikit-learn's CountVectorizer finds them. Texts may be larger than memory.
    """
    from partwise.text.counting import counted
    from partwise.text.documents import Columns

    refuse_if(output.suffix.lower() != ".npz", "--output", f"{output} does not end in .npz.")
    check_outputs({"--output": output}, [source, words.vocabulary])
    _check_encoding(encoding)
    named = Columns(columns.text_column, columns.id_column, columns.group_column, columns.time_column)
    with counted(source, named, words.wanted(), keep_texts=keep_texts, encoding=encoding) as found:
        found.write(output)
    n_documents, n_words = len(found.names), found.words.size
    facts: dict[str, Any] = {
        "source": source,
        "n_documents": n_documents,
        "n_words": n_words,
        "n_tokens": found.kept_tokens,
        "n_words_found": found.n_words,
        "n_tokens_found": found.n_tokens,
        "n_empty_documents": found.empty,
        "metadata": list(found.metadata),
        "written": [output],
    }
    lines = [
        f"{n_documents} documents x {n_words} words, {found.kept_tokens} tokens"
        f" (of {found.n_words} words and {found.n_tokens} tokens found)"
    ]
    if found.empty:
        lines.append(f"{found.empty} documents have none of these words")
    if found.metadata:
        lines.append(f"kept about each document: {', '.join(found.metadata)}")
    model = words.vocabulary if words.vocabulary is not None and is_safetensors(words.vocabulary) else None
    fit, apply = f"fit {output} -o topics.partwise --model lda -k 20", f"transform {model} {output} -o activations.csv"
    return Outcome(facts, lines, [output], [f"next: partwise {fit if model is None else apply}"])


def _threshold(text: str, option: str) -> int | float:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number of documents nor a share.", param_hint=option) from None


def _lengths(text: str) -> tuple[int, int]:
    least, _, most = text.partition("-")
    whole = least.isdecimal() and (most or least).isdecimal()
    refuse_if(not whole, "--ngrams", f"{text!r} is not a length such as 1, or a range such as 1-2.")
    return int(least), int(most or least)


def _check_encoding(name: str) -> None:
    import codecs

    try:
        codecs.lookup(name)
    except LookupError:
        raise typer.BadParameter(f"{name!r} is not a known encoding: try utf-8.", param_hint="--encoding") from None


def _vocabulary(path: Path) -> Any:
    """Words of a model, of counts, or a file of words."""
    from partwise.contract.model_file import load
    from partwise.errors import InvalidInputError
    from partwise.io import read

    if is_safetensors(path):
        words = load(path).known_features
    elif path.suffix.lower() == ".npz":
        words = read(path).column_labels
    else:
        return path
    if words is None:
        raise InvalidInputError(f"{path} has no names of words: give a file with one word per line.")
    return words
