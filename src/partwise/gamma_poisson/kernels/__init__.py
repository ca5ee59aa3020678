"""Kernels of Gamma-Poisson factorization, each over one block of rows.

Sums are taken in loops that store nothing. In a loop that also stores, the compiler asks at run time whether the arrays
overlap, and takes one of two loops that add in different orders. How it asks depends on the addresses of the arrays, so
that the same sum could have other bits on another thread.
"""
