"""`partial_fit`: update a model with one batch of samples after another."""

from collections.abc import Callable
from types import MethodType
from typing import Any, Self, cast

from partwise.contract.offers import Offers
from partwise.contract.parameters import Method, checks_parameters
from partwise.core.result import Status, Trace
from partwise.errors import InvalidInputError


class _Offered:
    """A method that only models with online fits have; the others say why they do not have it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self._method
        if not model._takes_batches():
            raise AttributeError(f"{owner.__name__} has no attribute {self._method.__name__!r}.")
        return MethodType(self._method, model)


def _offered(method: Method) -> Method:
    return cast(Method, _Offered(method))


class PartialFit(Offers):
    """Bookkeeping for models that are updated batch by batch."""

    n_components: int

    def _takes_batches(self) -> bool:
        """Whether `partial_fit` is available; may raise AttributeError with a sentence that says what to change."""
        return type(self)._absorb is not PartialFit._absorb

    def _absorb(self, data: Any, n_batches: int, n_seen: int) -> None:
        """Update with a batch: the first one if `n_batches` is 0, after `n_seen` samples (including those of `fit`).

        A family that implements this offers `partial_fit`.
        """

    def _goes_on(self) -> bool:
        """Whether `partial_fit` continues from the fitted parts, rather than starting from the beginning."""
        return hasattr(self, "components_")

    @_offered
    @checks_parameters
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the model with one more batch of samples.

        After `fit`, it continues from the fitted parts if the algorithm can, and otherwise from the beginning.

        Parameters
        ----------
        X
            Some samples, with the same features in every call.
        y
            Ignored.
        """
        begun = self._goes_on()
        if begun and self.n_components != self.n_components_:
            raise InvalidInputError(
                f"n_components is {self.n_components}, but there are {self.n_components_} parts already, from"
                " which partial_fit continues: start with a new estimator."
            )
        data = self._data(X, reset=not begun, caller="partial_fit")
        n_batches = getattr(self, "n_batches_", 0) if begun else 0
        n_seen = self.n_samples_seen_ if begun else 0
        with self._compiling():
            self._absorb(data, n_batches, n_seen)
        self.n_batches_ = self.n_iter_ = n_batches + 1
        self.n_samples_seen_ = n_seen + data.shape[0]
        self.trace_ = Trace()
        told = f"Processed {self.n_samples_seen_} samples, the last by partial_fit; pass more to continue."
        self.status_ = Status("stopped", told)
        return self


class OnlineVariational:
    """Mixin for models whose `partial_fit` is online variational Bayes. List it before the base class it extends."""

    inference: str

    def _takes_batches(self) -> bool:
        if self.inference != "vb":
            raise AttributeError(f"partial_fit needs inference='vb', and this model has {self.inference!r}: set it.")
        return True

    def _goes_on(self) -> bool:
        return hasattr(self, "online_averages_")
