"""What scikit-learn requires of an estimator besides fitting: parameters, output names, clones, pickles and tags."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from partwise.contract.declaration import Candidate
from partwise.contract.offers import Offers
from partwise.engines.local import portable_engine
from partwise.errors import InvalidInputError


class ScikitLearnModel(Offers, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # bases without types
    """An estimator as scikit-learn expects it, with named presets."""

    engine: Any
    _missing_rule: Callable[[str], tuple[bool, str]]

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """An estimator with named settings, such as ``"paper"`` for those of the model's paper.

        Parameters
        ----------
        name
            One of the presets that the class declares.
        changes
            Parameters that override those of the preset.

        Examples
        --------
        >>> from partwise import BinaryNMF
        >>> BinaryNMF.preset("paper", n_components=20).beta_prior
        (1.0, 1.0)
        """
        known = cls.declares.presets
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidInputError(f"{cls.__name__} has no preset {name!r}: {has}.")
        return cls(**{**known[name], **changes})

    @classmethod
    def candidates(cls, data: str) -> list[Candidate]:
        """How the class takes part in comparisons of a kind of data, ``"counts"`` or ``"bits"``."""
        return [replace(one, estimator=cls) for one in cls.declares.candidates if one.data == data]

    def check_parameters(self) -> None:
        """Raise ``ValueError`` if `fit` would refuse a parameter before it looks at data."""
        self._validate_params()

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the parts, the same as everywhere: the given ones, otherwise ``part k``.

        Parameters
        ----------
        input_features
            Not used; part of scikit-learn's interface.
        """
        super().get_feature_names_out(input_features)  # checks its argument as scikit-learn does
        return np.asarray(self.part_labels(), dtype=object)

    def __sklearn_clone__(self) -> Self:
        """An unfitted estimator with the same parameters. A cluster is shared, not copied."""
        alone = copy.copy(self)
        alone.engine = None
        cloned: Self = super(ScikitLearnModel, alone).__sklearn_clone__()
        cloned.engine = self.engine
        return cloned

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle or copy. A cluster is stored by its address, so that another process can find it."""
        state = dict(super().__getstate__())
        if "engine" in state:
            state["engine"] = portable_engine(state["engine"])
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = self._missing_rule("fit")[0]
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
