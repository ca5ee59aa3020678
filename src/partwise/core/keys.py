"""Keys of random streams: a frozen address from which every kernel derives its own counter-based stream."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from partwise.errors import InvalidInputError

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True)
class Key:
    """Address of a family of random streams; kernels add the row.

    Two keys that differ in any field give independent streams. A key has no state: it gives the same numbers on any
    thread and in any order.
    """

    seed: int
    stage: int = 0
    chain: int = 0
    iteration: int = 0

    def for_stage(self, name: str) -> Key:
        """The key of a named stage (``"init"``, ``"gibbs"``, ...) of an algorithm."""
        return Key(self.seed, zlib.crc32(name.encode()), self.chain, self.iteration)

    def for_chain(self, chain: int) -> Key:
        """The key of one of several chains."""
        return Key(self.seed, self.stage, chain, self.iteration)

    def at(self, iteration: int) -> Key:
        """The key of an iteration."""
        return Key(self.seed, self.stage, self.chain, iteration)

    @property
    def words(self) -> tuple[np.uint64, np.uint64, np.uint64]:
        """The arguments for a kernel: seed, stage and chain packed in one word, and the iteration."""
        return np.uint64(self.seed), np.uint64((self.stage << 32) | self.chain), np.uint64(self.iteration)

    def generator(self) -> np.random.Generator:
        """A NumPy generator for set-up work outside kernels."""
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([int(word) for word in self.words])))


def key_from(random_state: RandomState) -> Key:
    """Draw one 64-bit seed from any ``random_state`` that scikit-learn accepts."""
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return Key(int(random_state) & 0xFFFFFFFFFFFFFFFF)
    if isinstance(random_state, np.random.Generator):
        return Key(int(random_state.integers(0, 2**64, dtype=np.uint64)))
    if isinstance(random_state, np.random.RandomState):
        return Key(int(random_state.randint(0, 2**63, dtype=np.int64)))
    if random_state is None:
        return Key(int(np.random.default_rng().integers(0, 2**64, dtype=np.uint64)))
    raise InvalidInputError(
        f"random_state must be a nonnegative integer, a Generator, a RandomState or None, got {random_state!r}."
    )
