"""Convert fitted models for other packages: pyLDAvis.

For AnnData, use `partwise.tl` and `partwise.pl`. For ArviZ, estimators with a sampler have ``to_arviz``. For pandas and
polars, use scikit-learn's ``set_output``. scikit-learn pipelines and searches need no conversion.
"""

from partwise.bridges.ldavis import to_pyldavis

__all__ = ["to_pyldavis"]
