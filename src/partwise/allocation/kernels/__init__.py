"""Compiled loops of the allocation model."""
