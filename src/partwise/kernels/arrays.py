"""Names for the types of arrays and words that kernels take."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Positions = Integers
Bools = NDArray[np.bool_]
Places = NDArray[np.intp]
"""Positions that NumPy gives and takes, such as those of ``argsort``."""
Singles = NDArray[np.float32]
Starts = NDArray[np.int64]
"""Where rows start in a list of cells or of tokens, with the end of the last."""
Indices = NDArray[np.int32]
Counts = NDArray[np.int32]
LongCounts = NDArray[np.int64]
Numbers = NDArray[Any]
"""Values of cells, or labels: of whichever type is the smallest that holds them."""
Pair = tuple[Floats, Floats]
Triple = tuple[Floats, Floats, Floats]
Word = np.uint64
"""One of the three words of a key."""
Words = tuple[Word, Word, Word]
"""A key."""
Cells = tuple[Starts, Indices, Numbers]
"""Where each row starts, the columns of its stored cells, and their values."""
Missing = tuple[Starts, Indices]
"""The same of missing cells."""
