"""Text in, counts out: documents from any source become tables of words with names and metadata."""

from partwise.text.counter import TextCounter
from partwise.text.counting import count_texts

__all__ = ["TextCounter", "count_texts"]
