"""Parts that are given in a file, brought into the order of the data's features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.io import Table
    from partwise.storage.mapped_counts import MappedCounts


@dataclass(frozen=True, eq=False)
class GivenParts:
    """Components x features, and the names of parts and features if there are any."""

    components: Any
    part_names: Any
    feature_names: Any


def read_parts(path: Path) -> GivenParts:
    """Parts from a model file, or from a table of features x parts such as ``--parts`` writes.

    Parameters
    ----------
    path
        A model file of partwise, or any file that `partwise.read` reads: a row a feature, a column a part.
    """
    import numpy as np

    from partwise.cli.sniff import is_safetensors
    from partwise.contract.model_file import load
    from partwise.core.coerce import as_table
    from partwise.io import read

    if is_safetensors(path):
        model = load(path)
        return GivenParts(model.components_, model.known_parts, model.known_features)
    table = read(path)
    components = as_table(table).matrix.toarray().T.astype(np.float64)
    names = None if table.column_labels is None else [str(name) for name in table.column_labels]
    return GivenParts(components, names, table.row_labels)


def in_order_of(parts: GivenParts, table: Table | MappedCounts, path: Path) -> Any:
    """The components with their features in the order of the data, by name where both have names.

    Parameters
    ----------
    parts
        What was read.
    table
        The data.
    path
        Where the parts came from, for messages.
    """
    import numpy as np

    from partwise.errors import InvalidInputError

    n_features = table.shape[1]
    if parts.feature_names is None or table.column_labels is None:
        if parts.components.shape[1] != n_features:
            raise InvalidInputError(
                f"{path} has parts of {parts.components.shape[1]} features, but the data have {n_features}; give parts "
                "of the same features (a row a feature), or --transpose the data."
            )
        return parts.components
    wanted = [str(name) for name in table.column_labels]
    if wanted == _original_names(parts.feature_names):  # names may then repeat, as those of genes do
        return parts.components
    positions = _positions(parts.feature_names, path)
    absent = [name for name in wanted if name not in positions]
    if absent:
        raise InvalidInputError(
            f"{path} has no feature {absent[0]!r}, which the data have ({len(absent)} such features in all); give "
            "parts of the same features, or --transpose the data."
        )
    if len(positions) > n_features:
        surplus = sorted(set(positions) - set(wanted))
        raise InvalidInputError(
            f"{path} has a feature {surplus[0]!r} that the data lack ({len(surplus)} such features in all); give parts "
            "of the same features, or add them to the data, as zeros if they were observed."
        )
    return np.ascontiguousarray(parts.components[:, [positions[name] for name in wanted]])


def _original_names(names: Any) -> list[str]:
    """The names without the apostrophe that our own tables have before those that a spreadsheet would run."""
    from partwise.io.writers.text import neutralised

    texts = [str(name) for name in names]
    return [text[1:] if text.startswith("'") and neutralised(text[1:]) == text else text for text in texts]


def _positions(names: Any, path: Path) -> dict[str, int]:
    from partwise.errors import InvalidInputError

    positions: dict[str, int] = {}
    for position, name in enumerate(_original_names(names)):
        if name in positions:
            raise InvalidInputError(f"{path} has the feature {name!r} twice; remove one of the rows.")
        positions[name] = position
    return positions
