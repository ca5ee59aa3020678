"""Scores of unseen data by marginal likelihood: perplexity, and held-out cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from partwise.core.data import CountMatrix
from partwise.errors import InvalidInputError
from partwise.io.table import Table
from partwise.likelihood.auto import auto
from partwise.likelihood.problem import Floats, LogLikelihood, log_factorials


@dataclass(frozen=True)
class MarginalPerplexity:
    """A marginal perplexity with its standard error, and its terms.

    Attributes
    ----------
    value, std_error
        The perplexity and its standard error (from the estimated likelihoods, not from the choice of rows).
    log_likelihood
        Log p(x) of each row of counts.
    log_orders
        Log of the number of orders of each row's tokens, Σ_n log(L_n! / Π_f x_nf!).
    tokens
        Tokens of each row.
    """

    value: float
    std_error: float
    log_likelihood: LogLikelihood
    log_orders: Floats
    tokens: Floats


def marginal_perplexity(X: Any, dictionary: Any, shape: Any, rate: Any, **settings: Any) -> MarginalPerplexity:
    """Marginal perplexity per token of rows of counts: exp(-Σ_n log p(tokens of row n in their order) / Σ_n L_n).

    p is the marginal likelihood of all tokens of a row, with the activations integrated out; nothing is fitted to the
    row. A row of counts stands for L! / Π_f x_f! equally likely orders of its tokens, so the probability of one order
    is p(x) divided by that number. The number of tokens is predicted, too, because it is part of the model. Lower is
    better. It is not the `perplexity` of estimators, which predicts held-out tokens from the others of their row.

    Parameters
    ----------
    X
        Rows of counts, of any accepted kind, that the model was not fitted to; missing cells are left out.
    dictionary
        Features x parts. For models with a prior on the dictionary, the point estimate.
    shape, rate
        Parameters of the gamma prior of activations: numbers, or one per part.
    settings
        Arguments of `partwise.likelihood.auto`: ``rng``, ``std_error``, ``max_cost``, ``max_draws``, ``n_jobs``,
        ``engine``.

    Returns
    -------
    MarginalPerplexity
        Infinite if a row is impossible.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import marginal_perplexity
    >>> dictionary = np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]])
    >>> round(marginal_perplexity([[2, 1, 0], [0, 1, 5]], dictionary, 1.0, 0.5).value, 4)
    4.2615
    """
    data = CountMatrix.build(X, integers=True, caller="marginal_perplexity")
    tokens = data.row_sums
    if not tokens.any():
        raise InvalidInputError("X has no tokens, so it has no perplexity: pass rows with counts.")
    likelihood = auto(data, dictionary, shape, rate, **settings)
    log_orders = gammaln(tokens + 1.0) - log_factorials(data)
    with np.errstate(over="ignore"):
        value = float(np.exp(-(likelihood.values - log_orders).sum() / tokens.sum()))
    error = value * likelihood.total_std_error / float(tokens.sum()) if value < np.inf else 0.0
    return MarginalPerplexity(value, error, likelihood, log_orders, tokens)


def word_prediction(X: Any, held_out: Any, dictionary: Any, shape: Any, rate: Any, **settings: Any) -> LogLikelihood:
    """Log p(held-out cells | the other cells) of each row, activations integrated out.

    The difference of two marginal likelihoods: of all observed cells, and of those that are not held out.

    Parameters
    ----------
    X
        Rows of counts, of any accepted kind; missing cells are left out of both.
    held_out
        Which cells to predict: booleans of the shape of X, dense or sparse.
    dictionary, shape, rate
        As for `marginal_perplexity`.
    settings
        Arguments of `partwise.likelihood.auto`; each of the two likelihoods has the requested standard error.

    Returns
    -------
    LogLikelihood
        Values, standard errors and the smaller effective sample size of the two likelihoods. 0 for rows without
        held-out cells. -inf if the held-out cells are impossible, or if the given cells are, because nothing can then
        be said.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import word_prediction
    >>> dictionary = np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]])
    >>> word_prediction([[2, 1, 0]], [[False, False, True]], dictionary, 1.0, 0.5).values.round(4)
    array([-1.48])
    """
    data = CountMatrix.build(X, integers=True, caller="word_prediction")
    hidden = sp.csr_array(held_out)
    if hidden.shape != data.shape or hidden.dtype != np.bool_:
        raise InvalidInputError(
            f"held_out must be booleans of the shape {data.shape} of X, got {hidden.dtype} of shape {hidden.shape}."
        )
    given = Table(data.to_scipy(), data.row_labels, data.column_labels, data.missing_matrix() + hidden)
    everything = auto(data, dictionary, shape, rate, **settings)
    rest = auto(given, dictionary, shape, rate, **settings)
    possible = rest.values > -np.inf
    touched = np.diff(hidden.indptr) > 0
    values = np.where(possible, everything.values, -np.inf) - np.where(possible, rest.values, 0.0)
    errors = np.hypot(everything.std_errors, rest.std_errors)
    return LogLikelihood(
        np.where(touched, values, 0.0), np.where(touched, errors, 0.0), np.minimum(everything.ess, rest.ess)
    )
