"""Mutation testing of kernels and samplers: do the tests notice a planted bug? Run by ``make mutate``."""
