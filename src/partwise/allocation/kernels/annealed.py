"""Sweeps over whole allocations at a temperature: towards the mode of p(S) over integer S."""

from __future__ import annotations

import math

import numpy as np

from partwise.allocation.kernels.collapsed import count_token
from partwise.kernels.arrays import Counts, Floats, Indices, LongCounts, Numbers, Starts, Word
from partwise.kernels.categories import categorical
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek
from partwise.kernels.sums import sum_of


@kernel
def sweep_annealed(
    indptr: Starts,
    indices: Indices,
    values: Numbers,
    first_tokens: Starts,
    dictionary_concentration: Floats,
    activation_concentration: Floats,
    coldness: float,
    seed: Word,
    stage_chain: Word,
    iteration: Word,
    labels: Numbers,
    sample_counts: Counts,
    feature_counts: Counts,
    component_counts: LongCounts,
) -> float:
    """``gain = (α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk) / (S_nfk + 1); p = gain**coldness * (S_nfk + 1)``.

    Each token takes a component with probability proportional to p, without itself; an infinite coldness stands for the
    largest gain, the present component winning ties. Draws from p(S)^coldness, the labels that give one S sharing its
    probability evenly; at coldness 1 this is the ordinary sweep. Returns Σ log S_nfk!.
    """
    n_components = activation_concentration.size
    whole = sum_of(dictionary_concentration)
    cell = np.zeros(n_components)
    gains = np.empty(n_components)
    weights = np.empty(n_components)
    stream = new_stream()
    log_factorials = 0.0
    for n in range(indptr.size - 1):
        seek(stream, seed, stage_chain, iteration, n)
        i = first_tokens[n]
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            for k in range(n_components):
                cell[k] = 0.0
            for t in range(i, i + values[p]):
                cell[labels[t]] += 1.0
            for _ in range(values[p]):
                old = int(labels[i])
                cell[old] -= 1.0
                count_token(sample_counts, feature_counts, component_counts, n, f, old, -1)
                largest = 0.0
                for k in range(n_components):
                    gains[k] = (
                        (dictionary_concentration[f] + feature_counts[f, k])
                        / (whole + component_counts[k])
                        * (activation_concentration[k] + sample_counts[n, k])
                        / (cell[k] + 1.0)
                    )
                    largest = max(largest, gains[k])
                new = old
                if coldness < math.inf:
                    for k in range(n_components):
                        weights[k] = (gains[k] / largest) ** coldness * (cell[k] + 1.0)
                    new = categorical(stream, weights, sum_of(weights))
                else:
                    for k in range(n_components):
                        if gains[k] > gains[new] * (1.0 + 1e-12):
                            new = k
                cell[new] += 1.0
                count_token(sample_counts, feature_counts, component_counts, n, f, new, 1)
                labels[i] = new
                i += 1
            for k in range(n_components):
                if cell[k] > 1.0:
                    log_factorials += math.lgamma(cell[k] + 1.0)
    return log_factorials
