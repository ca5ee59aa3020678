"""Real data in every installation: scikit-learn's digits, and the help texts of Python's standard library.

Also, the swimmer of Donoho & Stodden (2004): a torso, and four limbs in four positions each.
"""

import itertools
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from partwise.errors import InvalidInputError
from partwise.io import Table

DIGIT_SHAPE = (8, 8)
"""Height and width of a digit's picture."""

_DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_SHORTEST_TEXT = 1500  # characters; a shorter text says too little about its topic
_LEFT_OUT = frozenset({"distutils", "encodings", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "test", "tests"})
# Words that occur in any help text, whatever its topic.
_PYTHON_WORDS = (
    "arg args argument arguments bool called calls class classes default def exception false function functions given "
    "instance int method methods module name names none note object objects optional parameter parameters python "
    "raise raised raises return returned returns self set specified str true type types use used using value values"
)


def digits() -> Table:
    """Handwritten digits as counts: 1797 pictures of 8 x 8 pixels, each from 0 to 16.

    The data come with scikit-learn. A pixel counts the dots of ink in a 4 x 4 square of the scanned digit.

    Returns
    -------
    Table
        Samples x pixels, row by row (`DIGIT_SHAPE` is the shape of a picture). Row labels are the digits written.

    Examples
    --------
    >>> from partwise.datasets import digits
    >>> digits().shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    height, width = DIGIT_SHAPE
    return Table(
        sp.csr_array(bunch.data.astype(np.uint8)),
        row_labels=np.array([str(digit) for digit in bunch.target]),
        column_labels=np.array([f"row {row} column {column}" for row in range(height) for column in range(width)]),
        source="scikit-learn's digits",
    )


def python_topics() -> Table:
    """Word counts of the help texts of Python's standard library: modules x words.

    The texts are the docstrings in the library's source files, which are read, not imported. They depend only on the
    version of Python.

    Words that occur in fewer than three modules, or in more than 30% of them, are left out. So are English stop words
    and Python's own words ("argument", "method", ...).

    Returns
    -------
    Table
        Sparse counts with modules and words as labels.

    Examples
    --------
    >>> from partwise.datasets import python_topics
    >>> "socket" in python_topics().column_labels
    True
    """
    texts = {name: text for name, text in _help_texts() if len(text) >= _SHORTEST_TEXT}
    if not texts:
        raise InvalidInputError(
            "the sources of Python's standard library are not installed here, so there are no help texts to count; "
            "use another data set."
        )
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    stop_words = sorted(ENGLISH_STOP_WORDS.union(_PYTHON_WORDS.split()))
    counter = CountVectorizer(stop_words=stop_words, token_pattern=r"\b[a-z]{3,}\b", min_df=3, max_df=0.3)
    counts = counter.fit_transform(texts.values())
    words = np.array(counter.get_feature_names_out(), dtype=np.str_)
    return Table(sp.csr_array(counts), np.array(list(texts)), words, source="Python's help texts")


def _help_texts() -> Iterator[tuple[str, str]]:
    """Names and docstrings of the public modules of the standard library, in alphabetical order."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        if name.startswith("_"):
            continue
        for path in [library / f"{name}.py", *sorted((library / name).rglob("*.py"))]:
            parts = path.relative_to(library).with_suffix("").parts
            private = any(part in _LEFT_OUT or (part.startswith("_") and part != "__init__") for part in parts)
            if not private and path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                yield ".".join(part for part in parts if part != "__init__"), "\n".join(_DOCSTRING.findall(text))


SWIMMER_SHAPE = (32, 32)

_TOP, _BOTTOM, _MIDDLE = 10, 21, 15
_LIMB_PIXELS = 6
# Rows run downwards. Columns are those of a left limb, mirrored for a right one.
_ARM_STEPS = ((-1, 0), (-1, -1), (0, -1), (1, -1))


class Swimmer(NamedTuple):
    """Pictures (256 x 1024 counts), the 17 parts (17 x 1024, zeros and ones) and which are in each picture (256 x 17).

    The torso is the last part. Limb l in position p is part 4 l + p.
    """

    counts: NDArray[np.int64]
    parts: NDArray[np.int64]
    present: NDArray[np.int64]


def swimmer(level: int = 1) -> Swimmer:
    """All 256 pictures of a swimmer, 32 x 32 pixels: the torso, and each of four limbs in one of four positions.

    The parts have no pixel in common. The torso is in every picture, so exact decompositions are not unique: the torso
    can be hidden in the limbs.

    Parameters
    ----------
    level
        Count of a pixel that is on.

    Examples
    --------
    >>> from partwise.datasets import swimmer
    >>> counts, parts, present = swimmer()
    >>> counts.shape, parts.sum(axis=1)[-2:].tolist(), bool((counts == present @ parts).all())
    ((256, 1024), [6, 16], True)
    """
    if level < 1:
        raise InvalidInputError(f"level must be a count of at least 1, got {level}.")
    parts = np.zeros((17, *SWIMMER_SHAPE), dtype=np.int64)
    for limb, (joint, down, side) in enumerate(((_TOP, 1, -1), (_TOP, 1, 1), (_BOTTOM, -1, -1), (_BOTTOM, -1, 1))):
        for position, (row_step, column_step) in enumerate(_ARM_STEPS):
            steps = np.arange(1, _LIMB_PIXELS + 1)
            rows = joint + down * row_step * steps
            columns = _MIDDLE + side - side * column_step * steps
            parts[4 * limb + position, rows, columns] = 1
    parts[16, _TOP : _BOTTOM + 1, _MIDDLE] = 1
    parts[16][np.ix_((_TOP, _BOTTOM), (_MIDDLE - 1, _MIDDLE + 1))] = 1
    present = np.ones((256, 17), dtype=np.int64)
    present[:, :16] = np.reshape(list(itertools.product(np.eye(4), repeat=4)), (256, 16))
    flat = parts.reshape(17, -1)
    return Swimmer(level * present @ flat, flat, present)
