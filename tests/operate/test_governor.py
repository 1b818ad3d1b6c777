"""The governor: its plan, its draws, its steps, and a state that survives."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recprism.errors import InputError, RecprismError, StorageError
from recprism.operate.served_log import SERVED_LOG_COLUMNS
from recprism.operate.traffic.capital import BETS, differences, evidence, log_growths
from recprism.operate.traffic.draw import Draw
from recprism.operate.traffic.governor import Governor
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.operate.traffic.judgement import CLOSED, JudgeApart, Judgement, Question, judge
from recprism.operate.traffic.steps import BROKEN, CERTIFIED, UNDECIDED, next_place, together
from recprism.runs.event_log import read_events

KEY = b"k" * 32
AN_HOUR_LATER = pl.col("time") + timedelta(hours=1)
CLUSTERS = 7 * 400 + 10  # of the second to the eighth; no request was repeated before the second
PLAN = GovernorPlan(
    prices=(0.0, 0.1, 0.2), share=0.2, budgets={"clicks": "10%"}, outcomes="outcomes.parquet", window=0.01
)


@pytest.mark.parametrize(
    ("current", "answers", "expected"),
    [
        (0, (UNDECIDED, UNDECIDED), 0),
        (0, (CERTIFIED, CERTIFIED), 1),
        (0, (UNDECIDED, CERTIFIED), 0),
        (1, (UNDECIDED, CERTIFIED), 2),
        (1, (CERTIFIED, UNDECIDED), 1),
        (1, (BROKEN, CERTIFIED), 0),
        (2, (UNDECIDED, BROKEN), 1),
        (2, (BROKEN, BROKEN), 0),
        (2, (CERTIFIED, CERTIFIED), 2),
    ],
)
def test_a_price_rises_by_one_and_falls_at_once(current: int, answers: tuple[str, ...], expected: int) -> None:
    assert next_place(current, (CERTIFIED, *answers)) == expected


def test_the_worst_answer_to_a_question_counts() -> None:
    assert together([CERTIFIED, BROKEN, UNDECIDED]) == BROKEN
    assert together([CERTIFIED, UNDECIDED]) == UNDECIDED and together([CERTIFIED]) == CERTIFIED


def test_draws_have_the_logged_probabilities(tmp_path: Path) -> None:
    governor = Governor(PLAN, tmp_path / "log", "export")
    drawn = [governor.draw(f"u{at}", "r", KEY) for at in range(20_000)]
    for place, expected in enumerate((0.6, 0.2, 0.2)):
        some = [it for it in drawn if it.place == place]
        assert [it.probability for it in some] == pytest.approx([expected] * len(some))
        assert len(some) / len(drawn) == pytest.approx(expected, abs=0.015)
        assert all(it.held == (place == 0) for it in some)
    assert governor.draw("u1", "another", KEY) == drawn[1], "a user keeps the price for a day"
    requests = {governor.draw(None, f"r{at}", KEY).place for at in range(50)}
    assert requests == {0, 1, 2} and governor.draw(None, "r", KEY).name is None
    governor.switch(False)
    assert {governor.draw(f"u{at}", "r", KEY) for at in range(50)} == {Draw(0, held=True)}


def served(governor: Governor, rates: tuple[float, ...], n: int, seed: int) -> None:
    """Write a log and outcomes of ``n`` users, ten seconds apart, who click at these rates of the prices."""
    generator = np.random.default_rng(seed)
    drawn = [governor.draw(f"u{seed}-{at}", "", KEY) for at in range(n)]
    places = np.array([it.place for it in drawn])
    governor.log.mkdir(exist_ok=True)
    begin = datetime.fromtimestamp(governor.state.since, UTC) + timedelta(days=seed)
    log = pl.DataFrame(
        {
            "time": [begin + timedelta(seconds=10 * at) for at in range(n)],
            "request": [f"r{seed}-{at}" for at in range(n)],
            "user": [f"u{seed}-{at}" for at in range(n)],
            "holdout": [it.held for it in drawn],
            "probability": [it.probability for it in drawn],
            "drawn": [it.name for it in drawn],
            "place": places,
            "shown": "rule",
            "export": governor.export,
        }
    )
    missing = [pl.lit(None, kind).alias(name) for name, kind in SERVED_LOG_COLUMNS.items() if name not in log.columns]
    of_day = pl.col("drawn").str.replace(r"^[0-9-]+", pl.col("time").dt.strftime("%Y-%m-%d"))  # draws are of the day
    log.with_columns(missing).with_columns(drawn=of_day).write_parquet(governor.log / f"{seed}.parquet")
    clicks = generator.random(n) < np.array(rates)[places]
    labels = log.filter(pl.Series(clicks)).select("request", clicks=1.0)
    file = Path(governor.plan.outcomes)
    pl.concat([pl.read_parquet(file), labels] if file.exists() else [labels]).write_parquet(file)


def test_it_rises_while_certified_and_falls_once_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    governor = Governor(PLAN, tmp_path / "log", "export")
    with pytest.raises(InputError, match=r"no \.parquet file"):
        governor.step()
    served(governor, (0.5, 0.5, 0.2), 12_000, 1)
    assert governor.step() == "raise" and governor.price == 0.1
    said = {it["price"]: it for it in governor.to_dict()["last"]["evidence"]}
    assert said[0.1]["answer"] == CERTIFIED and said[0.2]["answer"] == BROKEN
    assert said[0.1]["sentence"].startswith("certified: clicks: at most 10 % may be lost")
    notes = governor.last["notes"]
    assert "clusters wait" in notes[0] and "of the requests have no outcome in the window: they count as 0" in notes[1]
    assert governor.step() == "keep", "the next price is broken"
    served(governor, (0.5, 0.2, 0.2), 6_000, 2)
    assert governor.step() == "lower" and governor.price == 0
    events = read_events(governor.events)
    assert [it["event"] for it in events] == ["begin", "raise", "keep", "lower"]
    again = Governor(PLAN, tmp_path / "log", "export")
    assert (again.state.place, again.state.changes, again.state.since) == (
        0,
        governor.state.changes,
        governor.state.since,
    )
    assert again.to_dict() == governor.to_dict(), "a restart loses nothing"


def test_a_state_survives_a_line_that_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    governor = Governor(PLAN, tmp_path / "log", "export")
    served(governor, (0.5, 0.5, 0.2), 12_000, 1)
    governor.step()
    whole = governor.events.read_bytes()
    for size in range(len(whole), len(whole) - 90, -30):
        governor.events.write_bytes(whole[:size])
        again = Governor(PLAN, tmp_path / "log", "export")
        complete = size >= len(whole) - 1
        assert again.state.place == (1 if complete else 0)
        assert again.step() == ("keep" if complete else "raise"), "the lost step is taken again, from the same log"
        assert again.state.place == 1 and all(json.loads(line) for line in again.events.read_text().splitlines()[-1:])


@pytest.mark.parametrize("meanwhile", ["switch", "reload"])
def test_a_step_that_was_overtaken_changes_nothing(
    meanwhile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request switches the governor off, or loads another export, while a step reads the log."""
    monkeypatch.chdir(tmp_path)

    def overtaken(asked: Question) -> Judgement:
        governor.switch(False) if meanwhile == "switch" else governor.use("another export")
        return judge(asked)

    governor = Governor(PLAN, tmp_path / "log", "export", overtaken)
    served(governor, (0.5, 0.5, 0.2), 12_000, 1)
    assert (governor.step(), governor.price, governor.state.place) == ("off", 0, 0)
    assert governor.last["event"] == ("off" if meanwhile == "switch" else "begin")


def test_a_process_of_its_own_judges_as_this_one_does_and_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    governor, apart = Governor(PLAN, tmp_path / "log", "export"), JudgeApart()
    asked = Question(PLAN, str(governor.log), governor.export, governor.state.since, governor.state.key)
    with pytest.raises(RecprismError, match=r"no \.parquet file"):
        apart(asked)
    served(governor, (0.5, 0.5, 0.2), 12_000, 1)
    assert apart(asked) == judge(asked)
    before = apart._process
    with ThreadPoolExecutor() as other:
        waiting = other.submit(apart, asked)
        while apart._process is before:
            time.sleep(0.001)
        apart.end()
        with pytest.raises(RecprismError, match="the process that reads the log ended with"):
            waiting.result()
    with pytest.raises(RecprismError, match="the service ends"):
        apart(asked)


def test_a_full_disk_keeps_the_switch_and_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    governor = Governor(PLAN, tmp_path / "log", "export")
    before = governor.events.read_bytes()

    def full(*words: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("recprism.operate.traffic.governor.append_event", full)
        with pytest.raises(StorageError):
            governor.use("another export")
        assert governor.export == "export"
        for _ in range(2):
            with pytest.raises(StorageError):
                governor.switch(False)
        assert governor.draw("u1", "r", KEY) == Draw(0, held=True), "it is off at once"
    assert governor.events.read_bytes() == before and governor.last["event"] == "begin"
    governor.switch(False)
    assert not Governor(PLAN, tmp_path / "log", "export").state.enabled, "now it is written, too"


def test_another_export_or_another_plan_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    governor = Governor(PLAN, tmp_path / "log", "export")
    served(governor, (0.5, 0.5, 0.5), 12_000, 1)
    governor.step()
    assert governor.state.place == 1
    governor.switch(False)
    assert not Governor(PLAN, tmp_path / "log", "export").state.enabled, "off stays off"
    assert (governor.step(), governor.price) == ("off", 0)
    governor.switch(True)
    governor.use("another export")
    assert (governor.state.place, governor.last["event"]) == (0, "begin")
    governor.use("another export")
    assert len(read_events(governor.events)) == 5, "the same export changes nothing"
    other = GovernorPlan(**{**PLAN.__dict__, "prices": (0.0, 0.3)})
    assert Governor(other, tmp_path / "log", "another export").last["event"] == "begin"


def found_at_some_day(kept: tuple[float, float, float], runs: int, days: int, alpha: float) -> np.ndarray:
    """Whether a price above the first one is certified or broken at the end of any day, (2, runs).

    A fifth of the users comes on a day, each with a taste of their own, and the price with the most clicks so far gets
    most of the draws. ``kept``: the share of the clicks that each price keeps of any user.
    """
    daily, share, rows = 60, 0.1, np.arange(runs)
    generator, found = np.random.default_rng(8), np.zeros((2, runs), bool)
    taste = generator.beta(0.3, 0.7, (runs, 5 * daily))
    growths, seen = np.zeros((2, 2, len(BETS), runs, days)), np.zeros((runs, 0))
    clicked, place = np.zeros((3, runs)), np.zeros(runs, int)
    for day in range(days):
        chance = np.full((runs, 3), share)
        chance[rows, place] = 1 - 2 * share
        drawn = (generator.random((runs, daily, 1)) > chance.cumsum(1)[:, None, :-1]).sum(2)
        who = generator.permuted(np.tile(np.arange(5 * daily), (runs, 1)), axis=1)[:, :daily]
        y = (generator.random((runs, daily)) < np.take_along_axis(taste, who, 1) * np.array(kept)[drawn]).astype(float)
        probability = np.take_along_axis(chance, drawn, 1)
        seen = np.concatenate([seen, y], 1)
        predicted = ((seen.cumsum(1) - seen) / np.arange(1, seen.shape[1] + 1))[:, -daily:]
        for price in (1, 2):
            arm = np.where(drawn == price, 1.0, np.where(drawn == 0, -1.0, 0.0))
            w = differences(y, arm, probability, predicted, 0.1).ravel()
            growths[price - 1, ..., day] = log_growths(w, rows * daily, share, 0.1)
            said = [evidence(growths[price - 1, :, :, run, : day + 1], 1, alpha / 2).answer for run in rows]
            found[price - 1] |= np.array(said) != UNDECIDED
        clicked += [(y * (drawn == price) / probability).sum(1) for price in range(3)]
        place = clicked.argmax(0)
    return found


@pytest.mark.slow
def test_draws_that_follow_the_clicks_of_users_who_return_are_rarely_wrong() -> None:
    """At the edge of the budget, read daily; a test that never finds anything would pass, too."""
    assert found_at_some_day((1.0, 0.9, 0.9), 300, 40, 0.1).any(0).mean() <= 0.1
    broken, edge = found_at_some_day((1.0, 0.1, 0.9), 100, 40, 0.1).mean(1)
    assert broken > 0.9 and edge <= 0.1


GOOD = 'prices = [0, 0.1]\nshare = "10%"\noutcomes = "a.csv"\n[budgets]\nclicks = "2%"\n'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("prices = [0, 0.1]", "prices = [0.1, 0]"), "prices must rise"),
        (("prices = [0, 0.1]", "prices = 3"), "prices is no list"),
        (('share = "10%"', 'share = "60%"'), "60% is not a share"),
        (('outcomes = "a.csv"', ""), "outcomes is missing"),
        (('outcomes = "a.csv"', 'outcomes = "a.csv"\nspeed = 3'), "speed is unknown"),
        (('outcomes = "a.csv"', 'outcomes = "a.csv"\nwindow = 0'), "window must be a number above 0"),
        (('clicks = "2%"', 'clicks = "2"'), "did you mean 2%?"),
        (('outcomes = "a.csv"', "outcomes = 3"), "outcomes must be the path of a table"),
        (("prices", "prices ="), "no plan of a governor"),
    ],
)
def test_a_wrong_plan_is_one_sentence(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "governor.toml"
    file.write_text(GOOD, encoding="utf-8")
    assert GovernorPlan.read(file).share == 0.1
    file.write_text(GOOD.replace(*change), encoding="utf-8")
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        GovernorPlan.read(file)


def write_days(folder: Path, last: int, arrived: pl.Expr | None = AN_HOUR_LATER) -> None:
    """Write a file of the log, as the service names it, for each day of March 2026 from the second on, and outcomes.

    400 users have three requests a day, one hour apart. Those at midnight were drawn on the day before. At one o'clock,
    ten users repeat a request of the day before, and ten others come for the first time, drawn before midnight.
    """
    labels = []
    for day in range(2, last + 1):
        began, luck = datetime(2026, 3, day, tzinfo=UTC), np.random.default_rng(day)
        places = np.searchsorted([0.6, 0.8], luck.random(400), side="right")  # 0, 1, 2
        rows = pl.DataFrame({"user": [f"u{at}" for at in range(400)], "place": places, "shown": "rule"})
        rows = rows.with_columns(probability=np.array([0.6, 0.2, 0.2])[places], holdout=places == 0)
        ids = pl.format("{}-{}-{}", pl.lit(day), pl.lit(1), pl.col("user"))
        today, yesterday = (pl.lit(f"{it:%Y-%m-%d} 1") for it in (began, began - timedelta(days=1)))
        times = [pl.lit(began + timedelta(hours=it)) for it in range(3)]
        late = pl.format("late-{}-{}", pl.lit(day), pl.col("user"))
        again = pl.format("{}-2-{}", pl.lit(day - 1), pl.col("user"))
        log = pl.concat(
            [
                rows.with_columns(time=times[0], drawn=yesterday, request=ids.str.replace("-1-", "-0-")),
                rows[:10].with_columns(time=times[0], drawn=yesterday, request=late, user=late),
                rows[10:20].with_columns(time=times[1], drawn=today, request=again, user=pl.format("x{}", "user")),
                rows.with_columns(time=times[1], drawn=today, request=ids),
                rows.with_columns(time=times[2], drawn=today, request=ids.str.replace("-1-", "-2-")),
            ]
        )
        missing = [pl.lit(None, it).alias(name) for name, it in SERVED_LOG_COLUMNS.items() if name not in log.columns]
        folder.mkdir(exist_ok=True)
        log.with_columns(missing).write_parquet(folder / f"served-202603{day:02}T030000000000Z-0000000{day}.parquet")
        clicks = pl.Series(luck.random(len(log)) < 0.5).cast(pl.Float64)
        labels.append(log.select("request", clicks=clicks, **({} if arrived is None else {"time": arrived})))
    pl.concat(labels).unique("request", keep="first", maintain_order=True).write_parquet("outcomes.parquet")


def question(folder: Path) -> Question:
    return Question(
        GovernorPlan(
            prices=(0, 0.1, 0.2), share=0.2, budgets={"clicks": "10%"}, outcomes="outcomes.parquet", window=0.25
        ),
        str(folder),
        "",
        datetime(2026, 3, 2, tzinfo=UTC).timestamp(),
        "key",
    )


def test_days_that_are_over_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log"
    for last in range(2, 10):
        write_days(log, last)
        step_by_step = judge(question(log))
    kept = sorted((log / CLOSED).rglob("*.arrow"))
    assert [it.stem for it in kept] == [f"0000{at}-2026-03-0{at + 2}" for at in range(5)]
    assert {it["clusters"] for it in step_by_step.evidence} == {CLUSTERS}, "those of day 9 wait"
    kept[1].unlink()
    assert judge(question(log)).evidence == step_by_step.evidence and kept[1].exists(), "a lost day is read again"
    for day in (2, 3, 4, 5):
        next(log.glob(f"served-2026030{day}*")).unlink()
    from_kept = judge(question(log))
    shutil.rmtree(log / CLOSED)
    write_days(log, 9)
    at_once = judge(question(log))
    assert step_by_step.evidence == from_kept.evidence == at_once.evidence
    assert step_by_step.answers == at_once.answers


@pytest.mark.parametrize(
    "arrived",
    [None, pl.lit(None, pl.Datetime("us", "UTC")), pl.when(pl.col("user") != "u7").then(AN_HOUR_LATER)],
)
def test_days_are_read_again_if_their_outcomes_have_no_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrived: pl.Expr | None
) -> None:
    monkeypatch.chdir(tmp_path)
    write_days(tmp_path / "log", 9, arrived)
    assert {it["clusters"] for it in judge(question(tmp_path / "log")).evidence} == {CLUSTERS}
    assert not (tmp_path / "log" / CLOSED).exists()


def test_a_day_whose_answer_failed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_days(tmp_path / "log", 9)
    for file in (tmp_path / "log").glob("*.parquet"):
        pl.read_parquet(file).filter((pl.col("place") != 1) | (pl.col("user") == "u7")).write_parquet(file)
    with pytest.raises(InputError, match="expected"):
        judge(question(tmp_path / "log"))
    assert not (tmp_path / "log" / CLOSED).exists()


def test_a_kept_day_that_is_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_days(tmp_path / "log", 9)
    judge(question(tmp_path / "log"))
    file = next((tmp_path / "log" / CLOSED).rglob("*2026-03-04.arrow"))
    file.write_bytes(b"")
    with pytest.raises(RecprismError, match=r"2026-03-04\.arrow: damaged.*; delete it"):
        JudgeApart()(question(tmp_path / "log"))
