"""Kernels of Gamma-Poisson factorization, each over one block of rows.

Sums are computed in loops that store nothing. If a loop also stores, the compiler checks at run time whether arrays
overlap, and runs one of two loops that add in different orders. The check depends on the addresses of the arrays, so
the last bits of a sum could differ between threads.
"""
