from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from goodness import ALARM, chi_square, continuous_fit, mean_fit, sample, uniform_fit, with_bits
from scipy import stats

from partwise.core.keys import Key
from partwise.kernels.continuous import gamma
from partwise.kernels.discrete import poisson
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, next_exponential, next_normal, next_uint64, next_uniform, seek

FULL = 2**64 - 1

# kat_vectors of Random123 (D. E. Shaw Research): counter, key, answer of philox4x64 with 10 rounds.
PUBLISHED = [
    (
        [0, 0, 0, 0],
        [0, 0],
        [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B],
    ),
    (
        [FULL, FULL, FULL, FULL],
        [FULL, FULL],
        [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
    ),
    (
        [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
        [0x452821E638D01377, 0xBE5466CF34E90C6C],
        [0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6],
    ),
]


def words(seed: int, stage_chain: int, iteration: int, row: int, size: int) -> np.ndarray:
    stream = new_stream()
    seek(stream, np.uint64(seed), np.uint64(stage_chain), np.uint64(iteration), row)
    return np.array([next_uint64(stream) for _ in range(size)], np.uint64)


@pytest.mark.parametrize(("counter", "key", "answer"), PUBLISHED)
def test_published_vectors(counter: list[int], key: list[int], answer: list[int]) -> None:
    stream = new_stream()
    stream[0:2] = np.array(key, np.uint64)
    stream[2:6] = np.array(counter, np.uint64)
    assert [int(next_uint64(stream)) for _ in range(4)] == answer


@pytest.mark.parametrize(
    "address", [(0, 0, 0, 1), (1, 2, 3, 4), (FULL, FULL, FULL, 2**62), (12345, 7 << 32, 999, 10**6)]
)
def test_equals_numpy_from_the_same_key_and_counter(address: tuple[int, int, int, int]) -> None:
    seed, stage_chain, iteration, row = address
    # NumPy adds one to the 256-bit counter before each block.
    before = [FULL, row - 1, iteration, 0]
    numpys = np.random.Philox(key=np.array([seed, stage_chain], np.uint64), counter=np.array(before, np.uint64))
    np.testing.assert_array_equal(words(seed, stage_chain, iteration, row, 41), numpys.random_raw(41))


def test_takes_the_words_of_a_key_and_returns_to_the_start() -> None:
    key = Key(5).for_stage("gibbs").for_chain(2).at(9)
    stream = new_stream()
    first = []
    for _ in range(2):
        seek(stream, *key.words, 11)
        first.append([int(next_uint64(stream)) for _ in range(13)])
    assert first[0] == first[1] == words(5, (key.stage << 32) | 2, 9, 11, 13).tolist()


def test_extreme_bits_stay_inside() -> None:
    assert next_uniform(with_bits(0)) == 2.0**-54
    assert next_uniform(with_bits(FULL)) == 1.0 - 2.0**-53
    assert 0.0 < next_exponential(with_bits(0)) < 1e-13
    for bits in (0, FULL, FULL - 255, 1 << 63, 256):
        assert np.isfinite(next_normal(with_bits(bits)))
        assert 0.0 < next_exponential(with_bits(bits)) < np.inf


@pytest.mark.parametrize(
    ("draw", "distribution"),
    [(next_uniform, stats.uniform), (next_normal, stats.norm), (next_exponential, stats.expon)],
    ids=["uniform", "normal", "exponential"],
)
def test_distribution(draw: object, distribution: object) -> None:
    values = sample(draw, size=1_000_000)
    assert continuous_fit(values, distribution.cdf) > ALARM
    assert mean_fit(values, distribution.mean(), distribution.var()) > ALARM
    fourth = distribution.moment(4)
    assert mean_fit(values**4, fourth, distribution.moment(8) - fourth**2) > ALARM
    consecutive = distribution.cdf(values[: len(values) // 2 * 2].reshape(-1, 2))
    assert grid_fit(consecutive[:, 0], consecutive[:, 1]) > ALARM


def test_tails_of_the_ziggurats() -> None:
    # Beyond the last layer lie 2.6e-4 of the normals and 4.5e-4 of the exponentials.
    normal = np.abs(sample(next_normal, size=4_000_000, seed=3))
    beyond = normal[normal > 3.6541528853610088]
    assert (
        chi_square(
            [len(beyond), len(normal) - len(beyond)],
            len(normal) * np.array([p := 2 * stats.norm.sf(3.6541528853610088), 1 - p]),
        )
        > ALARM
    )
    assert stats.kstest(1 - stats.norm.sf(beyond) / stats.norm.sf(3.6541528853610088), "uniform").pvalue > ALARM
    exponential = sample(next_exponential, size=4_000_000, seed=4)
    beyond = exponential[exponential > 7.69711747013104972]
    assert stats.kstest(beyond - 7.69711747013104972, "expon").pvalue > ALARM


# Independence of neighbouring streams


@kernel
def _uniforms(seed: np.uint64, stage_chain: np.uint64, iteration: np.uint64, row: int, out: np.ndarray) -> None:
    stream = new_stream()
    seek(stream, seed, stage_chain, iteration, row)
    for i in range(out.shape[0]):
        out[i] = next_uniform(stream)


@kernel
def _uniforms_ignoring_the_row(
    seed: np.uint64, stage_chain: np.uint64, iteration: np.uint64, row: int, out: np.ndarray
) -> None:
    _uniforms(seed, stage_chain, iteration, 0, out)


@kernel
def _uniforms_adding_row_and_iteration(
    seed: np.uint64, stage_chain: np.uint64, iteration: np.uint64, row: int, out: np.ndarray
) -> None:
    _uniforms(seed, stage_chain, np.uint64(0), np.int64(iteration) + row, out)


def grid_fit(first: np.ndarray, second: np.ndarray, cells: int = 32) -> float:
    """Joint uniformity of pairs on a grid."""
    observed = np.histogram2d(first, second, bins=cells, range=[[0, 1], [0, 1]])[0]
    return chi_square(observed, np.full((cells, cells), len(first) / cells**2))


def pair_fit(uniforms: object, address: np.ndarray, step: np.ndarray, size: int = 1 << 16) -> float:
    """Smallest of four p-values, times four: correlation and joint uniformity of two streams, in step and shifted."""
    first, second = np.empty(size), np.empty(size)
    for out, words_ in ((first, address), (second, address + step)):
        uniforms(*words_[:3].astype(np.uint64), int(words_[3]), out)
    values = []
    for left, right in ((first, second), (first[1:], second[:-1])):
        if np.array_equal(left, right):
            return 0.0
        values += [grid_fit(left, right), stats.pearsonr(left, right).pvalue]
    return min(1.0, 4 * min(values))


STEPS = {
    "seed": np.array([1, 0, 0, 0]),
    "chain": np.array([0, 1, 0, 0]),
    "stage": np.array([0, 1 << 32, 0, 0]),
    "iteration": np.array([0, 0, 1, 0]),
    "row": np.array([0, 0, 0, 1]),
    "row and iteration": np.array([0, 0, 1, -1]),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("address", [(0, 0, 0, 1), (20260101, 3 << 32, 77, 1023)], ids=["origin", "elsewhere"])
def test_neighbouring_streams_are_independent(address: tuple[int, ...], step: str) -> None:
    assert pair_fit(_uniforms, np.array(address), STEPS[step]) > ALARM


def test_power_streams_that_ignore_an_address_are_caught() -> None:
    origin = np.array([0, 0, 0, 1])
    assert pair_fit(_uniforms_ignoring_the_row, origin, STEPS["row"]) < ALARM
    assert pair_fit(_uniforms_adding_row_and_iteration, origin, STEPS["row and iteration"]) < ALARM
    assert interleaved_fit(_uniforms_ignoring_the_row, "row", 100) < ALARM


def interleaved_fit(uniforms: object, axis: str, size: int, draws: int = 2) -> float:
    """Fit of the sequence made of the first draws of each of many neighbouring streams."""
    address = np.array([9, 9, 9, 0])
    out = np.empty((size, draws))
    for i in range(size):
        uniforms(*address[:3].astype(np.uint64), int(address[3]), out[i])
        address = address + STEPS[axis]
    flat = out.ravel()
    values = [
        uniform_fit(out[:, 0]),
        uniform_fit(flat),
        grid_fit(out[:-1, 0], out[1:, 0], 16),
        grid_fit(flat[:-1:2], flat[1::2], 16),
    ]
    return min(1.0, 4 * min(values))


@pytest.mark.parametrize("axis", ["seed", "chain", "iteration", "row"])
def test_interleaved_streams_are_uniform(axis: str) -> None:
    assert interleaved_fit(_uniforms, axis, 20_000) > ALARM


@kernel
def _word_table(seeds: int, chains: int, iterations: int, rows: int, out: np.ndarray) -> None:
    stream = new_stream()
    i = 0
    for seed in range(seeds):
        for chain in range(chains):
            for iteration in range(iterations):
                for row in range(rows):
                    seek(stream, np.uint64(seed), np.uint64(chain), np.uint64(iteration), row)
                    for j in range(out.shape[1]):
                        out[i, j] = next_uint64(stream)
                    i += 1


def test_streams_do_not_overlap() -> None:
    # Chance of a coincidence among 2^20 random words: 2^40 / 2^65 < 1e-7.
    out = np.empty((8 * 8 * 8 * 32, 64), np.uint64)
    _word_table(8, 8, 8, 32, out)
    assert len(np.unique(out)) == out.size
    ones = np.bitwise_count(out ^ np.roll(out, 1, axis=0)).astype(float)  # neighbours differ in half of the bits
    assert mean_fit(ones.ravel(), 32.0, 16.0) > ALARM


# Threads


@kernel
def _gibbs_like(
    seed: np.uint64, stage_chain: np.uint64, iteration: np.uint64, start: int, stop: int, out: np.ndarray
) -> None:
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, n)
        for k in range(out.shape[1]):
            out[n, k] = gamma(stream, 0.3 + poisson(stream, 3.0 * k))


def _run(block: int, threads: int, reverse: bool) -> np.ndarray:
    out = np.zeros((5_000, 7))
    blocks = [(start, min(start + block, len(out))) for start in range(0, len(out), block)]
    key = Key(3).for_stage("gibbs").at(5)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda rows: _gibbs_like(*key.words, *rows, out), blocks[::-1] if reverse else blocks))
    return out


def test_same_bits_for_any_blocks_threads_and_order() -> None:
    one = _run(5_000, 1, False)
    assert (one > 0.0).all()
    np.testing.assert_array_equal(_run(111, 2, True), one)
    np.testing.assert_array_equal(_run(64, 2, False), one)


def test_streams_work_inside_kernels_of_other_options() -> None:
    @numba.njit
    def first(row: int) -> float:
        stream = new_stream()
        seek(stream, 1, 2, 3, row)
        return next_uniform(stream)

    out = np.empty(1)
    _uniforms(np.uint64(1), np.uint64(2), np.uint64(3), 8, out)
    assert first(8) == out[0]
