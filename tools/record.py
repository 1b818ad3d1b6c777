"""Write benchmarks/RESULTS.md from recorded benchmark output.

python benchmarks/topk.py --json > recorded/topk.json     (and so on for every benchmark)
python tools/record.py recorded/

A benchmark without a file there keeps the section it has. Rows in "table" of the details are shown as a table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "benchmarks" / "RESULTS.md"
ORDER = {
    "topk": ("Exact ranking", "python benchmarks/topk.py"),
    "topk_arm64": ("Exact ranking on ARM64", "python benchmarks/topk.py"),
    "metrics": ("Metrics", "python benchmarks/metrics.py"),
    "train": (
        "Training, time to quality on ML-1M",
        "OMP_WAIT_POLICY=PASSIVE python benchmarks/train.py --rivals --quick --limit 150 --data-root DIR",
    ),
    "rerank": ("Re-rankers", "python benchmarks/rerank.py"),
    "cmb": ("One iteration of CMB", "python benchmarks/cmb.py"),
    "gpu": ("One GPU", "python benchmarks/gpu.py --packed DIR"),
    "memory": ("Ten million ratings in memory", "python benchmarks/memory.py"),
    "large": ("More than memory", "python benchmarks/large.py --folder DIR"),
    "sample": ("Rewards from a sample of users", "python benchmarks/sample.py --run runs/ml1m"),
    "cost": ("What ranking costs", "python benchmarks/cost.py"),
    "bake": ("Lists put into vectors", "python benchmarks/bake.py --data-root DIR"),
    "dials": ("Lists put into named weights", "python benchmarks/dials.py runs/ml1m runs/cds"),
    "choice_model": ("What explains the lists of a method", "python benchmarks/choice_model.py runs/ml1m runs/cds"),
    "reasons": ("Are the reasons of new items true?", "python benchmarks/reasons.py --users 100"),
    "surrogate": (
        "A tree surrogate with SHAP next to the reasons",
        "python benchmarks/surrogate.py --data ml-latest-small ml-1m amazon-cds-2014 hetrec2011-lastfm-2k",
    ),
    "ceilings": (
        "How many new items leave without one of their categories, for each method",
        "python benchmarks/ceilings.py --data ml-latest-small ml-1m amazon-cds-2014 hetrec2011-lastfm-2k",
    ),
    "stability": ("What stays the same after a retraining", "python benchmarks/stability.py runs/ml1m"),
    "exposure": (
        "Exposure goals at equal losses",
        "python benchmarks/exposure.py runs/ml1m --goals catalogue_coverage shown_often gini exposure_entropy",
    ),
    "serving": ("Vectors in a real stack", "python benchmarks/serving.py --run runs/ml1m"),
    "command_times": ("What commands take, MovieLens-1M", "python benchmarks/command_times.py runs/ml1m"),
    "requests": ("Lists at request time", "python benchmarks/requests.py --requests 1000"),
    "service": ("The service under load", "python benchmarks/service.py --rate 300 --connections 200 --seconds 120"),
    "service_lists": (
        "The service under load, without reasons",
        "python benchmarks/service.py --rate 300 --connections 200 --seconds 120 --no-reasons",
    ),
    "service_governed_reasons": (
        "The service with a governor, and reasons",
        "python benchmarks/service.py --rate 300 --connections 200 --seconds 600 --governor",
    ),
    "service_workers": (
        "The service with a governor and two workers, with reasons",
        "python benchmarks/service.py --rate 300 --connections 200 --seconds 60 --governor --workers 2",
    ),
    "service_killed": (
        "The service, killed and restarted",
        "python benchmarks/service.py --rate 300 --connections 200 --seconds 60 --kill",
    ),
    "engine_mmr": ("Compared with an engine's own MMR", "python benchmarks/engine_mmr.py"),
    "any_list": (
        "One call for one list, compared with pyversity",
        "OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/any_list.py",
    ),
    "page_memory": ("Five pages", "python benchmarks/page_memory.py"),
    "served_log": ("A log of a million requests", "python benchmarks/served_log.py"),
    "live_certificate": ("The live certificate in worlds with known truth", "python benchmarks/live_certificate.py"),
    "million": ("A million users", "python benchmarks/million.py --folder DIR"),
    "million_all": ("A million users, all of them", "python benchmarks/million.py --folder DIR --all"),
    "million_ray": (
        "A million users: two workers of Ray",
        "python benchmarks/million.py --folder DIR --ray --users 24000 --shard-users 4000",
    ),
    "million_gpu": ("A million users on one GPU", "python benchmarks/million_gpu.py"),
    "studio": ("The studio under load", "python benchmarks/studio.py --run runs/ml1m"),
    "faithfulness": (
        "Which explanation predicts a re-ranker",
        "python benchmarks/faithfulness.py runs/ml1m",
    ),
    "certificate": ("Does the certificate hold as often as it says", "python benchmarks/certificate.py"),
    "platforms": (
        "The same on another machine",
        "python benchmarks/platforms.py --compare here.npz there.npz plain.npz",
    ),
    "promise": ("Does the test keep what validation promised", "python benchmarks/promise.py"),
    "rolling_origin": ("How long does a certificate last", "python benchmarks/rolling_origin.py"),
    "perceived": ("Which metric orders lists as people do", "python benchmarks/perceived.py"),
}
TEXT = TARGET.with_name("results_text.md")


def main(folder: str) -> None:
    sections = [TEXT.read_text(encoding="utf-8").rstrip()]
    before = _sections(TARGET.read_text(encoding="utf-8"))
    for name, (title, command) in ORDER.items():
        path = Path(folder) / f"{name}.json"
        if path.exists():
            recorded = json.loads(path.read_text(encoding="utf-8"))
            parts = [f"## {title}", f"`{command}`", _machine(recorded["machine"]), *_details(recorded.get("details"))]
            sections.append("\n\n".join([*parts, _table(recorded["claims"])]))
        elif title in before:
            sections.append(before[title])
    TARGET.write_text("\n\n".join(sections) + "\n", encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """Title -> section, of what is recorded already: a benchmark that was not run again keeps its figures."""
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: "## " + part.rstrip() for part in parts}


def _machine(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    gpu = f"{machine['gpu']}, " if "gpu" in machine else ""
    where = f"{gpu}{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    return f"Recorded on: {where}, Python {machine['python']}, {packages}."


def _details(details: Any) -> list[str]:
    """The rows that a benchmark wants to be shown, header first."""
    if not isinstance(details, dict) or "table" not in details:
        return []
    header, *rows = details["table"]
    return ["\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))]


def _table(claims: list[dict[str, Any]]) -> str:
    lines = ["| figure | value | bar | holds |", "|---|---|---|---|"]
    for claim in claims:
        verdict = {True: "yes", False: "**no**", None: ""}[claim["holds"]]
        bar = (
            ""
            if claim["bar"] is None
            else f"{'≤' if claim['better'] == 'lower' else '≥'} {claim['bar']:g}"
            if isinstance(claim["bar"], int | float)
            else str(claim["bar"])
        )
        lines.append(f"| {claim['claim']} | {_number(claim['value'])} | {bar} | {verdict} |")
    return "\n".join(lines)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1])
