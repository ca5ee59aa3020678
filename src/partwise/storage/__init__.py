"""Rows on disk: where they come from, how they are written by one process or by workers, how they are read."""
