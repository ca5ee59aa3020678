"""`partwise score` of models whose activations have a prior: likelihoods of rows and in all, files, wrong columns."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise import AllocationNMF, BetaGammaPFA, PoissonNMF, load, read
from partwise.io import write_table
from partwise.likelihood import exact

FEATURES = [f"word{f}" for f in range(8)]
SAMPLES = [f"text{n}" for n in range(6)]


@pytest.fixture
def counts(folder: Any) -> Any:
    """A fitted model, `topics.partwise`, and new texts, `new.csv`."""
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(8, 0.3), size=3)
    X = rng.poisson(rng.gamma(0.5, 20.0, size=(46, 3)) @ parts)
    write_table("train.csv", X[6:], None, FEATURES)
    BetaGammaPFA(3, random_state=0, burn_in=10, n_draws=10).fit(read("train.csv")).save("topics.partwise")
    write_table("new.csv", X[:6], SAMPLES, FEATURES)
    return X[:6]


def _rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_exact_rows_and_totals(partwise: Any, counts: Any) -> None:
    found = partwise.json("score", "topics.partwise", "new.csv", "-o", "rows.csv")
    model: Any = load("topics.partwise")
    parameters = model.components_.T, model.shape_, model.rate_
    wanted = exact(counts, *parameters).values
    rows = _rows("rows.csv")
    assert [row["sample"] for row in rows] == SAMPLES
    np.testing.assert_allclose([float(row["marginal_log_likelihood"]) for row in rows], wanted, rtol=1e-12)
    assert [float(row["marginal_std_error"]) for row in rows] == [0.0] * 6
    assert [float(row["tokens"]) for row in rows] == counts.sum(axis=1).tolist()
    assert found["marginal_log_likelihood"] == pytest.approx(wanted.sum(), rel=1e-12)
    assert found["marginal_std_error"] == 0.0
    completion = model.completion(read("new.csv"), random_state=0)
    assert [float(row["held_out_log_likelihood"]) for row in rows] == completion.values.tolist()
    assert found["perplexity"] == pytest.approx(np.exp(-completion.per_token), rel=1e-12)


def test_completion_is_that_of_python(partwise: Any, counts: Any) -> None:
    model = PoissonNMF(3, random_state=0).fit(read("train.csv"))
    model.save("poisson.partwise")
    new = read("new.csv")
    for words, seed in (([], 0), (["--seed", "5"], 5)):
        found = partwise.json("score", "poisson.partwise", "new.csv", *words, "-o", "rows.csv")
        wanted = model.completion(new, random_state=seed)
        assert found["log_likelihood_per_token"] == wanted.per_token
        assert [float(row["held_out_log_likelihood"]) for row in _rows("rows.csv")] == wanted.values.tolist()
    assert partwise.json("score", "poisson.partwise", "new.csv")["log_likelihood_per_token"] == model.score(new)


def test_allocation_has_a_likelihood(partwise: Any, counts: Any) -> None:
    model = AllocationNMF(2, n_draws=5, burn_in=5, random_state=0).fit(read("train.csv"))
    model.save("allocation.partwise")
    found = partwise.json("score", "allocation.partwise", "new.csv", "--seed", "3", "-o", "rows.csv")
    wanted = model.log_likelihood(read("new.csv"), random_state=3, std_error=0.1)
    assert found["score"] == "document completion"
    assert found["marginal_log_likelihood"] == wanted.total
    assert found["tokens"] == counts.sum()
    assert [float(row["marginal_log_likelihood"]) for row in _rows("rows.csv")] == wanted.values.tolist()


def test_text_names_units_in_plain_words(partwise: Any, counts: Any) -> None:
    found = partwise.json("score", "topics.partwise", "new.csv")
    told = partwise("score", "topics.partwise", "new.csv").stdout
    assert f"held-out log-likelihood per token: {found['log_likelihood_per_token']:.5g} nats\n" in told
    assert f"log-likelihood of whole samples: {found['marginal_log_likelihood']:.8g} nats\n" in told
    assert "scored by: document completion\n" in told
    assert "_" not in told


def test_long_rows_are_estimated(partwise: Any, counts: Any) -> None:
    write_table("long.csv", counts * 60, SAMPLES, FEATURES)
    words = ["score", "topics.partwise", "long.csv", "--std-error", "0.05"]
    one = partwise.json(*words, "-o", "one.csv")
    two = partwise.json(*words, "-o", "two.csv", "--threads", "2")
    rows = _rows("one.csv")
    assert rows == _rows("two.csv")
    assert one["marginal_log_likelihood"] == two["marginal_log_likelihood"]
    errors = np.array([float(row["marginal_std_error"]) for row in rows])
    assert (errors <= 0.05).all()
    assert (errors > 0.0).any()
    assert one["marginal_std_error"] == pytest.approx(np.sqrt(np.sum(errors**2)))
    model: Any = load("topics.partwise")
    wanted = exact(counts * 60, model.components_.T, model.shape_, model.rate_, max_cost=1e12).values
    values = np.array([float(row["marginal_log_likelihood"]) for row in rows])
    assert (np.abs(values - wanted) <= 5 * errors + 1e-9).all()


def test_columns_may_be_in_another_order(partwise: Any, counts: Any) -> None:
    write_table("straight.csv", counts, SAMPLES, FEATURES)
    write_table("turned.csv", counts[:, ::-1], SAMPLES, FEATURES[::-1])
    straight, turned = (partwise.json("score", "topics.partwise", f"{name}.csv") for name in ("straight", "turned"))
    assert turned["log_likelihood_per_token"] == straight["log_likelihood_per_token"]
    assert turned["marginal_log_likelihood"] == straight["marginal_log_likelihood"]


def test_other_columns(partwise: Any, counts: Any) -> None:
    write_table("other.csv", counts, SAMPLES, [f"gene{f}" for f in range(8)])
    assert "gene0" in partwise.fails("score", "topics.partwise", "other.csv")
    write_table("few.csv", counts[:, :5], SAMPLES, FEATURES[:5])
    told = partwise("score", "topics.partwise", "few.csv").stderr
    assert "X has 5 of the 8 features of the model; the other 3 count as missing" in told


@pytest.mark.parametrize(
    ("value", "words"), [(0.5, "whole number"), (-1.0, "Negative")], ids=["a fraction", "a negative number"]
)
def test_no_counts(partwise: Any, counts: Any, folder: Any, value: float, words: str) -> None:
    bad = counts.astype(float)
    bad[2, 3] = value
    write_table("bad.csv", bad, SAMPLES, FEATURES)
    message = partwise.fails("score", "topics.partwise", "bad.csv", "-o", "rows.csv")
    assert words in message
    assert "text2" in message
    assert not (folder / "rows.csv").exists()


def test_nothing_to_score(partwise: Any, counts: Any) -> None:
    write_table("zero.csv", 0 * counts, SAMPLES, FEATURES)
    assert "too few tokens" in partwise.fails("score", "topics.partwise", "zero.csv")


def test_missing_cells(partwise: Any, counts: Any) -> None:
    holes = counts.astype(float)
    holes[0, 2] = np.nan
    write_table("holes.csv", holes, SAMPLES, FEATURES)
    partwise("score", "topics.partwise", "holes.csv", "-o", "rows.csv")
    model: Any = load("topics.partwise")
    wanted = exact(holes, model.components_.T, model.shape_, model.rate_).values
    np.testing.assert_allclose([float(row["marginal_log_likelihood"]) for row in _rows("rows.csv")], wanted, rtol=1e-12)
