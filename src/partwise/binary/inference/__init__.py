"""Algorithms of binary factorization, one file each."""
