"""Algorithms for binary factorization, one per file."""
