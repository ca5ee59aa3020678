"""Pictures of models in AnnData objects: what cells are made of, marker genes, activations on an embedding."""

from partwise.pl.pictures import markers, structure, usage

__all__ = ["markers", "structure", "usage"]
