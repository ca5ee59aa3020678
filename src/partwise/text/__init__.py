"""Text in, counts out: documents of any source become tables of words that keep their names and metadata."""

from partwise.text.counter import TextCounter
from partwise.text.counting import count_texts

__all__ = ["TextCounter", "count_texts"]
