"""Kernels of the likelihood package, one file for each estimator or task; the bottom layer, like all kernels."""
