"""Files of one run belong together: each of them, taken from another run of the same data, is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from recprism.cmb import CMB
from recprism.data import Dataset
from recprism.errors import InputError
from recprism.models import BPRMF, Factors
from recprism.result.result import Result
from recprism.runs.config import DiversifyConfig, RunConfig
from recprism.runs.jobs.train import evaluate_run, recommend
from recprism.runs.run import Run

READ: dict[str, Callable[[Run], object]] = {
    "split.parquet": Run.factors,
    "items.parquet": Run.items,
    "categories.parquet": Run.categories,
    "factors.safetensors": Run.factors,
    "factors.json": Run.factors,
    "delta.safetensors": Run.load_result,
    "cmb.json": Run.load_result,
    "certificate.json": Run.certificate,
    "explanation.json": Run.explanation,
    "factors_explanation.json": Run.factors_explanation,
    "metrics.parquet": Run.metrics,
}


@pytest.fixture(scope="module")
def two(world: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of the same data: another split, another seed, so that only a hash can tell their files apart."""
    made = []
    for seed in (0, 1):
        split = world.split(seed=seed)
        run = Run.create(tmp_path_factory.mktemp("bound") / f"run{seed}", RunConfig(seed=seed))
        run.save_data(world, split)
        run.save_factors(BPRMF(epochs=2, dim=4).fit(split, seed=seed, device="cpu"))
        run.set_diversify(DiversifyConfig(settings={"iterations": 2}))
        search = CMB(iterations=2 + seed, device="cpu").fit(run.factors(), split, world.categories)
        run.save_result(Result.of_vectors(run.problem(), search.changed()))
        run.save_certificate({"certificate": {"sentence": f"made {seed}"}})
        run.save_explanation({"verdict": seed})
        run.save_factors_explanation({"verdict": seed})
        run.save_metrics(evaluate_run(run, bootstrap=0).to_frame())
        run.save_recommendations(recommend(run, 5)[0])
        made.append(run.path)
    return made[0], made[1]


@pytest.mark.parametrize("name", READ)
def test_a_file_of_another_run_is_refused(name: str, two: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(two[0], tmp_path / "run")
    READ[name](Run.open(tmp_path / "run"))
    shutil.copy(two[1] / name, tmp_path / "run" / name)
    with pytest.raises(InputError, match=r"made from another .* than the one next to it") as refused:
        READ[name](Run.open(tmp_path / "run"))
    assert "\n" not in str(refused.value)


def test_what_records_no_hash_makes_no_claim(two: tuple[Path, Path], tmp_path: Path) -> None:
    """Files of an earlier version, or written by other tools."""
    shutil.copytree(two[0], tmp_path / "run")
    run = Run.open(tmp_path / "run")
    facts = json.loads((run.path / "certificate.json").read_text(encoding="utf-8"))
    assert set(facts.pop("made_from")) == {"split.parquet", "factors.safetensors", "delta.safetensors"}
    assert "device" not in facts.pop("asked")
    (run.path / "certificate.json").write_text(json.dumps(facts), encoding="utf-8")
    assert run.certificate() == facts
    plain = Factors.from_arrays(run.factors().user, run.factors().item)
    plain.save(tmp_path / "plain.safetensors")
    assert Factors.load(tmp_path / "plain.safetensors").n_users == plain.n_users


def test_lists_record_what_they_came_from(two: tuple[Path, Path]) -> None:
    import polars as pl

    notes = [pl.read_parquet_metadata(path / "recommendations.parquet")["facts"] for path in two]
    assert notes[0] != notes[1]
    assert "delta.safetensors" in json.loads(notes[0])


def test_figures_of_diversified_lists_are_of_their_perturbation(two: tuple[Path, Path], tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(two[0], tmp_path / "run"))
    assert run.measured() == "diversified"
    found = run.load_result()
    shutil.copy(two[1] / "delta.safetensors", run.path)
    with pytest.raises(InputError, match=r"metrics\.parquet: made from another delta\.safetensors"):
        run.metrics()
    run.save_result(found)
    assert run.measured() is None, "whoever searches again needs no figures of what was there before"
    run.save_metrics(evaluate_run(run, bootstrap=0, base=True).to_frame(), base=True)
    shutil.copy(two[1] / "delta.safetensors", run.path)
    assert (run.measured(), len(run.metrics()) > 0) == ("trained", True)
