"""Does `compare` choose well? Simulated data, whose truth is known, and a table of how often the choice is right.

``python -m benchmarks.simulate [SETS]`` compares SETS data sets (10) of each kind and true number of parts, and writes
``benchmarks/results/simulate.md``. Each result is kept in ``simulate.jsonl``, so an interrupted run goes on.
A recommendation is right if it loses at most 0.02 nats per token (or cell) against the best candidate on fresh data
from the same true rates, all candidates being fitted to all of the data.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

RESULTS = Path(__file__).parent / "results"
KINDS = ("poisson", "r = 10", "r = 3", "r = 1", "zero-inflated", "two batches", "bits")
RANKS = (1, 3, 5, 10)
MODELS = {"counts": ["poisson", "negative-binomial", "gamma-poisson"], "bits": ["beta-dir", "logistic-pca"]}
LOSS = 0.02
# The rules of `compare` were chosen on seeds below this one.
FIRST_SEED = 100
_SHAPE, _TOKENS, _FRESH = (60, 30), 300, 5


def simulated(kind: str, rank: int, seed: int) -> tuple[Any, list[Any]]:
    """A data set, and fresh ones from the same true rates."""
    rng = np.random.default_rng([seed, rank, KINDS.index(kind)])
    n_rows, n_features = _SHAPE
    shares = rng.dirichlet(np.full(rank, 0.5), size=n_rows)
    if kind == "bits":
        rates = shares @ rng.beta(0.3, 0.3, size=(rank, n_features))
        return drawn(rng, kind, rates), [drawn(rng, kind, rates) for _ in range(_FRESH)]
    rates = _TOKENS * shares @ rng.dirichlet(np.full(n_features, 0.3), size=rank)
    if kind == "two batches":
        rates *= rng.gamma(20.0, 1 / 20.0, size=(2, n_features))[np.arange(n_rows) % 2]
    return drawn(rng, kind, rates), [drawn(rng, kind, rates) for _ in range(_FRESH)]


def drawn(rng: np.random.Generator, kind: str, rates: Any) -> Any:
    """Data with these rates and the noise of a kind."""
    if kind == "bits":
        return (rng.random(rates.shape) < rates).astype(np.int64)
    if kind.startswith("r = "):
        size = float(kind[4:])
        rates = rates * rng.gamma(size, 1.0 / size, size=rates.shape)
    counts = rng.poisson(rates)
    return counts * (rng.random(rates.shape) < 0.8) if kind == "zero-inflated" else counts


def fresh_score(model: Any, X: Any, fresh: list[Any]) -> float:
    """Log-likelihood of fresh data per token or cell, by the model's own noise, around its fit to X."""
    from partwise import BinaryMatrix, CountMatrix
    from partwise.contract import HiddenCells, ThinnedCounts

    bits, total, size = model.declares.data == "bits", 0.0, 0.0
    train: Any = (BinaryMatrix if bits else CountMatrix).build(X)
    for other in fresh:
        if bits:
            rows, columns = np.nonzero(np.ones(X.shape))
            held: Any = HiddenCells(train, rows, columns, other[rows, columns] > 0)
        else:
            held = ThinnedCounts(train, sp.csr_array(other), 1.0, noise=1.0)  # independent of the training data
        total, size = total + float(model.held_out_log_likelihood(held).sum()), size + held.size
    return total / size


def judged(kind: str, rank: int, seed: int) -> dict[str, Any]:
    """What `compare` recommends for a data set, and what that loses."""
    from partwise.selection import compare

    X, fresh = simulated(kind, rank, seed)
    found = compare(X, MODELS["bits" if kind == "bits" else "counts"], random_state=seed, progress=False)
    scores = {
        choice: fresh_score(found.choose(*choice).estimator(progress=False).fit(X), X, fresh)
        for choice in found.standings.rows
    }
    best = max(scores, key=lambda choice: scores[choice])
    return {
        "kind": kind,
        "rank": rank,
        "seed": seed,
        "recommended": list(found.recommended),
        "predicts_best": list(found.answers["best"]),
        "best": list(best),
        "loss": scores[best] - scores[found.recommended],
        "loss_of_best": scores[best] - scores[found.answers["best"]],
        "confidence": found.confidence,
    }


def run(n_sets: int, path: Path) -> list[dict[str, Any]]:
    """All results of the first data sets of each kind; those in the file are not computed again."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = {(one["kind"], one["rank"], one["seed"]): one for one in map(json.loads, lines)}
    for seed in range(FIRST_SEED, FIRST_SEED + n_sets):
        for kind in KINDS:
            for rank in RANKS:
                if (kind, rank, seed) in known:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    one = known[kind, rank, seed] = judged(kind, rank, seed)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(one) + "\n")
                print(one, flush=True)
    return [one for one in known.values() if FIRST_SEED <= one["seed"] < FIRST_SEED + n_sets]


def table(results: list[dict[str, Any]]) -> str:
    """One line per kind of data and true number of parts, and what they come to."""
    cells: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for one in results:
        cells[one["kind"], one["rank"]].append(one)
    lines = [
        "| data | true parts | data sets | recommended parts | right | worst loss | parts of best rule within 1 |",
        "|---|---|---|---|---|---|---|",
    ]
    for (kind, rank), found in sorted(cells.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1])):
        parts = ", ".join(str(one["recommended"][1]) for one in sorted(found, key=lambda one: one["seed"]))
        right, near = sum(one["loss"] <= LOSS for one in found), sum(is_near(one) for one in found)
        worst = max(one["loss"] for one in found)
        lines.append(f"| {kind} | {rank} | {len(found)} | {parts} | {right} | {worst:.3f} | {near} |")
    sure = [one for one in results if one["confidence"] == "high"]
    text = f"Of {len(results)} recommendations {sum(one['loss'] <= LOSS for one in results)} are right"
    text += f", of {len(sure)} with high confidence {sum(one['loss'] <= LOSS for one in sure)}."
    text += f" Under `--rule best` {sum(is_near(one) for one in results)} have the best number of parts within 1."
    rows = [[(one["loss"] <= LOSS, is_near(one)) for one in found] for found in cells.values()]
    shares = [[sum(column) / len(row) for column in zip(*row, strict=True)] for row in rows]
    enough = sum(right >= 0.9 for right, _ in shares), sum(near >= 0.8 for _, near in shares)
    text += (
        f" Of {len(rows)} rows of the table, {enough[0]} have at least 9 right recommendations in 10, and {enough[1]}"
    )
    text += " at least 8 such numbers of parts in 10."
    return "\n".join([*lines, "", text, ""])


def is_near(one: dict[str, Any]) -> bool:
    """Whether the best prediction has the number of parts that is best on fresh data, within 1."""
    return bool(abs(one["predicts_best"][1] - one["best"][1]) <= 1)


if __name__ == "__main__":
    found = run(int(sys.argv[1]) if len(sys.argv) > 1 else 10, RESULTS / "simulate.jsonl")
    (RESULTS / "simulate.md").write_text(table(found), encoding="utf-8")
