"""Fitted models in the form that other packages expect: pyLDAvis.

`partwise.tl` and `partwise.pl` are for AnnData. ArviZ has a method of the estimators that sample (``to_arviz``); pandas
and polars come by scikit-learn's ``set_output``; pipelines and searches of scikit-learn need nothing.
"""

from partwise.bridges.ldavis import to_pyldavis

__all__ = ["to_pyldavis"]
