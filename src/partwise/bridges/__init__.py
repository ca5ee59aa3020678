"""Fitted models in the form that other packages expect: AnnData and pyLDAvis.

ArviZ has a method of the estimators that sample (``to_arviz``); pandas and polars come by scikit-learn's
``set_output``; pipelines and searches of scikit-learn need nothing.
"""

from partwise.bridges.annotated import add_to_anndata
from partwise.bridges.ldavis import to_pyldavis

__all__ = ["add_to_anndata", "to_pyldavis"]
