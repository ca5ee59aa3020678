"""Reports: a fitted model as one page of HTML that needs nothing else, neither a server nor the network."""

from partwise.reporting.page import report

__all__ = ["report"]
