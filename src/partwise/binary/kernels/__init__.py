"""Compiled loops of binary factorization.

One side of the table, called its rows here, has a beta factor (or the second Dirichlet factor), the other, its columns,
a Dirichlet factor: samples and features for Beta-Dir, features and samples for Dir-Beta. Observed cells are listed row
by row as codes, 2 x column + bit; labels of cells are kept column by column.
"""
