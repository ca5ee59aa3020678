"""Compiled loops of binary factorization.

The rows, here, are the side of the table that has a beta factor (or the second Dirichlet factor). The columns are the
side with a Dirichlet factor. They are samples and features for Beta-Dir, features and samples for Dir-Beta. Observed
cells are listed row by row as codes, 2 x column + bit. Labels of cells are stored column by column.
"""
