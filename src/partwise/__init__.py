"""Find the parts that counts and yes/no tables are made of.

The package is lazy (PEP 562): a public name is imported when it is first used, so that ``import partwise`` and the
command's help do not wait for compilers and scientific libraries.
"""

from typing import TYPE_CHECKING, Any

from partwise._registry import PUBLIC, resolve
from partwise._version import __version__

if TYPE_CHECKING:  # names for type checkers and editors; a test keeps these equal to the table
    from partwise import allocation as allocation
    from partwise import bridges as bridges
    from partwise import contract as contract
    from partwise import datasets as datasets
    from partwise import errors as errors
    from partwise import gamma_poisson as gamma_poisson
    from partwise import likelihood as likelihood
    from partwise import metrics as metrics
    from partwise import pl as pl
    from partwise import plotting as plotting
    from partwise import refit as refit
    from partwise import restarts as restarts
    from partwise import selection as selection
    from partwise import text as text
    from partwise import tl as tl
    from partwise.allocation.estimator import AllocationNMF as AllocationNMF
    from partwise.binary.estimator import BinaryNMF as BinaryNMF
    from partwise.binary.logistic_pca import LogisticPCA as LogisticPCA
    from partwise.contract.model_file import load as load
    from partwise.core.checkpoint import Checkpoint as Checkpoint
    from partwise.core.coerce import as_table as as_table
    from partwise.core.data import BinaryMatrix as BinaryMatrix
    from partwise.core.data import CountMatrix as CountMatrix
    from partwise.empirical_bayes.estimator import EmpiricalBayesPoissonNMF as EmpiricalBayesPoissonNMF
    from partwise.empirical_bayes.means import ebpm as ebpm
    from partwise.gamma_poisson.beta_gamma import BetaGammaPFA as BetaGammaPFA
    from partwise.gamma_poisson.estimator import GammaPoissonNMF as GammaPoissonNMF
    from partwise.io import read as read
    from partwise.io.table import Table as Table
    from partwise.negative_binomial.estimator import NegativeBinomialNMF as NegativeBinomialNMF
    from partwise.poisson.estimator import PoissonNMF as PoissonNMF
    from partwise.refit.matching import match as match
    from partwise.reporting.page import report as report
    from partwise.restarts.consensus import consensus as consensus
    from partwise.storage.on_disk import on_disk as on_disk
    from partwise.text.counting import count_texts as count_texts

__all__ = ["__version__"]
__all__.extend(PUBLIC)  # not in one list: the documentation tool reads lists of texts only


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = resolve(PUBLIC[name])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
