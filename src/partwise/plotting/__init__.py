"""Figures of fits, drawn by matplotlib (the extra ``plot``) through its object interface: no display is needed.

Functions that draw one panel per part return the figure and take ``fig=`` (a figure or subfigure). Functions that draw
a single panel return its axes and take ``ax=``. Colours are safe for colour-blind readers and readable in print.
"""

from partwise.plotting.clustergram import plot_clustergram, plot_stability
from partwise.plotting.features import plot_top_features, top_features
from partwise.plotting.figures import save_figure
from partwise.plotting.heatmap import plot_dictionary, plot_matrix
from partwise.plotting.images import plot_parts_images
from partwise.plotting.order import cluster_order, group_order, largest_parts
from partwise.plotting.predictive import (
    Check,
    PredictiveChecks,
    plot_predictive_check,
    plot_predictive_checks,
    predictive_checks,
)
from partwise.plotting.rank_curve import plot_rank_selection
from partwise.plotting.reconstruction import plot_reconstruction
from partwise.plotting.signatures import plot_signature_fit, plot_signatures, signature_channels
from partwise.plotting.structure import part_shares, plot_structure
from partwise.plotting.trace import plot_column_norms, plot_trace
from partwise.plotting.volcano import plot_volcano

__all__ = [
    "Check",
    "PredictiveChecks",
    "cluster_order",
    "group_order",
    "largest_parts",
    "part_shares",
    "plot_clustergram",
    "plot_column_norms",
    "plot_dictionary",
    "plot_matrix",
    "plot_parts_images",
    "plot_predictive_check",
    "plot_predictive_checks",
    "plot_rank_selection",
    "plot_reconstruction",
    "plot_signature_fit",
    "plot_signatures",
    "plot_stability",
    "plot_structure",
    "plot_top_features",
    "plot_trace",
    "plot_volcano",
    "predictive_checks",
    "save_figure",
    "signature_channels",
    "top_features",
]
