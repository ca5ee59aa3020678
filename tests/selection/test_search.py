"""The search: over-dispersed counts are split fairly, budgets repeat to the bit, rules and interrupts are obeyed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from partwise import CountMatrix
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.selection import Choice, Comparison, Dispersion, compare
from partwise.selection.candidates import candidates_of, too_large_for
from partwise.selection.fitting import N_FOLDS, Fitting, cell_fold, count_fold
from partwise.selection.records import Task
from partwise.selection.search import Search
from partwise.selection.standings import Standings

FAST = ["poisson", "negative-binomial"]


def noisy(seed: int, size: float, n_rows: int = 60) -> np.ndarray:
    """Three parts, 30 features, 300 tokens per row, gamma noise of a size in each cell."""
    rng = np.random.default_rng(seed)
    rates = 300 * rng.dirichlet(np.full(3, 0.5), size=n_rows) @ rng.dirichlet(np.full(30, 0.3), size=3)
    return rng.poisson(rates * rng.gamma(size, 1.0 / size, size=rates.shape))


@pytest.fixture(scope="module")
def quick() -> Comparison:
    return compare(noisy(0, 3.0), FAST, random_state=0)


def scores(found: Comparison) -> list[tuple[str, int, float]]:
    return [(row.model, row.rank, row.score) for row in found.table()]


class TestFolds:
    def test_fifths_are_disjoint_and_make_up_the_data(self) -> None:
        data = CountMatrix.build(noisy(0, 1.0))
        held = [count_fold(data, Key(1), restart, 1.0).held_out.toarray() for restart in range(N_FOLDS)]
        np.testing.assert_array_equal(sum(held), noisy(0, 1.0))
        assert all(abs(part.sum() / data.total - 0.2) < 0.05 for part in held)
        again = count_fold(data, Key(1), N_FOLDS, 1.0)
        assert np.any(again.held_out.toarray() != held[0])
        np.testing.assert_array_equal(again.train.to_scipy().toarray() + again.held_out.toarray(), noisy(0, 1.0))

    def test_some_cells_of_large_data_take_turns_whatever_they_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(0)
        X = rng.poisson(np.outer(rng.gamma(1.0, 1.0, size=200), rng.gamma(0.2, 1.0, size=300)))
        data = CountMatrix.build(X)
        monkeypatch.setattr("partwise.selection.fitting._MOST_CELLS", 20_000)
        folds = [cell_fold(data, Key(1), restart) for restart in range(N_FOLDS)]
        cells = np.concatenate([fold.rows * 300 + fold.columns for fold in folds])
        assert cells.size == np.unique(cells).size < 20_000
        for fold in folds:
            hidden = fold.train.missing_matrix().toarray()
            np.testing.assert_array_equal(np.nonzero(hidden), (fold.rows, fold.columns))
            np.testing.assert_array_equal(fold.train.to_scipy().toarray(), np.where(hidden, 0, X))
            np.testing.assert_array_equal(fold.counts, X[hidden])
        # A cell is drawn by its expected count m = row total x column total / total, with probability 1 - exp(-20,000 m
        # / total); so its share of the drawn cells does not depend on what it holds. 5 standard errors are allowed.
        drawn = np.zeros(X.size, dtype=bool)
        drawn[cells] = True
        chance = 1.0 - np.exp(-20_000 * np.outer(X.sum(axis=1), X.sum(axis=0)).ravel() / X.sum() ** 2)
        for held in (X.ravel() == 0, X.ravel() > 0):
            spread = np.sqrt(np.sum((chance * (1.0 - chance))[held]))
            assert abs(drawn[held].sum() - chance[held].sum()) < 5.0 * spread

    def test_tenths_of_the_cells_of_small_counts_are_all_of_them(self) -> None:
        folds = [cell_fold(CountMatrix.build(np.ones((20, 30))), Key(1), restart) for restart in range(2 * N_FOLDS)]
        cells = np.sort(np.concatenate([fold.rows * 30 + fold.columns for fold in folds]))
        np.testing.assert_array_equal(cells, np.arange(600))

    @pytest.mark.parametrize("size", [0.5, 2.0, 20.0])
    def test_halves_are_independent_and_negative_binomial(self, size: float) -> None:
        # 90,000 cells of one mean: a correlation of independent halves has a standard error of 0.0033.
        rng = np.random.default_rng(0)
        data = CountMatrix.build(rng.poisson(5.0 * rng.gamma(size, 1.0 / size, size=(300, 300))))
        fold, plain = count_fold(data, Key(0), 2, size), count_fold(data, Key(0), 2)
        train, held = fold.train.to_scipy().toarray(), fold.held_out.toarray()
        assert abs(np.corrcoef(train.ravel(), held.ravel())[0, 1]) < 0.015
        assert held.var() == pytest.approx(1.0 + 5.0 / size, rel=0.1)  # mean 1, size r / 5
        assert train.var() == pytest.approx(4.0 + 20.0 / size, rel=0.1)  # mean 4, size 4 r / 5
        # what it is for: plain thinning leaves them dependent
        assert np.corrcoef(plain.train.to_scipy().toarray().ravel(), plain.held_out.toarray().ravel())[0, 1] > 0.05


class TestOverDispersion:
    @pytest.mark.parametrize("size", [10.0, 3.0])
    def test_noise_is_not_taken_for_parts(self, size: float) -> None:
        found = compare(noisy(1, size), ["poisson"], [1, 2, 3, 4, 6, 10], random_state=0, n_restarts=2)
        assert 2 <= found.recommended.rank <= 4
        assert found.noise is not None
        assert not found.noise.poisson
        assert found.hidden_cells
        assert "can look like such noise. So whole cells were held out" in found.notes[0]

    def test_of_large_data_some_cells_are_held_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("partwise.selection.fitting._MOST_CELLS", 1000)
        found = compare(noisy(1, 3.0), ["poisson"], [1, 2, 3, 4, 6, 10], random_state=0, n_restarts=2)
        assert 2 <= found.recommended.rank <= 4
        assert found.hidden_cells

    def test_models_that_take_no_missing_cells_are_compared_by_thinning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Fitting, "hides_cells", property(lambda self: False))
        found = compare(noisy(1, 3.0), ["poisson"], [1, 2, 3, 4, 6, 10], random_state=0, n_restarts=2)
        assert 2 <= found.recommended.rank <= 4
        assert "beta-binomial thinning" in found.notes[0]

    def test_plain_thinning_would_take_noise_for_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        poisson = Dispersion(np.inf, 0.0, 0.5), np.inf
        monkeypatch.setattr("partwise.selection.comparing.found_noise", lambda data, key, n_jobs: poisson)
        found = compare(noisy(1, 3.0), ["poisson"], [1, 2, 3, 4, 6, 10], random_state=0, n_restarts=2)
        assert found.recommended.rank >= 6
        assert "held out at random" in found.notes[0]

    def test_the_model_of_the_noise_wins(self, quick: Comparison) -> None:
        assert quick.recommended == ("negative-binomial", 3)
        assert quick.difference(quick.recommended, quick.standings.best_of("poisson")).significant
        assert quick.sentence.startswith("Take negative-binomial with 3 parts: it predicts held-out tokens best, at ")
        assert " confidence: of 100 bootstrap resamples of rows and restarts" in quick.sentence


class TestBudget:
    @pytest.mark.parametrize("n_fits", [1, 3, 7])
    def test_some_fits_give_the_same_with_any_number_of_threads(self, quick: Comparison, n_fits: int) -> None:
        one, two = (compare(noisy(0, 3.0), FAST, random_state=0, max_fits=n_fits, n_jobs=jobs) for jobs in (1, 2))
        assert scores(one) == scores(two)
        assert one.n_fits == two.n_fits == n_fits == len(one.fits)
        assert one.stopped == "budget"
        assert f"This is the best answer after {n_fits} fits: the budget was used up" in one.notes[-1]
        assert "Provisional: " in one.sentence
        # the same fits as in the whole search
        assert all(np.array_equal(fit.rows, quick.fits[task].rows) for task, fit in one.fits.items())

    def test_a_round_of_restarts_counts_as_a_whole(self) -> None:
        # Under Poisson noise both models are in the contest, so that a round of restarts has at least two fits.
        found = compare(noisy(0, 1e9), FAST, [2, 3], random_state=0, max_fits=5, n_restarts=2)
        assert {task.restart for task in found.fits} == {0}
        assert (found.n_fits, len(found.fits), found.stopped) == (5, 4, "budget")

    def test_the_first_fit_is_always_done(self) -> None:
        found = compare(noisy(0, 3.0), FAST, random_state=0, max_seconds=1e-9)
        assert (found.n_fits, found.stopped) == (1, "budget")

    def test_no_fit_begins_that_would_end_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 0.0
        monkeypatch.setattr("partwise.selection.search.time.monotonic", lambda: now)
        fit = Fitting.fit

        def slow(self: Fitting, task: Task) -> Any:
            nonlocal now
            now += 30.0
            return replace(fit(self, task), seconds=30.0)

        monkeypatch.setattr(Fitting, "fit", slow)
        found = compare(noisy(0, 3.0), FAST, random_state=0, max_seconds=100.0)
        assert (found.n_fits, found.stopped, now) == (3, "budget", 90.0)

    def test_time_budget_is_repeated_by_its_fits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ticks = iter(range(10**6))
        monkeypatch.setattr("partwise.selection.search.time.monotonic", lambda: float(next(ticks)))
        stopped = compare(noisy(0, 3.0), FAST, random_state=0, max_seconds=8.0)
        assert 0 < stopped.n_fits < 12
        again = compare(noisy(0, 3.0), FAST, random_state=0, max_fits=stopped.n_fits)
        assert scores(again) == scores(stopped)
        assert again.sentence == stopped.sentence

    def test_an_interrupt_gives_the_best_answer_so_far(
        self, quick: Comparison, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fit = Fitting.fit

        def interrupted(self: Fitting, task: Task) -> Any:
            if task.rank == 4:
                raise KeyboardInterrupt
            return fit(self, task)

        monkeypatch.setattr(Fitting, "fit", interrupted)
        found = compare(noisy(0, 3.0), FAST, random_state=0)
        assert found.stopped == "interrupted"
        assert found.n_fits == 2  # the cheapest model with 1 and 2 parts
        monkeypatch.undo()
        assert scores(compare(noisy(0, 3.0), FAST, random_state=0, max_fits=2)) == scores(found)

    def test_an_interrupt_before_the_first_fit_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(self: Fitting, task: Task) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(Fitting, "fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compare(noisy(0, 3.0), FAST, random_state=0)

    def test_full_effort_tries_everything_and_agrees(self, quick: Comparison) -> None:
        full = compare(noisy(0, 3.0), FAST, random_state=0, effort="full", n_restarts=2)
        assert full.standings.ranks_of("poisson") == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15]
        assert full.recommended == quick.recommended

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"rule": "nice"}, "rule must be one of best, simple, stable, got 'nice'"),
            ({"effort": "some"}, "effort must be one of quick, full, got 'some'"),
            ({"max_fits": 0}, "max_fits must be at least 1, got 0"),
            ({"max_seconds": 0.0}, "max_seconds must be positive, got 0"),
        ],
    )
    def test_refused(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            compare(noisy(0, 3.0), **arguments)


def test_a_model_of_wide_noise_that_leads_with_few_parts_does_not_end_the_climb_of_others() -> None:
    # Six parts without over-dispersion: with 1, 2 and 4 parts structure looks like noise, and negative-binomial leads.
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.7, 600.0, size=(80, 6)) @ rng.dirichlet(np.full(40, 0.15), size=6) + 0.5)
    found = compare(X, FAST, random_state=0, n_restarts=1)
    ahead = found.difference(("negative-binomial", 2), ("poisson", 2))
    assert ahead.value > 4 * ahead.std_error
    assert found.recommended.rank == 6
    assert found.recommended.model == "poisson"
    # The first model was far behind with one part, so that the others did not try it.
    assert found.standings.ranks_of("poisson")[0] == 1
    assert found.standings.ranks_of("negative-binomial")[0] == 2


def test_fewer_parts_than_the_first_model_likes_are_found_all_the_same() -> None:
    # One part and strong noise: the first model needs parts for the noise, and the second is refined downwards.
    quick = Search.__new__(Search)
    quick._cheap_first, quick._smallest = ["wide"], {"wide": 1}
    rows = {Choice("wide", rank): {0: np.arange(50.0) * 1e-6 - 0.001 * rank} for rank in (8, 15)}
    quick._standings = lambda: Standings(rows, {0: 50.0}, ["wide"])  # type: ignore[method-assign]
    (_, tasks) = next(quick._refined([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15]))
    assert [task.rank for task in tasks] == [4, 11]


@pytest.mark.parametrize(("fewer", "more", "tried"), [(0.001, 0.3, [6]), (0.3, 0.3, [6, 11]), (0.001, 0.001, [6, 11])])
def test_gaps_above_the_best_are_left_where_scores_fall(fewer: float, more: float, tried: list[int]) -> None:
    search = Search.__new__(Search)
    search._cheap_first, search._smallest = ["m"], {"m": 1}
    noise = np.random.default_rng(0).normal(size=50) * 1e-3
    rows = {Choice("m", rank): {0: rank * noise - loss} for rank, loss in ((4, fewer), (8, 0.0), (15, more))}
    search._standings = lambda: Standings(rows, {0: 50.0}, ["m"])  # type: ignore[method-assign]
    (_, tasks) = next(search._refined([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15]))
    assert sorted({task.rank for task in tasks}) == tried


@pytest.mark.parametrize(("score", "climbs"), [(-0.01, True), (-1000.0, False)])
def test_a_fit_that_gave_a_count_no_probability_ends_the_climb(score: float, climbs: bool) -> None:
    # One row has lost all: the standard error is as large as the loss.
    search, rows = Search.__new__(Search), {}
    search._smallest = {"m": 1}
    search._standings = lambda: Standings(rows, {0: 50.0}, ["m"])  # type: ignore[method-assign]
    rounds = search._climb(["m"], [1, 2, 4])
    for rank in (1, 2):
        next(rounds)
        rows[Choice("m", rank)] = {0: np.zeros(50)}
        if rank == 2:
            rows[Choice("m", rank)][0][7] = 50.0 * score
    assert (next(rounds, None) is not None) == climbs


class TestRules:
    def test_three_answers(self) -> None:
        noise = np.random.default_rng(0).normal(size=100)
        noise -= noise.mean()
        error = noise.std(ddof=1) / 10  # of the mean
        behind = {2: 3.0, 3: 0.9, 4: 0.0, 5: 1.5, 6: 1.9, 7: 2.5}
        rows = {
            Choice("m", rank): {0: (noise if value else 0.0 * noise) - value * error} for rank, value in behind.items()
        }
        stabilities = {Choice("m", 3): 0.99, Choice("m", 5): 0.95, Choice("m", 6): 0.5, Choice("m", 7): 0.99}
        standings = Standings(rows, {0: 10.0}, ["m"], stabilities)
        found = {rule: standings.recommended(rule).rank for rule in ("best", "simple", "stable")}
        assert found == {"best": 4, "simple": 3, "stable": 5}
        assert Standings(rows, {0: 10.0}, ["m"]).recommended("stable").rank == 3  # nothing is stable

    def test_restarts_count_in_the_confidence(self) -> None:
        # Rows agree perfectly, restarts do not: resamples of rows alone would call this sure.
        one, other = np.zeros(50), np.ones(50)
        rows = {Choice("m", 1): {0: one, 1: other}, Choice("m", 2): {0: 1.5 * other, 1: one}}
        again = Standings(rows, {0: 10.0, 1: 10.0}, ["m"]).resampled(Key(0), 200)
        assert 0.1 < np.mean([choice.rank == 1 for choice in again]) < 0.5

    def test_rules_are_followed(self, quick: Comparison) -> None:
        best = compare(noisy(0, 3.0), ["poisson"], [1, 2, 3, 4], random_state=0, rule="best")
        assert best.recommended == best.best == best.answers["best"]
        assert quick.rule == "simple"


def test_new_rows_that_disagree_are_named(quick: Comparison) -> None:
    from dataclasses import replace

    own = quick.new_rows["negative-binomial"]
    better = replace(own, model="poisson", rows=own.rows * 0.9, completion=own.completion * 0.9)
    found = replace(quick, new_rows={"negative-binomial": own, "poisson": better})
    (note,) = [note for note in found.notes if note.startswith("New rows disagree")]
    assert "poisson predicts rows that it was not fitted to better than negative-binomial" in note
    assert not [note for note in quick.notes if note.startswith("New rows disagree")]


def test_dense_models_are_left_out_of_large_data() -> None:
    found = too_large_for(candidates_of("counts"), (30_000, 40_000))
    assert list(found) == ["negative-binomial"]
    assert "works on all 1.2e+09 cells" in found["negative-binomial"]
    assert too_large_for(candidates_of("counts"), (3000, 7000)) == {}


def test_models_that_process_tokens_are_left_out_of_small_tables_of_large_counts() -> None:
    found = too_large_for(candidates_of("counts"), (67, 10), total=6e6, nnz=633)
    assert list(found) == ["allocation"]
    assert "processes all 6.0e+06 counts one by one" in found["allocation"]
    assert too_large_for(candidates_of("counts"), (21, 96), total=2e5, nnz=1938) == {}
    assert too_large_for(candidates_of("counts"), (20_000, 4000), total=5e6, nnz=3_000_000) == {}
