"""A line of the table: what was measured, beside which peer, and whether the goal was reached."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Settings:
    """What is asked of every benchmark; ``only`` is a regular expression of the lines that are asked for."""

    repeats: int = 5
    only: str = ""
    skip: str = ""
    """Why lines are not measured this time, if they are not."""

    def wants(self, what: str, data: str) -> bool:
        """Whether a line is asked for. A benchmark that takes long asks this before it measures one."""
        return re.search(self.only, f"{what}, {data}") is not None


@dataclass(frozen=True)
class Goal:
    """A bound on the ratio of a line or, where it has none, on its own value."""

    bound: float
    kind: Literal["at least", "below"]

    def met(self, value: float) -> bool:
        return value >= self.bound if self.kind == "at least" else value < self.bound

    def __str__(self) -> str:
        return f"{self.kind} {self.bound:g}"


@dataclass(frozen=True)
class Sample:
    """Repeated measurements of one quantity; None where a value was never reached."""

    values: tuple[float | None, ...]
    unit: str

    @classmethod
    def of(cls, values: Sequence[float | None], unit: str) -> Sample:
        return cls(tuple(values), unit)

    @property
    def median(self) -> float | None:
        """The median over all repeats, or None if any of them never reached the value."""
        reached = [value for value in self.values if value is not None]
        return statistics.median(reached) if reached and len(reached) == len(self.values) else None

    def __str__(self) -> str:
        if self.median is None:
            missed = sum(value is None for value in self.values)
            return NOT_REACHED if missed == len(self.values) else f"{NOT_REACHED} in {missed} of {len(self.values)}"
        return f"{self.median:.3g} {self.unit}".strip()


@dataclass(frozen=True)
class Line:
    """One line.

    Parameters
    ----------
    what, data
        What was measured and on which data.
    ours, peer
        Repeated measurements, the n-th of both taken one after the other.
    peer_name
        The peer with the settings that matter.
    peer_over_ours
        The ratio is peer / ours (how many times faster we are), else ours / peer (how many times as much we need).
    threads
        Of ours and of the peer; empty where nothing depends on time.
    """

    what: str
    data: str
    ours: Sample | None
    peer: Sample | None = None
    peer_name: str = ""
    peer_over_ours: bool = True
    goal: Goal | None = None
    threads: str = "1"
    note: str = ""

    @property
    def ratios(self) -> tuple[float, ...] | None:
        """Ratio of each repeat; None where there is no peer, or where either side never reached the value."""
        if self.ours is None or self.peer is None or self.ours.median is None or self.peer.median is None:
            return None
        pairs = zip(self.peer.values, self.ours.values, strict=True)
        ordered = [pair if self.peer_over_ours else pair[::-1] for pair in pairs]
        return tuple(upper / lower for upper, lower in ordered if upper is not None and lower is not None)

    @property
    def ratio(self) -> float | None:
        ratios = self.ratios
        return None if ratios is None else statistics.median(ratios)

    @property
    def reached(self) -> bool | None:
        """Whether the goal was reached; None where there is none, or where nothing could be measured."""
        if self.goal is None or self.ours is None:
            return None
        value = self.ours.median if self.peer is None else self.ratio
        return False if value is None else self.goal.met(value)

    @property
    def summary(self) -> str:
        """A few words, to be read while the rest is measured."""
        if self.ours is None:
            return self.note
        ratio = "" if self.ratio is None else f", {self.ratio:.3g} times {self.peer_name} ({self.peer})"
        return f"{self.ours}{ratio}"

    def to_json(self) -> dict[str, Any]:
        derived = {"ratio": self.ratio, "ratios": self.ratios, "reached": self.reached}
        return {**asdict(self), **derived}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Line:
        fields = {name: stored[name] for name in cls.__dataclass_fields__}
        for name in ("ours", "peer"):
            if fields[name] is not None:
                fields[name] = Sample.of(**fields[name])
        if fields["goal"] is not None:
            fields["goal"] = Goal(**fields["goal"])
        return cls(**fields)


def skipped(what: str, data: str, reason: str, goal: Goal | None = None, threads: str = "1") -> Line:
    """A line that says why there is nothing in it."""
    return Line(what, data, None, goal=goal, threads=threads, note=f"not measured: {reason}")
