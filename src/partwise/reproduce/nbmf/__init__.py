"""Lumbreras, Filstroff & Févotte (2020), Bayesian mean-parameterized nonnegative binary matrix factorization.

Figures 1, 2 and 5 to 11, the sensitivity to the concentration, the splits that reference numbers are known for, and
what the text leaves open: where its Dir-Dir results come from. Figures 3 and 4 are drawings of the models.
"""

from partwise.reproduce.nbmf import (
    concentration,
    convergence,
    definitions,
    dictionaries,
    dir_dir,
    prediction,
    references,
)

_PARTS = (definitions, convergence, dictionaries, references, dir_dir, concentration, prediction)
EXPERIMENTS = tuple(part.make for part in _PARTS)
