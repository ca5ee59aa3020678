"""One fuzzer for everything that comes from outside: mutated files, forged models, odd arrays.

Whatever comes, the answer is a result without NaN or one sentence (a PartwiseError, or the system's word on a file).
Cases are numbered: a failure names its number, and `run_case(number, folder)` repeats it.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import partwise
from partwise.contract import model_file
from partwise.errors import PartwiseError
from partwise.io import write_matrix
from partwise.io.arrays import load_arrays, save_arrays

ALLOWED = (PartwiseError, FileNotFoundError, PermissionError, TypeError)
COUNTS = np.array([[3, 0, 1], [0, 2, 5], [4, 1, 0], [1, 1, 1]])
NUMBERS = [0, -1, 1e308, -1e308, 5e-324, np.nan, np.inf, 2**53 + 1, 2**63, 1e100, 0.5, 10**400]
NAMES = ["a.csv", "a.tsv", "a.npz", "a.npy", "a.mtx", "a.csv.gz"]


def check_result(value: Any) -> None:
    array = np.asarray(value, dtype=np.float64)
    assert np.isfinite(array).all(), f"not finite: {array}"


def mutated_file(dice: random.Random, folder: Path) -> None:
    """A good file with some bytes changed, cut, doubled or replaced by words of other files."""
    path = folder / dice.choice(NAMES)
    write_matrix(path, partwise.Table(COUNTS, column_labels=np.array(["a", "b", "c"])))
    content = bytearray(path.read_bytes())
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(content) + 1)
        words = [b"", b"\0", b"\xff", b",", b";", b"\n", b"-", b"1e999", b"9007199254740993", b'"', b"nan", b"%", b" "]
        end = at + dice.choice([0, 1, 2, len(content)])
        content[at:end] = dice.choice([dice.choice(words), bytes([dice.randrange(256)]), bytes(content[at:end]) * 2])
    path.write_bytes(bytes(content))
    table = partwise.read(path)
    data = partwise.CountMatrix.build(table, integers=False)
    check_result(data.values)


def odd_array(dice: random.Random, folder: Path) -> None:
    """An array of odd numbers, shape, type or container, to a model."""
    shape = dice.choice([(3, 2), (1, 1), (0, 2), (2, 0), (3,), (2, 2, 2), (5, 4)])
    values = [dice.choice([1, 2, 0, 3, dice.choice(NUMBERS)]) for _ in range(int(np.prod(shape)))]
    X: Any = np.array(values, dtype=object).reshape(shape)
    form = dice.choice(["object", "float", "int", "list", "sparse", "masked", "text", "dates"])
    with np.errstate(all="ignore"):
        try:
            if form in {"float", "sparse", "masked"}:
                X = X.astype(np.float64)
            elif form == "int":
                X = X.astype(np.int64)
            elif form == "text":
                X = X.astype(str)
            elif form == "dates":
                X = np.full(shape, np.datetime64("2020-01-01"))
        except (OverflowError, ValueError):
            pass
    if form == "list":
        X = X.tolist()
    elif form == "sparse" and X.ndim == 2 and X.dtype != object:
        X = dice.choice([sp.csr_array, sp.coo_array, sp.csc_array])(X)
    elif form == "masked" and X.dtype != object:
        X = np.ma.masked_greater(X, 2)
    name = dice.choice(["PoissonNMF", "PoissonNMF", "LogisticPCA", "EmpiricalBayesPoissonNMF"])
    model = getattr(partwise, name)(1, max_iter=2, random_state=0).fit(X)
    check_result(model.components_)


def forged_model(dice: random.Random, folder: Path) -> None:
    """A model file of which arrays or facts were changed, with the checksum of the change."""
    goldens = sorted((Path(__file__).parent / "goldens" / "0.1.0").glob("*.partwise"))
    arrays, metadata = load_arrays(dice.choice(goldens))
    metadata.pop("checksum")
    for _ in range(dice.randrange(1, 4)):
        name = dice.choice(sorted(arrays))
        kind = dice.choice(["number", "shape", "type", "gone", "fact", "fact"])
        array = np.array(arrays[name])
        if kind == "fact":
            part = metadata[dice.choice(["parameters", "attributes"])]
            key = dice.choice(sorted(part))
            values = [1e308, -1.0, 0, None, "text", True, [], {"kind": "array"}, 10**30, float("nan")]
            part[key] = dice.choice(
                [{"kind": "value", "value": dice.choice(values)}, {"kind": "tuple", "items": []}, 7]
            )
        elif kind == "number" and array.size and array.dtype.kind in "fi":
            with np.errstate(all="ignore"):
                array.flat[dice.randrange(array.size)] = dice.choice(
                    [-1, 7] if array.dtype.kind == "i" else NUMBERS[:-1]
                )
            arrays[name] = array
        elif kind == "shape":
            arrays[name] = array.ravel()[: dice.randrange(array.size + 1)]
        elif kind == "type" and array.dtype.kind in "fi":
            arrays[name] = array.astype(dice.choice([np.float32, np.int8, np.bool_]))
        elif kind == "gone" and len(arrays) > 1:
            arrays.pop(name)
    path = folder / "forged.partwise"
    try:
        checksum = model_file._checksum(metadata, arrays)
    except TypeError:  # what JSON cannot hold cannot be in a file
        return
    save_arrays(path, arrays, {**metadata, "checksum": checksum})
    model = partwise.load(path)
    X = COUNTS[:, [0, 1, 2] * 10][:, : model.n_features_in_]
    check_result(model.transform((X > 0).astype(int) if model.declares.data == "bits" else X))


KINDS: list[Callable[[random.Random, Path], None]] = [mutated_file, odd_array, forged_model]


def run_case(number: int, folder: Path) -> None:
    """Run one case: it must give a result, or one sentence."""
    kind = KINDS[number % len(KINDS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kind(random.Random(number), folder)
        except ALLOWED:
            pass
        except Exception as error:
            raise AssertionError(f"case {number} ({kind.__name__}) gave {type(error).__name__}: {error}") from error


def test_a_few_cases(tmp_path: Path) -> None:
    for number in range(240):
        run_case(number, tmp_path)


def test_forged_models(tmp_path: Path) -> None:
    """The shape of a gamma prior at 1e308 once gave scores of NaN."""
    golden = Path(__file__).parent / "goldens" / "0.1.0" / "GammaPoissonNMF.partwise"
    arrays, metadata = load_arrays(golden)
    metadata.pop("checksum")
    (name,) = [name for name in arrays if name.endswith("attribute/shape_")]
    arrays[name] = np.full_like(arrays[name], 1e308)
    save_arrays(tmp_path / "m", arrays, {**metadata, "checksum": model_file._checksum(metadata, arrays)})
    with pytest.raises(PartwiseError, match=r"shape_ holds numbers .*beyond 1e\+100"):
        partwise.load(tmp_path / "m")


@pytest.mark.slow
def test_ten_thousand_cases(tmp_path: Path) -> None:
    for number in range(10_000):
        run_case(number, tmp_path)
