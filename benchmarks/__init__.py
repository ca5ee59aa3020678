"""Measurements of partwise beside named peers: ``python -m benchmarks`` writes one table."""
