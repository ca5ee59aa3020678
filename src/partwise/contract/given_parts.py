"""Models that are not fitted but made of given parts, to which `transform` then refits activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from partwise.contract.features import given_names
from partwise.contract.offers import Offers
from partwise.core.data import CountMatrix
from partwise.core.result import Status, Trace
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.presence import PresencePrior


class FromGivenParts(Offers):
    """Builds a model from given parts."""

    presence_prior_: Floats
    _store_components: Callable[[Floats, Floats], None]

    @classmethod
    def from_components(
        cls,
        components: Any,
        *,
        feature_names: Any = None,
        component_names: Any = None,
        presence: Any = None,
        allowed: Any = None,
        forbidden: Any = (),
        always: Any = (),
        **parameters: Any,
    ) -> Self:
        """Build an estimator that counts as fitted, from given parts: `transform` refits activations to them.

        Parameters
        ----------
        components
            Components x features, nonnegative; kept on their own scale.
        feature_names
            Names of the features, checked against the data where these have names.
        component_names
            Names of the parts, which `get_feature_names_out` and the command's tables then show.
        presence
            Find out which parts are present in each sample: `transform` then gives posterior means in which parts may
            be absent, and `presence` probabilities and credible intervals. True: five parts are expected in a sample
            (half of them, where there are fewer than ten). Or a prior probability of presence, or one for each part.
        allowed, forbidden, always
            Names or positions of parts, with ``presence``: the only ones that may be present, those that may not, and
            those that are present in every sample.
        parameters
            Parameters of the estimator.
        """
        if not cls.declares.given_parts:
            raise InvalidInputError(f"{cls.__name__} cannot take given parts: use PoissonNMF or GammaPoissonNMF.")
        given = CountMatrix.build(components, integers=False, allow_missing=False, caller="from_components")
        n_components, n_features = given.shape
        model = cls(n_components, **parameters)  # type: ignore[call-arg]  # every estimator is a dataclass that begins with it
        model.n_features_in_ = n_features
        for attribute, names in given_names(feature_names, n_features, component_names, n_components).items():
            setattr(model, attribute, names)
        model.n_iter_, model.trace_, model.n_samples_seen_ = 0, Trace(), 0
        model.status_ = Status("converged", "The components were given; there is nothing to fit.")
        model._take_components(np.ascontiguousarray(given.to_scipy().toarray().T, dtype=np.float64))
        rules = {"allowed": allowed, "forbidden": forbidden, "always": always}
        if presence is not None and presence is not False:
            model.presence_prior_ = PresencePrior.of(presence, model.part_labels(), **rules).probability
        elif allowed is not None or len(forbidden) or len(always):
            raise InvalidInputError("allowed, forbidden and always are for presence: pass presence=True.")
        return model

    def _take_components(self, dictionary: Floats) -> None:
        """Store given parts, features x components, as if a fit had found them (`declares.given_parts`)."""
        self._store_components(dictionary, dictionary.sum(axis=0))
