"""Small algorithms on which the run loop is tested, here and in processes of their own."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from partwise.core.keys import Key


@dataclass
class Tail:
    scale: float
    label: str | None


@dataclass
class WalkState:
    """Every kind of field that a state may have."""

    position: np.ndarray
    momentum: np.ndarray  # Fortran order: its sum has other bits than that of a C copy
    total: float
    steps: int
    weight: np.float32
    mirrored: bool
    note: str | None
    tail: Tail


@dataclass(frozen=True)
class RandomWalk:
    """A keyed random walk that updates its state in place, and computes its objective every other iteration."""

    scale: float = 0.1
    every: int = 2
    pause: float = 0.0
    seen: list[Key] = field(default_factory=list, compare=False)

    def init(self, key: Key, data: np.ndarray) -> WalkState:
        self.seen.append(key)
        generator = key.generator()
        momentum = np.asfortranarray(generator.normal(size=(37, 11)) * 10.0 ** generator.integers(-8, 8, size=(37, 11)))
        return WalkState(
            generator.normal(size=data.shape), momentum, 0.1, 0, np.float32(0.3), False, None, Tail(0.7, "é")
        )

    def step(self, key: Key, data: np.ndarray, state: WalkState) -> tuple[WalkState, dict[str, float]]:
        self.seen.append(key)
        generator = key.generator()
        state.momentum *= generator.normal(size=state.momentum.shape)
        state.total += float(state.momentum.sum())
        state.position += self.scale * generator.normal(size=data.shape) + 1e-9 * state.total
        state.steps += 1
        state.weight = np.float32(state.weight * np.float32(1.1))
        state.mirrored = not state.mirrored
        state.note = f"step {key.iteration}"
        state.tail = Tail(state.tail.scale / 3.0, state.tail.label)
        time.sleep(self.pause)
        info: dict[str, float] = {"n_active": state.steps % 3}
        if key.iteration % self.every == 0:
            info["objective"] = -float(np.sum((state.position - data) ** 2)) / key.iteration**3
        return state, info


@dataclass
class Twins:
    """Two numbers that are equal between steps, and not in the middle of one."""

    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class TwoHalves:
    """Updates half of its state, calls `between`, and updates the other half: an interrupt must not fall between."""

    during_init: Any = field(default=None, compare=False)
    between: Any = field(default=None, compare=False)

    def init(self, key: Key, data: Any) -> Twins:
        if self.during_init is not None:
            self.during_init()
        return Twins(np.zeros(2), np.zeros(2))

    def step(self, key: Key, data: Any, state: Twins) -> tuple[Twins, dict[str, float]]:
        state.left += 1
        if self.between is not None:
            self.between(key.iteration)
        state.right += 1
        return state, {"objective": -1.0 / key.iteration}


@dataclass
class Counter:
    value: int = 0


@dataclass(frozen=True)
class Report:
    """Reports what it is given, one item per iteration."""

    values: tuple[float | None, ...]
    name: str = "objective"

    def init(self, key: Key, data: Any) -> Counter:
        return Counter()

    def step(self, key: Key, data: Any, state: Counter) -> tuple[Counter, dict[str, float]]:
        state.value += 1
        value = self.values[key.iteration - 1]
        return state, {} if value is None else {self.name: value}


DATA = np.arange(12.0).reshape(4, 3)


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that imports this module."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path} | more
