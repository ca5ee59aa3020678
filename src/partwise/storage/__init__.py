"""Rows on disk: where they come from, how one process or many workers write them, and how they are read."""
