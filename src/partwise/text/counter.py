"""Word counts with the names of the words, for scikit-learn pipelines."""

from typing import Any, Self

from sklearn.feature_extraction.text import CountVectorizer

from partwise.io.table import Table, as_labels, text_array


class TextCounter(CountVectorizer):  # type: ignore[misc]  # of scikit-learn, which has no types
    """scikit-learn's ``CountVectorizer``, with output that keeps the words.

    Between the steps of a pipeline, scikit-learn passes sparse matrices without names, so a model after a
    ``CountVectorizer`` does not get the words. After a ``TextCounter`` it does: its output is a `Table`, which every
    estimator of partwise accepts. Parameters are those of ``CountVectorizer``. The texts are kept as metadata.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from partwise import PoissonNMF
    >>> from partwise.text import TextCounter
    >>> texts = ["cats and dogs", "cats, cats", "stocks and bonds", "bonds, stocks"]
    >>> pipeline = make_pipeline(TextCounter(stop_words="english"), PoissonNMF(2, random_state=0)).fit(texts)
    >>> pipeline[-1].feature_names_in_.tolist()
    ['bonds', 'cats', 'dogs', 'stocks']
    """

    def fit_transform(self, raw_documents: Any, y: Any = None) -> Table:
        """Learn the vocabulary of texts, and count the words.

        Parameters
        ----------
        raw_documents
            Texts.
        y
            Ignored.
        """
        return self._named(super().fit_transform, raw_documents)

    def transform(self, raw_documents: Any) -> Table:
        """Count words of the vocabulary; other words are ignored.

        Parameters
        ----------
        raw_documents
            Texts.
        """
        return self._named(super().transform, raw_documents)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Let a pipeline set the output of its other steps. The output of this step is always a `Table`.

        Parameters
        ----------
        transform
            Ignored.
        """
        return self

    def _named(self, count: Any, texts: Any) -> Table:
        texts = texts if isinstance(texts, str) else list(texts)
        metadata = {"text": text_array(texts)} if self.input == "content" else {}
        return Table(count(texts), None, as_labels(self.get_feature_names_out()), source="texts", metadata=metadata)
