"""The log, shadow mode, the holdout and the figures."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from serving_world import Served, Start, file_of, request_of, value, wait_until

from recprism.errors import InputError
from recprism.forms.rule_file import fingerprint_of
from recprism.operate.served.monitored import monitor_served
from recprism.operate.served_log import SERVED_LOG_COLUMNS
from recprism.service import Client
from recprism.service._metrics import Metrics
from recprism.service._request_log import RequestLog
from recprism.service.client import figures_in
from recprism.service.settings import Settings
from recprism.serving import ServedRule, load_rule

KEYS = ("k" * 32, "l" * 32)


def logged(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "*.parquet").sort("time")


def ask_all(served: Served, n: int = 40, **options: Any) -> None:
    with served.client() as client:
        for number in range(n):
            client.rerank(**request_of(number), user=f"secret-{number}", request_id=f"r{number}", **options)


def ended(served: Served) -> None:
    served.kill()
    assert served.wait() == 0


def row(number: int) -> tuple[Any, ...]:
    return (
        number,
        f"r{number}",
        None,
        None,
        0.1,
        False,
        "rule",
        ["a", "b"],
        ["a", "c"],
        None,
        0,
        1.5,
        "f",
        None,
        None,
        None,
    )


def test_the_log_has_every_list_and_no_user(start: Start, export: Path, tmp_path: Path) -> None:
    served, rule = start(export, "--log", str(tmp_path / "log")), load_rule(export)
    ask_all(served, segment="new")
    with served.client() as client:
        client.explain(**request_of())
    ended(served)
    found = logged(tmp_path / "log")
    assert found.schema == pl.Schema(SERVED_LOG_COLUMNS)
    assert found["request"].to_list() == [f"r{number}" for number in range(40)]
    assert found["user"].null_count() == 40
    for number, one in enumerate(found.iter_rows(named=True)):
        expected = rule.rerank(**request_of(number))
        assert (one["rule"], one["base"]) == (list(expected.ids), list(expected.base))
        assert (one["price"], one["shown"], one["segment"], one["holdout"]) == (0.4, "rule", "new", False)
        assert (one["fallback"], one["unmet"], one["export"]) == (None, 0, fingerprint_of(export))
        assert one["milliseconds"] > 0
    everything = b"".join(it.read_bytes() for it in [*(tmp_path / "log").iterdir(), served.err])
    assert b"secret" not in everything


def test_users_are_hashes_that_depend_on_the_key(start: Start, export: Path, tmp_path: Path) -> None:
    found = []
    for at, key in enumerate((KEYS[0], KEYS[0], KEYS[1])):
        folder = tmp_path / f"log{at}"
        served = start(export, "--log", str(folder), "--log-users", RECPRISM_LOG_KEY=key)
        ask_all(served, 5)
        ended(served)
        found.append(logged(folder)["user"].to_list())
        assert b"secret" not in b"".join(it.read_bytes() for it in folder.iterdir())
    assert found[0] == found[1]
    assert set(found[0]).isdisjoint(found[2])
    assert len(set(found[0])) == 5
    assert {len(it) for it in found[0]} == {32}


def test_shadow_shows_the_base_list_and_logs_both(start: Start, export: Path, tmp_path: Path) -> None:
    served, rule = start(export, "--log", str(tmp_path / "log"), "--shadow"), load_rule(export)
    with served.client() as client:
        for number in range(10):
            found, expected = client.rerank(**request_of(number)), rule.rerank(**request_of(number))
            assert (found.ids, found.base, found.shown) == (expected.base, expected.base, "base")
            given = dict(zip(request_of(number)["candidates"], request_of(number)["scores"], strict=True))
            assert list(found.scores) == [given[it] for it in found.ids]
            assert (found.reasons, found.fallback) == ((), None)
        vector = [0.3, -1.0, 0.5, 2.0]
        assert client.rank(vector, history=[]).ids == rule.rank(vector, history=[]).base
        assert client.metrics()["recprism_shadow_total"] == 11
    ended(served)
    rows = logged(tmp_path / "log").head(10)
    assert set(rows["shown"]) == {"base"}
    assert rows["rule"].to_list() == [list(rule.rerank(**request_of(number)).ids) for number in range(10)]
    assert rows["base"].to_list() == [list(rule.rerank(**request_of(number)).base) for number in range(10)]


def test_the_monitor_reads_the_log_of_the_service(start: Start, export: Path, tmp_path: Path) -> None:
    words = ("--log", str(tmp_path / "log"), "--log-users", "--holdout", "25%", "--holdout-price", "0")
    served, rule = start(export, *words, RECPRISM_LOG_KEY=KEYS[0]), load_rule(export)
    ask_all(served, 100)
    with served.client() as client:
        late = client.rerank(**request_of(), user="late", time_limit=0)
    ended(served)
    rows = logged(tmp_path / "log")
    found = monitor_served(export, tmp_path / "log")
    total, usual = found.rows[0], rows.filter(~pl.col("holdout"))
    assert (total.requests, found.fallbacks) == (101, {late.fallback: 1})
    assert total.holdout == pytest.approx(rows["holdout"].mean())
    assert total.base == pytest.approx(np.mean([coverage(rule, it) for it in usual["base"]]))
    shown = np.where(usual["shown"] == "rule", usual["rule"], usual["base"])
    assert total.base < total.shown == pytest.approx(np.mean([coverage(rule, it) for it in shown]))
    assert found.holdout is not None
    assert found.holdout.holdout.price == 0


def held_out(client: Client, **who: Any) -> bool:
    return client.rerank(**request_of(), **who).holdout


def test_the_holdout_has_its_share_and_its_price(start: Start, export: Path, tmp_path: Path) -> None:
    words = ("--log", str(tmp_path / "log"), "--log-users", "--holdout", "25%", "--holdout-price", "0.9")
    served, rule = start(export, *words, RECPRISM_LOG_KEY=KEYS[0]), load_rule(export)
    with served.client() as client:
        users = [held_out(client, user=number) for number in range(200)]
        assert users == [held_out(client, user=str(number)) for number in range(200)], "the same user, the same price"
        requests = [held_out(client, request_id=f"r{number}") for number in range(200)]
        assert requests == [held_out(client, request_id=f"r{number}") for number in range(200)], "a repeated request"
        assert 30 < sum(users) < 70
        assert 30 < sum(requests) < 70
        assert users != requests
        for user, held in enumerate(users[:20]):
            found = client.rerank(**request_of(), user=user, price=0.1)
            assert found.trade_off == (0.9 if held else 0.1)
            assert found.ids == rule.rerank(**request_of(), price=0.9 if held else 0.1).ids
    ended(served)
    found = logged(tmp_path / "log").head(800)
    assert found["holdout"].sum() == 2 * (sum(users) + sum(requests))
    assert set(found.filter("holdout")["price"]) == {0.9}
    assert set(found.select("holdout", "probability").iter_rows()) == {(True, 0.25), (False, 0.75)}
    assert set(found.filter(pl.col("user").is_null())["drawn"]) == {None}
    assert set(found.filter(pl.col("user").is_not_null())["drawn"]) == {"once"}
    assert set(found.filter(~pl.col("holdout"))["price"]) == {0.4}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"shadow": True, "holdout": 0.1, "holdout_price": 0}, "choose shadow or holdout"),
        ({"max_in_flight": 0}, "max_in_flight must be at least 1"),
        ({"max_k": -1}, "max_k must be at least 1"),
        ({"candidates": 0}, "candidates must be at least 1"),
        ({"drain": float("inf")}, "drain must be a number of seconds"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Settings(**wrong)


def test_the_folder_of_the_log_may_be_text() -> None:
    assert Settings(log="served").log_folder == Path("served")


def test_a_rule_of_boosts_has_no_holdout(call: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    file_of(goals={}, boosts=np.linspace(0, 1, 60)).write(tmp_path / "boosts")
    assert call("serve", tmp_path / "boosts", "--port", 0, "--holdout", "5%", "--holdout-price", "0") == 2
    assert "a holdout cannot have another" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_log_that_cannot_be_written_ends_the_start(
    call: Any, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    assert call("serve", export, "--port", 0, "--log", tmp_path / "closed" / "log") == 1
    assert "permission denied" in capsys.readouterr().err


def test_a_log_below_a_file_ends_the_start(call: Any, export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("serve", export, "--port", 0, "--log", export / "rule.json" / "log") == 1
    assert "error: " in capsys.readouterr().err


def test_figures_are_those_of_the_lists(start: Start, export: Path) -> None:
    served, rule = start(export), load_rule(export)
    constraints = {"min_items": {"art": 5, "bread": 5}}
    with served.client() as client:
        lists = [client.rerank(**request_of(number)) for number in range(20)]
        lists += [client.rerank(**request_of(number), constraints=constraints) for number in range(3)]
        late = client.rerank(**request_of(), time_limit=0.0)
        client.rerank(["i1", "unknown"], [1.0, 2.0], history=[])
        figures = client.metrics()
    assert late.fallback == "time limit"
    assert figures['recprism_requests_total{route="/rerank",status="200"}'] == 25
    assert figures['recprism_request_seconds_count{route="/rerank"}'] == 25
    assert figures['recprism_fallbacks_total{reason="time limit"}'] == 1
    assert figures["recprism_unknown_candidates_total"] == 1
    assert figures["recprism_unmet_constraints_total"] == sum(len(it.unmet) for it in lists) > 0
    assert figures["recprism_lists_with_unmet_constraints_total"] == 3
    assert figures["recprism_swaps_sum"] == sum(len(set(it.ids) - set(it.base)) for it in lists)
    assert figures["recprism_swaps_count"] == 25
    shown = [*(it.ids for it in lists), late.ids, ("i1",)]
    before = [*(it.base for it in lists), late.base, ("i1",)]
    assert figures['recprism_coverage_sum{list="rule"}'] == pytest.approx(sum(coverage(rule, it) for it in shown))
    assert figures['recprism_coverage_sum{list="base"}'] == pytest.approx(sum(coverage(rule, it) for it in before))
    assert figures['recprism_loads_total{result="loaded"}'] == 1
    assert figures["recprism_resident_memory_bytes"] > 1e7
    assert figures["recprism_enabled"] == 1


def coverage(rule: ServedRule, ids: Any) -> float:
    """The share of categories, counted in another way than the service counts."""
    file = rule.file
    owner = np.repeat(file.item_ids, np.diff(file.indptr))
    return len(np.unique(file.indices[np.isin(owner, list(ids))])) / len(file.names)


def test_a_wrong_price_is_refused_on_both_sides_of_the_holdout(start: Start, export: Path) -> None:
    served = start(export, "--holdout", "50%", "--holdout-price", "0")
    with served.client() as client:
        for number in range(20):
            with pytest.raises(InputError, match="price"):
                client.rerank(**request_of(), user=number, price="typo")


def test_names_in_labels_cannot_break_the_text() -> None:
    metrics = Metrics()
    metrics.fallbacks('a"b\\c\nd').inc(2)
    assert figures_in(metrics.text().decode())['recprism_fallbacks_total{reason="a\\"b\\\\c\\nd"}'] == 2


def test_rows_wait_while_the_disk_is_full_and_are_counted_if_lost(tmp_path: Path) -> None:
    metrics = Metrics()
    log = RequestLog(tmp_path / "log", metrics, rows=10, seconds=0.02, most=25)
    (tmp_path / "log").rmdir()
    (tmp_path / "log").write_text("a file is in the way", encoding="utf-8")
    for number in range(40):
        log.add(row(number))
    wait_until(lambda: log._failed)
    for number in range(40, 60):
        log.add(row(number))
    lost = value(metrics, "log_rows_dropped_total")
    assert lost > 0
    (tmp_path / "log").unlink()
    log.close()
    assert logged(tmp_path / "log").height == value(metrics, "log_rows_total") == 60 - lost


def test_rows_of_long_lists_are_dropped_once_many_ids_wait(tmp_path: Path) -> None:
    """Each row has four ids: ten rows may wait, and there is room again once they are on the disk."""
    metrics = Metrics()
    log = RequestLog(tmp_path, metrics, rows=1000, seconds=600, most_ids=40)
    for number in range(15):
        log.add(row(number))
    assert value(metrics, "log_rows_dropped_total") == 5
    log._wake.set()
    wait_until(lambda: value(metrics, "log_rows_total") == 10)
    for number in range(15, 20):
        log.add(row(number))
    log.close()
    assert logged(tmp_path)["request"].to_list() == [f"r{it}" for it in (*range(10), *range(15, 20))]
    assert value(metrics, "log_rows_dropped_total") == 5


def test_rows_of_many_threads_are_all_there(tmp_path: Path) -> None:
    metrics = Metrics()
    log = RequestLog(tmp_path, metrics, rows=50, seconds=0.01)
    threads = [
        threading.Thread(target=lambda at=at: [log.add(row(at * 500 + n)) for n in range(500)]) for at in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert sorted(logged(tmp_path)["request"]) == sorted(f"r{number}" for number in range(2000))
    assert all(pl.read_parquet(it).height <= 50 for it in tmp_path.iterdir())
