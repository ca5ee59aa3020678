"""Capdevila et al. (2018), A left-to-right algorithm for likelihood estimation in Gamma-Poisson factor analysis.

Table 1, Figures 1 to 3, the same errors by length of document, and what the paper leaves as future work: document
completion beside the exact predictive probability.
"""

from partwise.reproduce.l2r import by_collection

EXPERIMENTS = (by_collection.make,)
