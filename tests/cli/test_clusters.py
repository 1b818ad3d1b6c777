"""Users who belong together: clusters from a file, in a certificate, in a run and in what it exports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recprism as rp
from recprism.data.readers.clusters import read_clusters
from recprism.errors import InputError
from recprism.operate.refitted_run import _still_together
from recprism.result.result import Result
from recprism.runs.jobs.diversify import diversify_within
from recprism.runs.parts.questions import LEDGER
from recprism.runs.run import Run
from recprism.studio import commands

USERS = np.array(["a", "b", "c", "d"], dtype=object)


def written(folder: Path, text: str) -> Path:
    path = folder / "clusters.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_users_that_the_file_does_not_name_are_alone(tmp_path: Path) -> None:
    found = read_clusters(written(tmp_path, "user_id,cluster\nb,7\nd,7\nz,7\nb,7\n"), USERS)
    first, second, third, fourth = found.numbers.tolist()
    assert second == fourth
    assert len({first, second, third}) == 3
    assert found.sentence() == (
        "4 users are in 3 clusters; users who are not in the file (2) are each a cluster of their own; users of the "
        "file who are not in the run (1) are left out"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user_id,house\na,1\n", "needs the columns user_id and cluster; this one has user_id, house"),
        ("user_id,cluster\nz,1\n", "none of its user ids is a user of the run"),
        ("user_id,cluster\na,1\na,2\n", "user a is in two clusters; give each user one"),
        ("user_id,cluster\na,\n", "a user_id or a cluster is missing"),
        ("user_id,cluster\n", "no rows"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_clusters(written(tmp_path, text), USERS)


@pytest.fixture(scope="module")
def run(trained_run: Callable[..., Run]) -> Run:
    return trained_run()


@pytest.fixture(scope="module")
def households(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two users in each household."""
    users = run.split().user_ids
    path = tmp_path_factory.mktemp("clusters") / "households.parquet"
    pl.DataFrame({"user_id": users, "cluster": [f"h{at // 2}" for at in range(len(users))]}).write_parquet(path)
    return path


@pytest.fixture(scope="module")
def made(run: Run, households: Path) -> dict[str, Any]:
    """What Python finds for these households."""
    clusters = read_clusters(households, run.split().user_ids).numbers
    found = rp.diversify(run.problem(), budget=0.3, clusters=clusters)
    assert found.certificate is not None
    return found.certificate.to_dict()


def test_a_run_keeps_the_clusters_of_its_certificate(
    run: Run, households: Path, made: dict[str, Any], ok: Callable[..., Any], tmp_path: Path
) -> None:
    ok("audit", run.path, "--goal", "sc", "--budgets", "30%", "--clusters", households, "--json")
    ledger = (run.path.parent / LEDGER).read_text(encoding="utf-8")
    found = ok("diversify", run.path, "--budget", "30%", "--clusters", households, "--json").json
    assert (run.path.parent / LEDGER).read_text(encoding="utf-8") == ledger, "the audit asked the same"
    kept = found["certificate"]
    assert kept["points"] == made["points"]
    last = kept["points"][kept["last"]]["checks"][0]
    assert last["clusters"] < last["users"] <= 2 * last["clusters"]
    result = Run.open(run.path).load_result()
    assert result.problem.clusters is not None
    assert len(np.unique(result.problem.clusters)) == -(-len(run.split().user_ids) // 2)
    ok("export", run.path, "-o", tmp_path / "rule")
    promise = json.loads((tmp_path / "rule" / "rule.json").read_text(encoding="utf-8"))["certificate"]
    assert f"{last['users']} users of the validation part in {last['clusters']} clusters" in promise["sentence"]
    again = ok("audit", run.path, "--goal", "sc", "--budgets", "30%")
    assert "--clusters" in again.err
    assert "as in the run's result, users are in" in again.err
    assert "--clusters" in commands.made_by(run, run.config.diversify.within)  # type: ignore[union-attr]
    loaded = Result.load(result.save(tmp_path / "saved"))
    assert np.array_equal(loaded.problem.clusters, result.problem.clusters)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pass the same ones as clusters="):
        diversify_within(run, run.config.diversify.within, overwrite=True)  # type: ignore[union-attr,arg-type]


@pytest.mark.slow
def test_other_clusters_than_those_of_the_certificate_are_refused(
    trained_run: Callable[..., Run], households: Path, ok: Callable[..., Any]
) -> None:
    run = trained_run()
    ok("diversify", run.path, "--budget", "30%", "--clusters", households)
    kept = run.path / "clusters.parquet"
    table = pl.read_parquet(kept)
    metadata = pl.read_parquet_metadata(kept)
    noted = {name: it for name, it in metadata.items() if not name.startswith("ARROW")}
    table.with_columns(cluster=pl.lit(0, pl.Int64)).write_parquet(kept, metadata=noted)
    with pytest.raises(InputError, match="its clusters are not those of the certificate"):
        Run.open(run.path).load_result()
    kept.unlink()
    with pytest.raises(InputError, match=r"clusters\.parquet: no such file"):
        Run.open(run.path).load_result()


def test_new_users_of_a_refit_are_clusters_of_their_own(run: Run) -> None:
    users = run.split().user_ids
    before = run.problem(constraints=run.constraints).with_clusters(np.arange(len(users)) // 2)
    now = np.concatenate([users[:4], [10**6, 10**6 + 1]])
    found = _still_together(before, now)
    assert found is not None
    assert len(set(found.tolist())) == 4
    assert found[0] == found[1]
    assert found[2] == found[3]


def test_clusters_of_other_users_are_refused(run: Run) -> None:
    with pytest.raises(InputError, match="users and 2 clusters of users"):
        rp.diversify(run.problem(), clusters=[1, 2])
    n = len(run.split().user_ids)
    with pytest.raises(InputError, match="cluster ids: one is missing"):
        rp.diversify(run.problem(), clusters=[None, *range(n - 1)])
    with pytest.raises(InputError, match="are in one cluster; a test needs at least 2 clusters"):
        rp.diversify(run.problem(), clusters=np.zeros(n))
