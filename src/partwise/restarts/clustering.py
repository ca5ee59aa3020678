"""Cluster the parts of several restarts: a cluster has at most one part of each restart, and outliers have none."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Bools, Floats, Places
from partwise.metrics.matching import match_parts, unit_parts

_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class PartClusters:
    """The clusters of all parts. Parts are numbered restart by restart.

    Attributes
    ----------
    labels
        The cluster of each part; -1 for outliers, and for parts without a cluster.
    centres
        Clusters x features: medians of the members, scaled to unit length.
    distances
        Parts x parts: Euclidean distances between parts of unit length, from 0 (equal) to 1.41 (nothing in common).
    densities
        Mean distance of each part to its nearest parts; large for an isolated part.
    silhouettes
        For each part, from -1 to 1: how much closer it is to its own cluster than to the next; 0 for outliers.
    """

    labels: Places
    centres: Floats
    distances: Floats
    densities: Floats
    silhouettes: Floats

    @property
    def silhouette(self) -> float:
        """Mean over all parts in a cluster."""
        kept = self.labels >= 0
        return float(self.silhouettes[kept].mean()) if kept.any() else float("nan")

    def members(self, cluster: int) -> Places:
        """Positions of the parts of a cluster."""
        return np.flatnonzero(self.labels == cluster)

    def order(self) -> Places:
        """Positions of all parts, cluster by cluster, the most typical first; outliers come last."""
        clusters = np.where(self.labels < 0, self.labels.max(initial=0) + 1, self.labels)
        return np.lexsort((self.densities, clusters))


def cluster_parts(
    dictionaries: list[Floats], n_clusters: int, *, density_threshold: float = 0.5, neighbours: float = 0.3
) -> PartClusters:
    """Cluster the parts of several restarts by matching them to common centres.

    Outliers are dropped by local density first, as cNMF does (Kotliar et al. 2019). Then parts of each restart are
    matched one to one to the centres, starting with the restart that agrees best with all others. Centres become the
    medians of their matched parts, until nothing changes. So, unlike in k-means, a cluster never has two parts of one
    restart.

    Parameters
    ----------
    dictionaries
        Parts x features of each restart.
    n_clusters
        Number of clusters.
    density_threshold
        Parts whose mean distance to their nearest parts is larger are outliers. 2 keeps all.
    neighbours
        Number of nearest parts, as a share of the number of restarts.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.restarts import cluster_parts
    >>> parts = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
    >>> found = cluster_parts([parts, parts[::-1], parts], 2)  # the second restart has them in another order
    >>> first, second, third = found.labels.reshape(3, 2).tolist()
    >>> first == second[::-1] == third, sorted(first), round(found.silhouette, 6)
    (True, [0, 1], 1.0)
    """
    if len(dictionaries) < 2:
        raise InvalidInputError(f"consensus needs at least 2 restarts, got {len(dictionaries)}: raise n_restarts.")
    unit = [unit_parts(np.asarray(parts, dtype=np.float64)) for parts in dictionaries]
    stacked, owner = np.concatenate(unit), np.repeat(np.arange(len(unit)), [len(parts) for parts in unit])
    distances = np.sqrt(np.maximum(2.0 - 2.0 * (stacked @ stacked.T), 0.0))
    np.fill_diagonal(distances, 0.0)
    nearest = max(1, min(int(neighbours * len(unit)), len(stacked) - 1))
    densities = np.sort(distances, axis=1)[:, 1 : nearest + 1].mean(axis=1)
    kept = densities <= density_threshold
    if kept.sum() < n_clusters:
        raise InvalidInputError(
            f"only {int(kept.sum())} of {len(stacked)} parts of the restarts are near others, and {n_clusters}"
            f" are needed: fit fewer parts, or (in Python) raise density_threshold= (now {density_threshold:g})."
        )
    labels, centres = _matched(stacked, owner, kept, _first_centres(unit, kept, owner, n_clusters))
    return PartClusters(labels, centres, distances, densities, _silhouettes(distances, labels))


def _first_centres(unit: list[Floats], kept: Bools, owner: Places, n_clusters: int) -> Floats:
    """The parts of the restart that agrees best with the others, without its outliers if others can replace them."""
    full = [r for r in range(len(unit)) if int(kept[owner == r].sum()) >= n_clusters]
    candidates = full or [int(np.argmax([kept[owner == r].sum() for r in range(len(unit))]))]
    agreement = [np.mean([match_parts(unit[r], other)[2].mean() for other in unit]) for r in candidates]
    first = candidates[int(np.argmax(agreement))]
    centres: Floats = unit[first][kept[owner == first]][:n_clusters]
    stacked = np.concatenate(unit)
    while len(centres) < n_clusters:
        # The part farthest from all centres, outliers excluded.
        nearest = (stacked @ centres.T).max(axis=1)
        centres = np.concatenate((centres, stacked[[int(np.argmin(np.where(kept, nearest, np.inf)))]]))
    return centres


def _matched(stacked: Floats, owner: Places, kept: Bools, centres: Floats) -> tuple[Places, Floats]:
    labels = np.full(len(stacked), -1, dtype=np.intp)
    for _ in range(_ROUNDS):
        fresh = np.full(len(stacked), -1, dtype=np.intp)
        for restart in range(owner[-1] + 1):
            own = np.flatnonzero((owner == restart) & kept)
            rows, columns = linear_sum_assignment(stacked[own] @ centres.T, maximize=True)
            fresh[own[rows]] = columns
        if np.array_equal(fresh, labels):
            break
        labels = fresh
        pairs = ((stacked[labels == k], old) for k, old in enumerate(centres))
        centres = unit_parts(np.stack([np.median(own, axis=0) if len(own) else old for own, old in pairs]))
    return labels, centres


def _silhouettes(distances: Floats, labels: Places) -> Floats:
    """Rousseeuw's silhouette of each part in a cluster."""
    found, kept = np.zeros(len(labels)), labels >= 0
    if 1 < np.unique(labels[kept]).size < kept.sum():
        from sklearn.metrics import silhouette_samples  # imports half of scikit-learn

        found[kept] = silhouette_samples(distances[np.ix_(kept, kept)], labels[kept], metric="precomputed")
    return found
