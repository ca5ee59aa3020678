"""Bayesian NMF as an allocation model: Table 1 and Figure 1 of the paper of that name.

Table 1 with the gain against iterations, what the form of Eq. 14 loses and what whole numbers gain, and Figure 1.
"""

from partwise.reproduce.allocation import figure1, table1

EXPERIMENTS = (table1.make, figure1.make)
