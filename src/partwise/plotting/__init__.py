"""Pictures of fits, drawn by matplotlib (the extra ``plot``) through its object interface: no display is needed.

Functions that draw one picture a part return the figure and take ``fig=`` (a figure or subfigure); functions that draw
one picture return its axes and take ``ax=``. Colours are safe for colour-blind readers, and readable in print.
"""

from partwise.plotting._figures import save_figure
from partwise.plotting.boxes import plot_box_panels, plot_boxes
from partwise.plotting.features import plot_top_features, top_features
from partwise.plotting.heatmap import cluster_order, group_order, largest_parts, plot_dictionary, plot_matrix
from partwise.plotting.images import plot_parts_images
from partwise.plotting.trace import plot_trace

__all__ = [
    "cluster_order",
    "group_order",
    "largest_parts",
    "plot_box_panels",
    "plot_boxes",
    "plot_dictionary",
    "plot_matrix",
    "plot_parts_images",
    "plot_top_features",
    "plot_trace",
    "save_figure",
    "top_features",
]
