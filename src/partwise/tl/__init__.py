"""Tools for AnnData that work like scanpy's: results go into the object, under a key that you choose.

Fit with `fit`, find marker genes with `markers`, project other cells with `project`, and find stable parts with
`consensus`. An object can hold several models under different keys. For MuData, pass the modality.
"""

from partwise.tl.fitting import consensus, fit, markers, project, stored_model

__all__ = ["consensus", "fit", "markers", "project", "stored_model"]
