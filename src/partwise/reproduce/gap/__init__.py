"""Filstroff et al. (2018), Closed-form marginal likelihood in Gamma-Poisson matrix factorization.

Figures 1 to 4, the exact likelihood of the data set for which the paper could not compute it, the same at three scales,
and surplus components on twenty data sets. The full version takes about six hours, most of them for Figure 4.
"""

from partwise.reproduce.gap import contour, nips, scales, surplus

EXPERIMENTS = (contour.make, scales.make, surplus.make, nips.make)
