"""Metadata of the samples in a report: groups, times and texts, given by the caller or stored in the table.

Also, the references most similar to the parts, as a table that needs no script.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partwise.errors import InvalidInputError
from partwise.io.table import Table
from partwise.plotting.order import checked_groups
from partwise.refit import match
from partwise.reporting.encoding import visible
from partwise.reporting.model_view import ModelView


@dataclass(frozen=True)
class Known:
    """The group, time and text of each sample; None if unknown."""

    groups: list[str] | None = None
    times: list[str] | None = None
    texts: list[str] | None = None

    @classmethod
    def of(cls, X: Any, n_samples: int | None, **given: Sequence[Any] | None) -> Known:
        """Metadata that were given, or else those that the table of the samples has.

        Parameters
        ----------
        X
            The data, or None.
        n_samples
            Number of samples in the report; None if there are none.
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


_HEADS = ("part", "best", "cosine", "runner-up", "cosine", "closest mixture", "cosine")
_NOTE = (
    "The reference that is most like each part, the runner-up, and a mixture of two or three where that is closer by "
    "0.01 or more. A cosine of 1 means the same part. Two parts may have the same reference."
)


def matched_table(view: ModelView, reference: Any) -> str:
    """Names and cosines of the references most similar to each part, largest part first; empty without references.

    Parameters
    ----------
    view
        The model.
    reference
        A model or a table of features x parts, as for `partwise.match`; or None.
    """
    if reference is None:
        return ""
    found = list(match(view.model, reference))
    rows = []
    for k in view.order:
        one = found[k]
        cells = [one.best, f"{one.cosine:.2f}", one.runner_up, f"{one.runner_up_cosine:.2f}", "", ""]
        if len(one.mixture) > 1:
            mixture = " + ".join(f"{share:.2f} {name}" for name, share in one.mixture.items())
            cells[4:] = [mixture, f"{one.mixture_cosine:.2f}"]
        inside = "".join(f"<td>{html.escape(visible(cell))}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{html.escape(visible(view.names[k]))}</th>{inside}</tr>')
    heads = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    return (
        '<section id="references" aria-labelledby="references-heading">\n'
        '<h2 id="references-heading">Matched references</h2>\n'
        f'<p class="note">{_NOTE}</p>\n'
        '<div class="scroll" tabindex="0" role="region" aria-label="Table of references"><table class="samples">'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>\n</section>"
    )
