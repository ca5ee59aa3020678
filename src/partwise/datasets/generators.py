"""Simulate data from each model of partwise, together with the true parameters."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from partwise.allocation.model import AllocationModel
from partwise.binary.model import KINDS, BinaryModel
from partwise.core.keys import RandomState
from partwise.datasets.simulate import Simulated, check_positive, checked_key, labelled, with_dirichlet_parts
from partwise.empirical_bayes.model import EmpiricalBayesModel
from partwise.errors import InvalidInputError
from partwise.priors.mixture import GammaMixture


def simulate_beta_gamma(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    shape: float = 1.0,
    concentration: float = 1.0,
    base_probability: float | None = None,
    mean_total: float = 100.0,
    dictionary_concentration: float = 0.1,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """Counts from the model of `partwise.BetaGammaPFA`. The sizes of its parts differ a lot.

    p_k ~ Beta(κ ε, κ (1 - ε)), h_nk ~ Gamma(shape, scale p_k / (1 - p_k)). One factor then rescales all scales to the
    expected total.

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    shape
        Shape of the gamma distributions of activations.
    concentration, base_probability
        κ and ε; None = 1 / n_components.
    mean_total
        Expected sum of a sample.
    dictionary_concentration
        Concentration of the Dirichlet distribution of parts.
    missing
        Share of the cells that are marked as not observed.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``.

    Examples
    --------
    >>> from partwise.datasets import simulate_beta_gamma
    >>> simulate_beta_gamma(20, 8, 3, random_state=0).activations.shape
    (20, 3)
    """
    key, generator = checked_key(n_samples, n_features, n_components, missing, random_state)
    base = 1.0 / n_components if base_probability is None else base_probability
    check_positive(shape=shape, concentration=concentration, base_probability=base, mean_total=mean_total)
    # as a ratio of gamma variables, which stays positive where a beta variable would round to 0 or 1
    odds = generator.gamma(concentration * base, size=n_components) + 1e-12
    odds /= generator.gamma(concentration * (1.0 - base) if base < 1.0 else 1.0, size=n_components) + 1e-12
    activations = generator.gamma(shape, mean_total * odds / (shape * odds.sum()), size=(n_samples, n_components))
    source = "simulated beta-gamma counts"
    return with_dirichlet_parts(key, generator, activations, n_features, dictionary_concentration, missing, source)


def simulate_allocation(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    activation_concentration: Any = 0.3,
    dictionary_concentration: Any = 0.1,
    mean_total: float = 100.0,
    length_shape: float = 100.0,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """Counts from the model of `partwise.AllocationNMF`: gamma lengths of samples, Dirichlet shares of parts.

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    activation_concentration
        β, concentration of the shares: a number, or one per part.
    dictionary_concentration
        α, concentration of the parts: a number, or one per feature.
    mean_total
        Expected sum of a sample.
    length_shape
        Shape of the gamma distribution of lengths. Larger values make lengths more similar.
    missing
        Share of the cells that are marked as not observed.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``.

    Examples
    --------
    >>> from partwise.datasets import simulate_allocation
    >>> simulate_allocation(20, 8, 3, random_state=0).dictionary.sum(axis=0).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    key, _ = checked_key(n_samples, n_features, n_components, missing, random_state)
    check_positive(mean_total=mean_total, length_shape=length_shape)
    priors = dictionary_concentration, activation_concentration, length_shape, length_shape / mean_total
    drawn = AllocationModel(n_features, n_components, *priors).simulate(key, n_samples)
    return labelled(key, drawn.counts, drawn.activations, drawn.dictionary, missing, "simulated allocation counts")


def simulate_empirical_bayes(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    activation_prior: GammaMixture | None = None,
    dictionary_prior: GammaMixture | None = None,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """Counts from the model of `partwise.EmpiricalBayesPoissonNMF`: a mixture prior for each column of both factors.

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    activation_prior, dictionary_prior
        Priors of all columns; None = most entries near 0, some large, and about 100 counts per sample.
    missing
        Share of the cells that are marked as not observed.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``.

    Examples
    --------
    >>> from partwise.datasets import simulate_empirical_bayes
    >>> simulate_empirical_bayes(20, 8, 3, random_state=0).table.shape
    (20, 8)
    """
    key, _ = checked_key(n_samples, n_features, n_components, missing, random_state)
    weights, shapes, means = np.array([0.7, 0.3]), np.array([1.0, 2.0]), np.array([0.1, 5.0])
    scale = 100.0 / (n_components * n_features * float(weights @ means) ** 2)
    first = activation_prior or GammaMixture(weights, shapes, means)
    second = dictionary_prior or GammaMixture(weights, shapes, scale * means)
    model = EmpiricalBayesModel((first,) * n_components, (second,) * n_components)
    counts, factors = model.simulate(key, n_samples, n_features)
    return labelled(key, counts, factors.activations, factors.dictionary, missing, "simulated empirical Bayes counts")


def simulate_binary(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    model: str = "beta-dir",
    beta_prior: Sequence[float] = (0.3, 0.3),
    concentration: float = 0.1,
    activation_concentration: float = 0.3,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """Bits from a model of `partwise.BinaryNMF`: P(x_nf = 1) = Σ_k w_fk h_nk.

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    model
        ``"beta-dir"``, ``"dir-beta"`` or ``"dir-dir"``.
    beta_prior
        α and β of the beta factor.
    concentration
        Concentration of the Dirichlet factor, for each part.
    activation_concentration
        Concentration of the second Dirichlet factor of Dir-Dir.
    missing
        Share of the cells that are marked as not observed.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``.

    Examples
    --------
    >>> from partwise.datasets import simulate_binary
    >>> sorted(set(simulate_binary(20, 8, 3, random_state=0).table.matrix.toarray().ravel().tolist()))
    [0, 1]
    """
    key, _ = checked_key(n_samples, n_features, n_components, missing, random_state)
    if model not in KINDS:
        raise InvalidInputError(f"model must be one of {', '.join(KINDS)}, got {model!r}.")
    alpha, beta = beta_prior
    check_positive(alpha=alpha, beta=beta)
    check_positive(concentration=concentration, activation_concentration=activation_concentration)
    kind = next(known for known in KINDS if known == model)
    drawn_from = BinaryModel(kind, n_components, alpha, beta, concentration, activation_concentration)
    drawn = drawn_from.simulate(key, n_samples, n_features)
    return labelled(key, drawn.bits, drawn.activations, drawn.dictionary, missing, f"simulated {model} bits")


def simulate_logistic(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    scale: float = 2.0,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """Bits from the model of `partwise.LogisticPCA`: P(x_nf = 1) = σ(Σ_k w_fk h_nk), with normal factors.

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    scale
        Standard deviation of the logits.
    missing
        Share of the cells that are marked as not observed.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``.

    Examples
    --------
    >>> from partwise.datasets import simulate_logistic
    >>> simulate_logistic(20, 8, 3, missing=0.1, random_state=0).table.missing.shape
    (20, 8)
    """
    key, _ = checked_key(n_samples, n_features, n_components, missing, random_state)
    check_positive(scale=scale)
    generator = key.for_stage("simulate").generator()
    activations = generator.normal(size=(n_samples, n_components))
    dictionary = generator.normal(scale=scale / np.sqrt(n_components), size=(n_features, n_components))
    bits = generator.random((n_samples, n_features)) < expit(activations @ dictionary.T)
    return labelled(key, bits.astype(np.int8), activations, dictionary, missing, "simulated logistic bits")
