"""What a model is: what its class declares, what a fitted model offers, and the base class that all models share.

Selection, reports, plots and the command use only what is named here. To add a family, subclass `CountModel` or
`BitModel`, declare what it does, and implement `_fit` and `_activations`.
"""

from partwise.contract.batch_labels import BatchPart
from partwise.contract.batches import BatchModel
from partwise.contract.bits import BitModel
from partwise.contract.counts import CellAllocations, CountModel
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.estimator import FactorizationEstimator
from partwise.contract.heldout import HiddenCells, ThinnedCounts
from partwise.contract.lists import FeatureLists, popular_features

__all__ = [
    "BatchModel",
    "BatchPart",
    "BitModel",
    "Candidate",
    "CellAllocations",
    "CountModel",
    "Declaration",
    "FactorizationEstimator",
    "FeatureLists",
    "HiddenCells",
    "ThinnedCounts",
    "popular_features",
]
