"""Algorithms of the allocation model."""
