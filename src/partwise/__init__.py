"""Find the parts that counts and yes/no tables are made of.

The package is lazy (PEP 562): a public name is imported when it is first used, so that ``import partwise`` and the
command's help do not wait for compilers and scientific libraries.
"""

from typing import TYPE_CHECKING, Any

from partwise._registry import PUBLIC, resolve
from partwise._version import __version__

if TYPE_CHECKING:  # names for type checkers and editors; a test keeps these and __all__ equal to the table
    from partwise import (
        allocation,
        bridges,
        contract,
        datasets,
        errors,
        gamma_poisson,
        likelihood,
        metrics,
        pl,
        plotting,
        refit,
        restarts,
        selection,
        text,
        tl,
    )
    from partwise.allocation.estimator import AllocationNMF
    from partwise.binary.estimator import BinaryNMF
    from partwise.binary.logistic_pca import LogisticPCA
    from partwise.contract.model_file import load
    from partwise.core.checkpoint import Checkpoint
    from partwise.core.coerce import as_table
    from partwise.core.data import BinaryMatrix, CountMatrix
    from partwise.empirical_bayes.estimator import EmpiricalBayesPoissonNMF
    from partwise.empirical_bayes.means import ebpm
    from partwise.gamma_poisson.beta_gamma import BetaGammaPFA
    from partwise.gamma_poisson.estimator import GammaPoissonNMF
    from partwise.io import read
    from partwise.io.table import Table
    from partwise.negative_binomial.estimator import NegativeBinomialNMF
    from partwise.poisson.estimator import PoissonNMF
    from partwise.refit.matching import match
    from partwise.reporting.page import report
    from partwise.restarts.consensus import consensus
    from partwise.storage.on_disk import on_disk
    from partwise.text.counting import count_texts

__all__ = [
    "AllocationNMF",
    "BetaGammaPFA",
    "BinaryMatrix",
    "BinaryNMF",
    "Checkpoint",
    "CountMatrix",
    "EmpiricalBayesPoissonNMF",
    "GammaPoissonNMF",
    "LogisticPCA",
    "NegativeBinomialNMF",
    "PoissonNMF",
    "Table",
    "__version__",
    "allocation",
    "as_table",
    "bridges",
    "consensus",
    "contract",
    "count_texts",
    "datasets",
    "ebpm",
    "errors",
    "gamma_poisson",
    "likelihood",
    "load",
    "match",
    "metrics",
    "on_disk",
    "pl",
    "plotting",
    "read",
    "refit",
    "report",
    "restarts",
    "selection",
    "text",
    "tl",
]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = resolve(PUBLIC[name])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
