"""Figures of models in AnnData objects: structure plots, marker genes, and activations on an embedding."""

from partwise.pl.pictures import markers, structure, usage

__all__ = ["markers", "structure", "usage"]
