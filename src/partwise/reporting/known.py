"""What is known about the samples of a report: groups, times and texts, given or kept in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partwise.errors import InvalidInputError
from partwise.io.table import Table
from partwise.plotting.order import checked_groups


@dataclass(frozen=True)
class Known:
    """The group, time and text of each sample; None where they are not known."""

    groups: list[str] | None = None
    times: list[str] | None = None
    texts: list[str] | None = None

    @classmethod
    def of(cls, X: Any, n_samples: int | None, **given: Sequence[Any] | None) -> Known:
        """What was given, or else what the table of the samples keeps.

        Parameters
        ----------
        X
            The data, or None.
        n_samples
            How many samples the report shows; None if there are none.
        given
            ``groups``, ``times`` and ``texts``.
        """
        kept = X.metadata if isinstance(X, Table) else {}
        found: dict[str, list[str] | None] = {}
        for name, values in given.items():
            if values is not None and n_samples is None:
                raise InvalidInputError(f"{name} belong to samples, and there are none: give the data as well.")
            values = kept.get(name[:-1]) if values is None else values
            found[name] = None if values is None or n_samples is None else checked_groups(values, n_samples, name)
        return cls(**found)
