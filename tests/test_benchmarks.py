"""The harness of the benchmarks: what it may say, and what it may not."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from benchmarks import check
from benchmarks.harness.data import poisson_counts
from benchmarks.harness.line import Goal, Line, Sample, skipped
from benchmarks.harness.measuring import StoppedClock, fit_until, log_likelihood, random_start
from benchmarks.harness.table import markdown
from benchmarks.kept import CHOSEN, RESULTS, advantage, draw, in_words, load, pages
from benchmarks.suite import available


def line(ours: list[float | None], peer: list[float | None] | None = None, **parameters: object) -> Line:
    peers = None if peer is None else Sample.of(peer, "s")
    return Line("fit", "data", Sample.of(ours, "s"), peers, "peer", **parameters)  # type: ignore[arg-type]


def table(*lines: Line, others: float = 0.0) -> str:
    environment = {
        "date": "today",
        "commit": "abc",
        "processor": "cpu",
        "cores": 2,
        "memory_gb": 1.0,
        "system": "system",
        "python": "3",
        "versions": {"numpy": "2"},
        "repeats": 3,
    }
    stored = [json.loads(json.dumps(each.to_json())) for each in lines]
    result = {
        "name": "some",
        "title": "Some",
        "environment": environment,
        "lines": stored,
        "failed": False,
        "seconds": 1.0,
        "others_cores": others,
    }
    return markdown([result])


def test_ratio_is_the_median_of_the_ratios_of_pairs() -> None:
    measured = line([1.0, 2.0, 4.0], [30.0, 20.0, 20.0])
    assert measured.ratio == statistics.median([30.0, 10.0, 5.0])
    assert measured.reached is None
    assert line([1.0], [20.0], goal=Goal(20, "at least")).reached
    assert not line([1.0], [19.0], goal=Goal(20, "at least")).reached
    assert line([3.0], [1.0], peer_over_ours=False, goal=Goal(3, "below")).reached is False


@pytest.mark.parametrize("peer", [[None, None], [3.0, None]])
def test_a_peer_that_never_reaches_a_value_gives_no_ratio(peer: list[float | None]) -> None:
    measured = line([1.0, 1.0], peer, goal=Goal(2, "at least"))
    assert measured.ratio is None
    assert not measured.reached
    row = next(row for row in table(measured).splitlines() if row.startswith("| fit"))
    assert "not reached" in row
    assert row.split("|")[6].strip() == ""


def test_goal_on_our_own_value_where_there_is_no_peer() -> None:
    assert line([0.1, 0.2, 9.0], goal=Goal(0.5, "below")).reached
    assert line([None, 0.1], goal=Goal(0.5, "below")).reached is False
    missing = skipped("fit", "data", "PARTWISE_DATA is not set", Goal(2, "at least"))
    assert missing.reached is None
    assert "not measured: PARTWISE_DATA is not set" in table(missing)


def test_lines_survive_json() -> None:
    measured = line([1.0, 2.0], [3.0, None], goal=Goal(2, "at least"), note="a | b")
    assert Line.from_json(json.loads(json.dumps(measured.to_json()))) == measured
    assert r"a \| b" in table(measured)


def test_a_table_measured_under_load_says_so() -> None:
    one, two = line([1.0]), line([1.0], threads="2")
    # of two cores
    assert "Measured under load" in table(one, others=1.2)
    assert "Measured under load" not in table(one, others=1.0)
    assert "Measured under load" in table(one, two, others=0.2)
    assert "Measured under load" not in table(two, others=0.01)
    assert "Measured under load" not in table(line([1.0], threads=""), others=2.0)


def test_every_file_of_the_suite_is_a_benchmark_with_a_title() -> None:
    titles = available()
    assert {"poisson_target", "poisson_iteration", "poisson_threads", "poisson_memory", "start_up"} <= titles.keys()
    assert all(title and title != name for name, title in titles.items())


def test_synthetic_data_are_sparse_as_asked_and_the_same_by_seed() -> None:
    counts = poisson_counts(300, 200, 5, 0.05, seed=3)
    # The expected share of nonzeros is exact; with 60000 cells its standard deviation is below 0.001.
    assert abs(counts.nnz / 60000 - 0.05) < 0.005
    assert (counts != poisson_counts(300, 200, 5, 0.05, seed=3)).nnz == 0


def test_clock_stands_still_while_a_callback_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    looks = iter([False, False, True])

    def done(state: object, trace: object) -> bool:
        nonlocal now
        now += 50.0
        return next(looks)

    clock = StoppedClock(done)
    for iteration in (1, 2, 3):
        now += 2.0
        assert clock(iteration, None, None) is (iteration == 3)
    assert clock.seconds == 6.0
    assert clock.iterations == 3


def test_what_is_never_reached_has_no_seconds() -> None:
    counts = poisson_counts(60, 50, 3, 0.3, seed=1)
    start = random_start(counts, 3, seed=0)
    assert fit_until(lambda state, trace: False, counts, 3, max_iter=2, init=start).seconds is None
    assert fit_until(lambda state, trace: True, counts, 3, max_iter=2, init=start).seconds is not None


def test_log_likelihood_is_that_of_the_dense_formula() -> None:
    counts = poisson_counts(20, 30, 3, 0.3, seed=1)
    activations, components = random_start(counts, 3, seed=0)
    rates = activations @ components
    dense = counts.toarray()
    expected = float(np.sum(dense * np.log(rates) - rates))
    np.testing.assert_allclose(log_likelihood(counts, activations, components), expected, rtol=1e-12)


def test_the_guard_finds_a_slow_down_and_nothing_else() -> None:
    kept = {"same": 1.0, "noisy": 1.0, "slower": 1.0}
    found = dict(check.verdicts({"same": 1.0, "noisy": 1.25, "slower": 1.35, "new": 9.0}, kept))
    assert [slower for line, slower in found.items()] == [False, False, True, False]


def test_a_multiple_is_of_the_least_times_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.process_time", lambda: clock[0])
    seconds = {"work": iter([1.0, 8.0, 6.0, 9.0]), "unit": iter([0.5, 2.0, 5.0, 4.0])}

    def passing(name: str) -> Callable[[], None]:
        return lambda: clock.__setitem__(0, clock[0] + next(seconds[name]))

    assert check.multiple(passing("work"), passing("unit"), turns=3) == 6.0 / 2.0


def test_pages_say_what_the_kept_results_say() -> None:
    """``python -m benchmarks.kept`` would change neither the tables nor the README."""
    for path, text in pages(load()).items():
        assert path.read_text() == text, path.name


def test_every_chosen_line_is_a_line_of_its_benchmark() -> None:
    kept = {result["name"]: result["lines"] for result in load()}
    for name, what, data, peer, _ in CHOSEN:
        assert name in available()
        if name in kept:
            found = [
                each
                for each in kept[name]
                if each["what"].startswith(what)
                and each["data"].startswith(data)
                and each["peer_name"].startswith(peer)
            ]
            assert found, f"{name}: {what}"


def test_lost_lines_stay_below_one() -> None:
    assert advantage(line([2.0], [1.0])) == 0.5
    assert advantage(line([2.0], [1.0], peer_over_ours=False)) == 0.5
    assert advantage(line([1.0], [3.0])) == 3.0
    lists = Line("lists: NDCG@20", "data", Sample.of([0.4], ""), Sample.of([0.2], ""), "peer", peer_over_ours=False)
    assert advantage(lists) == 2.0  # more is better
    with pytest.raises(ValueError, match="has no ratio"):
        advantage(line([1.0]))


def test_advantages_in_words() -> None:
    assert in_words(47.8, time=True) == "48 times as fast"
    assert in_words(1.25, time=True) == "25% faster"
    assert in_words(0.698, time=True) == "43% slower"
    assert in_words(1 / 0.93) == "7% better"
    assert in_words(1 / 1.12) == "12% worse"
    assert in_words(169.2) == "169 times more accurate"


def test_picture_has_a_row_for_each_peer(tmp_path: Path) -> None:
    draw(load(), tmp_path / "all.svg")
    text = (tmp_path / "all.svg").read_text()
    assert "tomotopy" in text
    assert "scikit-learn" in text


def test_only_benchmarks_are_kept() -> None:
    # those that defaults were chosen by are commands of their own
    defaults = {"defaults_binary", "defaults_documents", "defaults_tokens"}
    assert {path.stem for path in RESULTS.glob("*.json")} <= available().keys() | defaults | {"check"}
