"""Wang, Empirical Bayes Poisson matrix factorization: the experiments that the write-up does not have.

Errors of Poisson means by family of priors, recovery of sparse factors, and prediction of thinned counts.
"""

from partwise.reproduce.ebpmf import poisson_means, prediction, recovery

EXPERIMENTS = (poisson_means.make, recovery.make, prediction.make)
