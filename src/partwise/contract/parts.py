"""What people do with parts: see their distinctive features, name them, merge them and drop them."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise.contract.offers import Offers
from partwise.core.result import Status
from partwise.errors import InvalidInputError
from partwise.io.pairs import read_pairs
from partwise.kernels.arrays import Floats
from partwise.metrics.coherence import By, ranked

_WORDS_IN_A_NAME = 3
_MOST_WORDS = 8
# What stays true of a model after some parts are removed: its features, and how it was found.
_SHARED = ("n_features_in_", "feature_names_in_", "n_iter_", "trace_", "n_samples_seen_", "training_fingerprint_")


class HandledParts(Offers):
    """What people do with the parts of any fitted model."""

    def top_features(self, n: int = 10, *, by: By = "relevance") -> list[list[tuple[str, float]]]:
        """The features that characterise each part.

        Parameters
        ----------
        n
            Largest number of features per part; features with no weight in a part are left out.
        by
            ``"relevance"``: frequent in the part and more frequent there than elsewhere (Sievert & Shirley 2014, λ =
            0.3). ``"probability"``: the feature's share of the part. ``"lift"``: this share divided by the feature's
            overall share. Parts with negative weights are always ordered by the size of the weights.

        Returns
        -------
        list
            For each part, pairs of a feature's name and the value that it is ordered by, largest first.

        Examples
        --------
        >>> from partwise import PoissonNMF
        >>> model = PoissonNMF.from_components([[5, 4, 1], [5, 1, 4]], feature_names=["the", "cat", "bond"])
        >>> [[name for name, _ in part] for part in model.top_features(2)]
        [['cat', 'the'], ['bond', 'the']]
        """
        check_is_fitted(self, "components_")
        labels = self.feature_labels()
        overall = self.feature_frequencies()
        return [[(labels[f], value) for f, value in ranked(row, overall, n, by)] for row in self.feature_importance()]

    def automatic_part_names(self, n_words: int = _WORDS_IN_A_NAME) -> list[str]:
        """Names made from the most distinctive features of each part; they depend on the parts alone.

        Parameters
        ----------
        n_words
            Number of features in a name; more if two parts would get the same name.
        """
        words = [[name for name, _ in part] for part in self.top_features(max(n_words, _MOST_WORDS))]
        lengths = [n_words] * len(words)
        names = [", ".join(part[:n_words]) for part in words]
        for _ in range(n_words, _MOST_WORDS):
            again = [k for k, name in enumerate(names) if name and names.count(name) > 1]
            for k in again:
                lengths[k] += 1
                names[k] = ", ".join(words[k][: lengths[k]])
        once = [bool(name) and names.count(name) == 1 for name in names]
        return [name if once[k] else f"{name} (part {k})".strip() for k, name in enumerate(names)]

    def name_parts(self, names: Any = None, *, n_words: int = _WORDS_IN_A_NAME) -> Self:
        """Name the parts. Tables, plots, reports and files show the names from then on.

        Parameters
        ----------
        names
            None: automatic names from distinctive features. A sequence: one name per part. A mapping from positions or
            current names to new names, for some parts. Or a .csv or .tsv file with the columns ``part`` (position or
            current name) and ``name``, such as reports offer for download.
        n_words
            Number of features in an automatic name.

        Returns
        -------
        self
            The same model, with ``component_names_``.

        Examples
        --------
        >>> from partwise import PoissonNMF
        >>> model = PoissonNMF.from_components([[5, 4, 1], [5, 1, 4]], feature_names=["the", "cat", "bond"])
        >>> model.name_parts({0: "pets"}).part_labels()
        ['pets', 'part 1']
        """
        check_is_fitted(self, "components_")
        if isinstance(names, str | os.PathLike):
            names = dict(read_pairs(names, "part", "name"))
        if names is None:
            chosen = self.automatic_part_names(n_words)
        elif isinstance(names, Mapping):
            chosen = self.part_labels()
            for part, name in names.items():
                chosen[self.part_position(part)] = str(name)
        else:
            chosen = [str(name) for name in names]
        if len(chosen) != self.n_components_:
            raise InvalidInputError(f"there are {len(chosen)} names for {self.n_components_} parts: give one for each.")
        for k, name in enumerate(chosen):
            if not name.strip() or chosen.index(name) < k:
                why = "is empty" if not name.strip() else f"is that of part {chosen.index(name)} too"
                raise InvalidInputError(f"the name {name!r} of part {k} {why}: give each part a different name.")
        self.component_names_ = np.array(chosen, dtype=object)
        return self

    def name_features(self, names: Any) -> Self:
        """Name the features of a model that was fitted to data without names.

        Parameters
        ----------
        names
            One name per feature, or a fitted transformer that made them, such as ``CountVectorizer``.
        """
        check_is_fitted(self, "components_")
        if hasattr(names, "get_feature_names_out"):
            names = names.get_feature_names_out()
        labels = np.array([str(name) for name in names], dtype=object)
        if labels.size != self.n_features_in_:
            told = f"names has length {labels.size}, but the model has {self.n_features_in_} features"
            raise InvalidInputError(f"{told}: give one name per feature.")
        self.feature_names_in_ = labels
        return self

    def part_position(self, part: int | str) -> int:
        """The position of a part, given its position or name.

        Parameters
        ----------
        part
            Position from 0 (also as text), or the name of a part.
        """
        labels = self.part_labels()
        if isinstance(part, str) and part in labels:
            return labels.index(part)
        is_number = isinstance(part, int | np.integer) or part.strip().isdecimal()
        if is_number and 0 <= int(part) < self.n_components_:
            return int(part)
        raise InvalidInputError(f"there is no part {part!r}: give one from 0 to {self.n_components_ - 1}, or a name.")

    def merge_parts(self, groups: Sequence[Sequence[int | str]]) -> Self:
        """A new model in which some parts are merged. It has no draws.

        Parameters
        ----------
        groups
            Sets of parts, by position or name. Each set becomes one part at the position of its first: ``[[3, 7], [1,
            2]]``. Other parts stay as they are.
        """
        target = np.arange(self.n_components_)
        for group in groups:
            members = [self.part_position(part) for part in group]
            if len(members) < 2 or any(target[k] != k or np.sum(target == k) > 1 for k in members):
                raise InvalidInputError(f"cannot merge {list(group)}: name two or more parts that no other group has.")
            target[members] = min(members)
        kept = np.unique(target)
        membership = (target[:, None] == kept).astype(np.float64)
        names = None
        if self.known_parts is not None:
            labels = self.part_labels()
            names = [" + ".join(labels[k] for k in np.flatnonzero(column)) for column in membership.T]
        return self._with_parts(membership, names)

    def drop_parts(self, parts: Sequence[int | str]) -> Self:
        """A new model without some parts. Activations are refitted to the remaining parts; it has no draws.

        Parameters
        ----------
        parts
            Positions or names.
        """
        dropped = {self.part_position(part) for part in parts}
        kept = [k for k in range(self.n_components_) if k not in dropped]
        if not kept:
            raise InvalidInputError("you cannot drop all parts: leave at least one.")
        labels = self.part_labels()
        names = None if self.known_parts is None else [labels[k] for k in kept]
        return self._with_parts(np.eye(self.n_components_)[:, kept], names)

    def _with_parts(self, membership: Floats, names: list[str] | None) -> Self:
        check_is_fitted(self, "components_")
        model: Any = type(self)(**self.get_params(deep=False))  # type: ignore[attr-defined]  # every estimator has them
        model.n_components = int(membership.shape[1])
        for name in _SHARED:
            if name in vars(self):
                setattr(model, name, getattr(self, name))
        weights = self.part_weights_[:, None] * membership
        total = weights.sum(axis=0)
        # A part without any weight is merged evenly.
        weights = np.where(total > 0, weights, membership)
        shares = self.feature_importance().T @ (weights / weights.sum(axis=0))
        sizes = self.components_.sum(axis=1) @ (weights / weights.sum(axis=0))
        model._regroup(self, membership, shares * sizes)
        told = f"Made from the {self.n_components_} parts of a fit by merging or dropping some."
        model.status_ = Status("converged", told)
        if names is not None:
            model.component_names_ = np.array(names, dtype=object)
        return model  # type: ignore[no-any-return]  # made by type(self), so it is a Self

    def _regroup(self, fitted: Any, membership: Floats, dictionary: Floats) -> None:
        """Store parts that are sums of parts of a fitted model of this class.

        Parameters
        ----------
        fitted
            The fitted model.
        membership
            Its parts x the parts of this model: 1 where a part goes into another.
        dictionary
            Features x parts of this model.
        """
        raise InvalidInputError(f"{type(self).__name__} cannot merge or drop parts: fit it with fewer parts instead.")
