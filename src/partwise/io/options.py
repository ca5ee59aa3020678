"""What a reader may be told, beyond the name of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from partwise.errors import InvalidInputError

Duplicates = Literal["refuse", "sum"]
LabelSource = str | Path | Sequence[str]


@dataclass(frozen=True)
class ReadOptions:
    """Options of `partwise.io.read`, which documents them; ``limit`` is the memory limit in bytes."""

    limit: int
    layer: str | None = None
    vocabulary: LabelSource | Literal[False] | None = None
    row_labels: LabelSource | Literal[False] | None = None
    header: bool = True
    index: bool = True
    delimiter: str | None = None
    long_columns: Sequence[str | int] | None = None
    duplicates: Duplicates = "refuse"
    feature_column: Literal["name", "id"] = "name"

    def given(self) -> set[str]:
        """Names of the options that differ from their defaults."""
        optional = [field for field in fields(self) if field.name != "limit"]
        return {field.name for field in optional if not _same(getattr(self, field.name), field.default)}

    def check(self) -> None:
        """Refuse values that no reader understands."""
        if self.duplicates not in {"refuse", "sum"}:
            raise InvalidInputError(f"duplicates={self.duplicates!r} is unknown; give 'refuse' or 'sum'.")
        if self.feature_column not in {"name", "id"}:
            raise InvalidInputError(f"feature_column={self.feature_column!r} is unknown; give 'name' or 'id'.")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise InvalidInputError(f"delimiter={self.delimiter!r} must be one character, and not a quote or line end.")
        if self.long_columns is not None and (
            isinstance(self.long_columns, str) or len(self.long_columns) not in {2, 3}
        ):
            raise InvalidInputError(
                f"long_columns={self.long_columns!r} must list the row, column and value columns (or row and column "
                "alone, each line then counting 1)."
            )


def _same(value: object, default: object) -> bool:
    """Equal, for values whose comparison may be an array."""
    return value is default or (isinstance(value, str) and value == default)
