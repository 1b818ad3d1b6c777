"""Record what ndeval answers, for the oracles of metrics: python tools/record_ndeval.py

pyndeval has no wheel for ARM, so the tests do not install it. An environment to record in:

    python -m venv ndeval-venv && ndeval-venv/bin/pip install '.[full]' 'pyndeval==0.0.8'

The worlds come from tests/oracles/metric_cases.py, by seed. The file holds one value per user, list length and metric,
and a fingerprint of each world.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "tests" / "oracles"))
from metric_cases import CASES, ask_ndeval, fingerprint  # noqa: E402

OUTPUT = HERE.parents[1] / "tests" / "golden" / "ndeval" / "answers.json"
DIGITS = 9  # the tests compare to 1e-6


def main() -> None:
    cases = {}
    for name, case in CASES.items():
        answers = {
            metric: [None if value is None else round(value, DIGITS) for value in found]
            for metric, found in ask_ndeval(case).items()
        }
        cases[name] = {"fingerprint": fingerprint(case), "answers": answers}
    made_by = {
        "script": "tools/record_ndeval.py",
        "pyndeval": version("pyndeval"),
        "numpy": version("numpy"),
        "machine": platform.machine(),
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps({"made_by": made_by, "cases": cases}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
