"""Expected allocation totals of new rows, the dictionary given, by a few passes over their cells."""

import numpy as np

from partwise.kernels.arrays import Cells, Floats, Singles
from partwise.kernels.jit import kernel
from partwise.kernels.lanes import LANES
from partwise.kernels.sums import sum_of

# Parts that the first pass gives less than this share of their prior's counts are put aside.
_NEXT_TO_NOTHING = np.float32(0.5)
_MOST_UPDATES = 200
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@kernel
def mean_sample_counts(
    cells: Cells, dictionary: Singles, concentration: Singles, stop: tuple[float, float], out: Floats
) -> None:
    """``q_i = w_i * (β + n - q_i); q_i /= q_i.sum(); n = counts @ q``, cell by cell of each row, n being ``out[row]``.

    Collapsed variational Bayes of order 0 (Asuncion et al. 2009): q_ik is the probability that part k made a token of
    cell i, and n_k the expected total of part k. It starts from the prior. With ``stop = tokens, share`` a row has one
    update for so many of its tokens, and ends when one moves at most such a share of them. Only ratios within a row of
    the dictionary matter. Parts that the start gives next to nothing, if these are half of them or more, keep the
    prior's share of each token.
    """
    indptr, indices, values = cells
    tokens_of_an_update, least_share = stop
    n_components = concentration.size
    sums, all_weights = np.empty(n_components, np.float32), np.empty(n_components, np.float32)
    for n in range(out.shape[0]):
        features, counts = indices[indptr[n] : indptr[n + 1]], values[indptr[n] : indptr[n + 1]]
        n_cells = features.size
        masses = np.empty(n_cells, np.float32)
        sums[:] = _ZERO
        total = 0.0
        for i in range(n_cells):
            f, count = features[i], np.float32(counts[i])
            for k in range(n_components):
                all_weights[k] = dictionary[f, k] * concentration[k]
            masses[i] = sum_of(all_weights)
            total += counts[i]
            scale = count / masses[i]
            for k in range(n_components):
                sums[k] += scale * all_weights[k]
        tol = least_share * total
        chosen = np.flatnonzero(sums > _NEXT_TO_NOTHING * concentration)
        if 2 * chosen.size > n_components:
            chosen = np.arange(n_components)  # to copy rows whole takes less time than to pick from them
        # Zeros up to a whole number of lanes.
        n_padded = (chosen.size + LANES - 1) // LANES * LANES
        own, mine = np.zeros((n_cells, n_padded), np.float32), np.empty((n_cells, n_padded), np.float32)
        prior, held = np.zeros(n_padded, np.float32), np.zeros(n_padded, np.float32)
        latest, weights = np.zeros(n_padded, np.float32), np.empty(n_padded, np.float32)
        for j in range(chosen.size):
            prior[j], held[j] = concentration[chosen[j]], sums[chosen[j]]
        for i in range(n_cells):
            f, count = features[i], np.float32(counts[i])
            if chosen.size == n_components:
                for k in range(n_components):
                    own[i, k] = dictionary[f, k]
            else:
                for j in range(chosen.size):
                    own[i, j] = dictionary[f, chosen[j]]
            for j in range(n_padded):
                weights[j] = own[i, j] * prior[j]
            masses[i] = max(masses[i] - sum_of(weights), _ZERO)  # from here on, of the parts put aside
            for j in range(n_padded):
                weights[j] = own[i, j] * (prior[j] + held[j])
            scale = _ONE / (masses[i] + sum_of(weights))
            for j in range(n_padded):
                mine[i, j] = weights[j] * scale
                latest[j] += count * mine[i, j]
        held[:] = latest
        for _ in range(min(int(total / tokens_of_an_update), _MOST_UPDATES)):
            latest[:] = held
            for i in range(n_cells):
                count = np.float32(counts[i])
                for j in range(n_padded):
                    weights[j] = own[i, j] * (prior[j] + max(held[j] - mine[i, j], _ZERO))
                scale = _ONE / (masses[i] + sum_of(weights))
                for j in range(n_padded):
                    share = weights[j] * scale
                    held[j] += count * (share - mine[i, j])
                    mine[i, j] = share
            change = _ZERO
            for j in range(n_padded):
                change += abs(held[j] - latest[j])
            if change <= tol:
                break
        sums[:] = _ZERO
        latest[:] = _ZERO
        for i in range(n_cells):
            f = features[i]
            for j in range(n_padded):
                weights[j] = own[i, j] * (prior[j] + max(held[j] - mine[i, j], _ZERO))
            scale = np.float32(counts[i]) / (masses[i] + sum_of(weights))
            for k in range(n_components):
                sums[k] += scale * dictionary[f, k]
            for j in range(n_padded):
                latest[j] += scale * (weights[j] - own[i, j] * prior[j])
        for k in range(n_components):
            out[n, k] = sums[k] * concentration[k]
        for j in range(chosen.size):
            out[n, chosen[j]] += latest[j]
