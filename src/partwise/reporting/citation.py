"""How to cite a fit: partwise itself, and the paper of its model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from partwise._version import __version__

_KL = (
    "Lee, D. D. & Seung, H. S. (2001). Algorithms for non-negative matrix factorization. Advances in Neural "
    "Information Processing Systems 13."
)
PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "PoissonNMF": _KL,
        "GammaPoissonNMF": "Filstroff, L., Lumbreras, A. & Févotte, C. (2018). Closed-form marginal likelihood in "
        "Gamma-Poisson matrix factorization. International Conference on Machine Learning.",
        "BetaGammaPFA": "Zhou, M., Hannah, L., Dunson, D. & Carin, L. (2012). Beta-negative binomial process and "
        "Poisson factor analysis. International Conference on Artificial Intelligence and Statistics.",
        "AllocationNMF": "Cemgil, A. T., Kurutmaz, M. B., Yıldırım, S., Barsbey, M. & Şimşekli, U. (2019). Bayesian "
        "allocation model: inference by sequential Monte Carlo for nonnegative tensor factorizations and topic models "
        "using Pólya urns. arXiv:1903.04478.",
        "EmpiricalBayesPoissonNMF": "Wang, Z. Empirical Bayes Poisson matrix factorization.",
        "BinaryNMF": "Lumbreras, A., Filstroff, L. & Févotte, C. (2020). Bayesian mean-parameterized nonnegative "
        "binary matrix factorization. Data Mining and Knowledge Discovery. doi:10.1007/s10618-020-00712-w",
        "LogisticPCA": "Collins, M., Dasgupta, S. & Schapire, R. E. (2002). A generalization of principal components "
        "analysis to the exponential family. Advances in Neural Information Processing Systems 14.",
    }
)
"""By estimator."""

RELEVANCE = (
    "Sievert, C. & Shirley, K. (2014). LDAvis: a method for visualizing and interpreting topics. Workshop on "
    "Interactive Language Learning, Visualization, and Interfaces."
)
"""Where the relevance of features comes from."""


def citations(model: Any) -> list[str]:
    """What to cite, a line each.

    Parameters
    ----------
    model
        Fitted estimator.
    """
    own = (
        f"The partwise developers. partwise {__version__}: probabilistic nonnegative matrix factorization of count and "
        "binary data."
    )
    paper = PAPERS.get(type(model).__name__)
    return [own, *([] if paper is None else [paper]), RELEVANCE]
