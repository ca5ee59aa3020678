"""Reports: a fitted model as one HTML page that needs neither a server nor the network."""

from partwise.reporting.page import report

__all__ = ["report"]
