"""compare: one scale, paired differences, a recommendation that holds, files from which a killed run goes on."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

from partwise import AllocationNMF, PoissonNMF
from partwise.contract.heldout import SMOOTHING
from partwise.core.data import BinaryMatrix, CountMatrix
from partwise.core.keys import Key
from partwise.errors import FileFormatError, InvalidInputError
from partwise.selection import Choice, Comparison, compare, match_parts, model_names, stability
from partwise.selection.fitting import N_FOLDS, cell_fold, count_fold
from partwise.selection.standings import Standings

QUICK = ["poisson", "allocation"]


def counts(seed: int = 0, n_components: int = 3, n_samples: int = 50) -> np.ndarray:
    """About 100 tokens a row from parts with few features."""
    rng = np.random.default_rng(seed)
    parts = rng.dirichlet(np.full(30, 0.1), size=n_components)
    return rng.poisson(rng.gamma(0.3, 100 / (0.3 * n_components), size=(n_samples, n_components)) @ parts)


def bits(seed: int = 0, n_components: int = 3, n_samples: int = 60) -> np.ndarray:
    """60 bits a row of a Beta-Dir model."""
    rng = np.random.default_rng(seed)
    dictionary = rng.dirichlet(np.full(n_components, 0.1), size=60)
    probability = rng.beta(0.3, 0.3, size=(n_samples, n_components)) @ dictionary.T
    return (rng.random(probability.shape) < probability).astype(float)


def recommending(found: Comparison, choice: Choice) -> Comparison:
    """The same comparison as if it had recommended something else."""
    return dataclasses.replace(found, recommended=choice, choice=choice)


@pytest.fixture(scope="module")
def found():
    return compare(counts(), QUICK, range(1, 6), random_state=0, effort="full")


class TestFolds:
    def test_fifths_of_tokens_are_disjoint_and_make_up_the_data(self) -> None:
        data = CountMatrix.build(counts())
        held = [count_fold(data, Key(1), restart).held_out.toarray() for restart in range(N_FOLDS)]
        np.testing.assert_array_equal(sum(held), counts())
        # 5,000 tokens: a share of 0.2 has a standard error of 0.006, so 5 of them are 0.03
        assert all(abs(part.sum() / counts().sum() - 0.2) < 0.03 for part in held)

    def test_train_and_test_add_up(self) -> None:
        fold = count_fold(CountMatrix.build(counts()), Key(1), 7)
        np.testing.assert_array_equal(fold.train.to_scipy().toarray() + fold.held_out.toarray(), counts())

    def test_sixth_restart_divides_anew(self) -> None:
        data = CountMatrix.build(counts())
        assert np.any(
            count_fold(data, Key(1), 0).held_out.toarray() != count_fold(data, Key(1), N_FOLDS).held_out.toarray()
        )

    def test_fifths_of_cells_are_disjoint_and_leave_out_missing_ones(self) -> None:
        X = bits()
        X[0, :10] = np.nan
        folds = [cell_fold(BinaryMatrix.build(X), Key(1), restart) for restart in range(N_FOLDS)]
        seen = np.zeros(X.shape, int)
        for fold in folds:
            seen[fold.rows, fold.columns] += 1
            np.testing.assert_array_equal(fold.bits, X[fold.rows, fold.columns] == 1)
            assert fold.train.missing_matrix().toarray()[fold.rows, fold.columns].all()
            assert not fold.train.to_scipy().toarray()[fold.rows, fold.columns].any()
        np.testing.assert_array_equal(seen, ~np.isnan(X))


class TestScores:
    def test_thinned_counts_are_scored_by_their_poisson_likelihood(self) -> None:
        X = counts().astype(float)
        X[3, :5] = np.nan
        fold = count_fold(CountMatrix.build(X), Key(0), 0)
        model = PoissonNMF(3, random_state=0).fit(fold.train)
        train = fold.train.to_scipy().toarray()
        plain = np.outer(train.sum(axis=1) + 0.5, train.sum(axis=0) + 0.01) / (train.sum(axis=0) + 0.01).sum()
        rates = ((1 - SMOOTHING) * model.inverse_transform(model.transform(fold.train)) + SMOOTHING * plain) / 4
        held = fold.held_out.toarray()
        logs = held * np.log(rates) - rates - gammaln(held + 1)
        logs[np.isnan(X)] = 0.0
        np.testing.assert_allclose(model.held_out_log_likelihood(fold), logs.sum(axis=1), rtol=1e-10)

    def test_cells_are_scored_by_their_probability_and_counts_by_their_rate(self) -> None:
        fold = cell_fold(BinaryMatrix.build(bits()), Key(0), 0)
        model = PoissonNMF(2, random_state=0).fit(fold.train)
        rates = np.minimum(model.inverse_transform(model.transform(fold.train)), 1.0)
        seen = 60 - fold.train.missing_matrix().toarray().sum(axis=0)
        plain = (fold.train.to_scipy().toarray().sum(axis=0) + 0.5) / (seen + 1)
        ones = (1 - SMOOTHING) * rates + SMOOTHING * plain
        logs = np.where(fold.bits, np.log(ones[fold.rows, fold.columns]), np.log(1 - ones[fold.rows, fold.columns]))
        expected = np.bincount(fold.rows, logs, minlength=60)
        np.testing.assert_allclose(model.held_out_log_likelihood(fold), expected, rtol=1e-10)


class TestStandings:
    def standings(self, rows: dict, order: tuple[str, ...] = ("simple", "rich")) -> Standings:
        known = {Choice(*choice): {0: np.asarray(values, float)} for choice, values in rows.items()}
        return Standings(known, {0: 10.0}, order)

    def test_paired_differences(self) -> None:
        standings = self.standings({("simple", 1): [-3, -5, -4], ("rich", 1): [-4, -5, -6]})
        gap = standings.difference(Choice("simple", 1), Choice("rich", 1))
        np.testing.assert_allclose(gap, [0.3, np.std([1, 0, 2], ddof=1) * np.sqrt(3) / 10])

    def test_fewer_parts_are_preferred_within_one_standard_error_and_not_beyond(self) -> None:
        noise = np.random.default_rng(0).normal(size=100)
        noise -= noise.mean()
        error = noise.std(ddof=1) / 10  # of the mean
        base = np.zeros(100)
        for behind, expected in ((0.9, 2), (1.1, 3)):
            standings = self.standings({("rich", 3): base, ("rich", 2): base - behind * error + noise})
            assert standings.recommended() == ("rich", expected)

    def test_simpler_model_is_preferred_at_the_same_number_of_parts(self) -> None:
        noise = np.random.default_rng(0).normal(size=100)
        rows = {("rich", 2): np.zeros(100), ("simple", 2): noise - noise.mean() - 0.01}
        assert self.standings(rows).recommended() == ("simple", 2)
        assert self.standings(rows, ("rich", "simple")).recommended() == ("rich", 2)


class TestCompare:
    def test_finds_the_number_of_parts(self, found) -> None:
        assert found.recommended.rank == 3
        assert found.sentence.startswith(f"Take {found.recommended}: it predicts held-out tokens ")
        assert found.rank_share > 0.9

    def test_never_recommends_what_is_significantly_worse(self, found) -> None:
        assert all(not found.difference(choice, found.recommended).significant for choice in [found.best])
        assert found.difference(found.recommended, ("poisson", 1)).significant

    def test_table_has_all_candidates(self, found) -> None:
        rows = found.table()
        assert {(row.model, row.rank) for row in rows} == {(model, rank) for model in QUICK for rank in range(1, 6)}
        best = next(row for row in rows if (row.model, row.rank) == found.best)
        assert best.behind == 0.0
        assert best.n_restarts == 3
        assert 0.9 < best.stability <= 1.0
        assert [row.n_active for row in rows if row.rank == 1] == [1, 1]
        assert list(found.to_frame().columns)[:3] == ["model", "rank", "n_restarts"]

    def test_scores_are_on_the_scale_of_the_best(self, found) -> None:
        top, _ = found.standings.score(found.best)
        for row in found.table():
            assert row.score == pytest.approx(top - row.behind)

    def test_families_have_evidence_of_their_own(self, found) -> None:
        assert found.own_rank("allocation") == (3, "log p(X)")
        assert found.own_rank("poisson") is None

    def test_new_rows_are_scored(self, found) -> None:
        new = found.new_rows
        assert np.isfinite([new["poisson"].completion, new["allocation"].completion]).all()
        assert np.isnan(new["poisson"].likelihood)
        # a token of 30 features cannot be harder to predict than by guessing
        assert -np.log(30) < new["allocation"].likelihood < 0

    def test_user_may_overrule(self, found) -> None:
        other = found.choose(model="poisson", rank=5)
        assert other.choice == ("poisson", 5)
        assert other.recommended == found.recommended
        assert "You took poisson with 5 parts instead of" in other.sentence
        model = other.fit_best(counts(), max_iter=3, tol=0)
        assert (type(model).__name__, model.n_components_, model.n_iter_) == ("PoissonNMF", 5, 3)
        assert "was not tried" in found.choose(rank=9).sentence
        with pytest.raises(InvalidInputError, match="no model 'lda'"):
            found.choose(model="lda")

    def test_same_bits_for_any_number_of_threads(self, found) -> None:
        again = compare(counts(), QUICK, range(1, 6), random_state=0, n_jobs=2, effort="full")
        assert [row.score for row in again.table()] == [row.score for row in found.table()]
        assert again.sentence == found.sentence

    def test_climbs_when_no_ranks_are_given(self) -> None:
        found = compare(counts(), QUICK, random_state=0, n_restarts=1)
        assert found.recommended.rank == 3
        # 1, 2, 4 and 8 parts, and those around the best
        assert found.standings.ranks_of("poisson") == [1, 2, 3, 4, 6, 8]

    def test_goes_on_beyond_one_part_for_eight_rows_where_that_gains(self) -> None:
        # 72 rows: the ladder ends at 8 parts, and beyond it come 10, 12 and 15
        X = np.kron(np.eye(12, dtype=int), np.full((6, 4), 8))
        found = compare(X, ["poisson"], random_state=0, n_restarts=1)
        assert found.standings.ranks_of("poisson")[-1] == 15
        assert found.recommended.rank in (12, 15)  # maximum likelihood may need a few to spare to find all twelve

    def test_says_when_the_choice_is_at_an_end_of_what_was_tried(self, found) -> None:
        highest, lowest, within = (recommending(found, Choice("poisson", rank)) for rank in (5, 1, 3))
        assert highest.untried == [5, 6, 7, 8, 9, 10]
        assert "5 is the most parts that poisson was tried with, and more may predict better." in highest.notes
        assert within.untried == lowest.untried == []  # there are never fewer than one
        few = recommending(compare(counts(), ["poisson"], [4, 5], random_state=0, n_restarts=1), Choice("poisson", 4))
        assert few.untried == [1, 2, 3, 4]
        assert "4 is the fewest parts that poisson was tried with, and fewer may do as well." in few.notes
        assert str(highest).splitlines() == [highest.sentence, *highest.notes]
        assert highest.choose(rank=1).untried == []  # whoever overrules knows what there is

    def test_bits(self) -> None:
        X = bits()
        X[0, :7] = np.nan
        found = compare(X, ["beta-dir", "logistic-pca", "poisson"], range(1, 6), random_state=0, n_restarts=2)
        assert found.recommended == ("beta-dir", 3)
        assert found.unit == "cell"
        assert found.own_rank("beta-dir") is not None
        assert all("brief fits of beta-dir with 3 parts had not converged" in note for note in found.notes)
        assert found.instead is None
        assert found.choose("logistic-pca", 2).instead == ("beta-dir", 3)
        (note,) = found.choose("logistic-pca", 2).notes
        gap = found.difference(("logistic-pca", 2), ("beta-dir", 3))
        assert "has signs" in note
        assert f"beta-dir with 3 parts predicts best, behind by {gap.value:.4f} ± {gap.std_error:.4f} nats" in note
        assert found.choose("logistic-pca", 9).notes[0].endswith("not parts.")

    def test_missing_counts(self) -> None:
        X = counts().astype(float)
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
        found = compare(X, QUICK, [2, 3, 4], random_state=0, n_restarts=1)
        assert found.recommended.rank == 3
        assert found.choose("allocation", 2).fit_best(X, n_draws=2, burn_in=2).n_components_ == 2

    @pytest.mark.parametrize("seed", [None, 2**40 + 3])
    def test_the_choice_can_be_fitted_whatever_the_seed(self, seed) -> None:
        found = compare(counts(), ["poisson"], [1], random_state=seed, n_restarts=1)
        assert found.fit_best(counts(), max_iter=1, tol=0.0).random_state == found.seed % 2**32

    def test_own_estimators(self) -> None:
        models = {"flat": AllocationNMF(activation_concentration=1.0, n_draws=20, burn_in=20), "ml": PoissonNMF()}
        found = compare(counts(), models, [1, 2], random_state=0, n_restarts=1)
        assert found.models == ["flat", "ml"]
        assert found.choose(model="flat").estimator().activation_concentration == 1.0

    def test_ones_and_zeros_may_be_counts(self) -> None:
        X = np.kron(np.eye(2), np.ones((10, 5)))
        assert compare(X, ["poisson"], [1], random_state=0, kind="counts", n_restarts=1).unit == "token"
        assert compare(X, ["poisson"], [1], random_state=0, n_restarts=1).unit == "cell"

    def test_model_that_cannot_be_fitted_is_left_out_with_a_reason(self) -> None:
        models = {"huge": AllocationNMF(inference="cvb0", max_memory=1.0), "ml": PoissonNMF()}
        found = compare(counts(), models, [2], random_state=0, n_restarts=1)
        assert found.models == ["ml"]
        assert "memory" in found.left_out["huge"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"models": ["nmf"]}, "no model of counts called 'nmf': models are poisson, negative-binomial"),
            ({"models": []}, "models is empty"),
            ({"models": 5}, "models must be names or unfitted estimators of partwise, got int"),
            ({"models": [PoissonNMF(), PoissonNMF()]}, "twice"),
            ({"models": [object()]}, "names or unfitted estimators"),
            ({"models": {"a/b": PoissonNMF()}}, "'a/b' cannot be a part of a file's name"),
            ({"models": {"a\nb": PoissonNMF()}}, "cannot be a part of a file's name"),
            ({"ranks": [0]}, r"each a whole number of at least 1, got \[0\]"),
            ({"ranks": 3}, "at least one number of parts, each a whole number of at least 1, got 3"),
            ({"ranks": [2.5]}, r"each a whole number of at least 1, got \[2\.5\]"),
            ({"kind": "reals"}, "kind must be"),
            ({"n_restarts": 0}, "n_restarts must be"),
        ],
    )
    def test_refused(self, arguments, message) -> None:
        with pytest.raises(InvalidInputError, match=message):
            compare(counts(), **{"ranks": [1], **arguments})

    def test_refuses_reals_and_one_row(self) -> None:
        with pytest.raises(InvalidInputError, match="compare"):
            compare(counts() + 0.5)
        with pytest.raises(InvalidInputError, match="one row"):
            compare(counts()[:1])


class TestFiles:
    def test_killed_run_goes_on_to_the_same_result(self, found, tmp_path: Path) -> None:
        whole = compare(counts(), QUICK, range(1, 6), random_state=0, output=tmp_path, effort="full")
        assert whole.sentence == found.sentence
        lines = (tmp_path / "fits.csv").read_text().splitlines(keepends=True)
        assert len(lines) == 1 + len(whole.fits)
        # as a kill leaves it: some lines, the last of them cut short
        (tmp_path / "fits.csv").write_text("".join(lines[:8]) + lines[8][:20])
        again = compare(counts(), QUICK, range(1, 6), random_state=0, output=tmp_path, effort="full")
        assert [row.score for row in again.table()] == [row.score for row in found.table()]
        assert again.sentence == found.sentence
        assert sorted((tmp_path / "fits.csv").read_text().splitlines()[1:8]) == sorted(
            line.rstrip("\n") for line in lines[1:8]
        )

    def test_nothing_is_fitted_twice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = compare(counts(), ["poisson"], [1, 2], random_state=0, output=tmp_path)
        monkeypatch.setattr("partwise.selection.fitting.Fitting._fitted", None)  # whoever fits fails
        again = compare(counts(), ["poisson"], [1, 2], output=tmp_path)  # the seed is in the folder
        assert [row.score for row in again.table()] == [row.score for row in first.table()]

    def test_damage_is_named(self, tmp_path: Path) -> None:
        settings = {"models": ["poisson"], "ranks": [1], "random_state": 0, "n_restarts": 1, "output": tmp_path}
        compare(counts(), **settings)
        lines, arrays = tmp_path / "fits.csv", tmp_path / "fits" / "poisson-1-0.npz"
        content, stored = lines.read_bytes(), arrays.read_bytes()
        for damaged in (b"poisson,1\n", content.splitlines()[1].replace(b"poisson,1", b"poisson,one") + b"\n"):
            lines.write_bytes(content + damaged)
            with pytest.raises(FileFormatError, match=r"fits\.csv has a line that no comparison wrote"):
                compare(counts(), **settings)
        lines.write_bytes(content + b"\xff\n")
        with pytest.raises(FileFormatError, match=r"fits\.csv: line 3 is not UTF-8 text"):
            compare(counts(), **settings)
        lines.write_bytes(content)
        for damaged in (b"", stored[:100]):
            arrays.write_bytes(damaged)
            with pytest.raises(FileFormatError, match=r"poisson-1-0\.npz: it"):
                compare(counts(), **settings)
        arrays.unlink()
        with pytest.raises(FileNotFoundError, match=r"there is no file .*poisson-1-0\.npz"):
            compare(counts(), **settings)

    def test_another_comparison_is_refused(self, tmp_path: Path) -> None:
        compare(counts(), ["poisson"], [1], random_state=0, n_restarts=1, output=tmp_path)
        with pytest.raises(InvalidInputError, match="holds a comparison that differs in its data"):
            compare(counts(1), ["poisson"], [1], random_state=0, n_restarts=1, output=tmp_path)
        with pytest.raises(InvalidInputError, match="holds a comparison that differs in its seed"):
            compare(counts(), ["poisson"], [1], random_state=1, n_restarts=1, output=tmp_path)
        shutil.rmtree(tmp_path)
        compare(counts(1), ["poisson"], [1], random_state=0, n_restarts=1, output=tmp_path)


class TestParts:
    def test_other_features_do_not_match(self) -> None:
        with pytest.raises(InvalidInputError, match=r"features, got shapes \(2, 3\) and \(2, 4\)"):
            match_parts(np.ones((2, 3)), np.ones((2, 4)))

    def test_matching_survives_permutation_and_scale(self) -> None:
        parts = np.random.default_rng(0).gamma(0.3, size=(5, 20))
        order = np.array([3, 0, 4, 1, 2])
        first, second, cosines = match_parts(parts, 7.0 * parts[order])
        np.testing.assert_array_equal(order[second], first)
        np.testing.assert_allclose(cosines, 1.0)

    def test_stability_falls_with_noise(self) -> None:
        rng = np.random.default_rng(0)
        parts = rng.gamma(0.3, size=(5, 20))
        near, far = parts + rng.gamma(0.3, 0.05, size=parts.shape), rng.gamma(0.3, size=parts.shape)
        assert 1.0 > stability([parts, near]) > stability([parts, far])
        assert np.isnan(stability([parts]))


def test_names_of_models() -> None:
    assert model_names("counts")[0] == "poisson"
    assert len(model_names("bits")) == 5
