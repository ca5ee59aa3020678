"""Tools for AnnData, in the way of scanpy: results go into the object, under a key of your choice.

Fit with `fit`, find marker genes with `markers`, project other cells with `project`, and make a consensus of restarts
with `consensus`. Several models live in one object under different keys. MuData objects are processed by modality.
"""

from partwise.tl.fitting import consensus, fit, markers, project, stored_model

__all__ = ["consensus", "fit", "markers", "project", "stored_model"]
