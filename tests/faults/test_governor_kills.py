"""A process with a governor is killed ten times while it writes events: no event and no state is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from recprism.operate.traffic.governor import Governor
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.runs.event_log import read_events

PLAN = GovernorPlan(prices=(0.0, 0.1), share=0.2, budgets={"clicks": "10%"}, outcomes="outcomes.parquet")
CHILD = """
import sys
from recprism.operate.traffic.governor import Governor
from recprism.operate.traffic.governor_plan import GovernorPlan
governor = Governor(eval(sys.argv[1]), sys.argv[2], "export")
while True:
    governor.switch(not governor.state.enabled)
    print(governor.state.changes, int(governor.state.enabled), flush=True)
"""


def test_ten_kills_lose_no_event_and_no_state(tmp_path: Path) -> None:
    luck, said = random.Random(0), (0, 1)
    for _ in range(10):
        words = [sys.executable, "-c", CHILD, repr(PLAN), str(tmp_path)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline()]
            time.sleep(luck.random() / 10)
            child.kill()
            lines += child.stdout.read().splitlines()
        whole = [line.split() for line in lines if len(line.split()) == 2]
        said = int(whole[-1][0]), int(whole[-1][1])
        now = Governor(PLAN, tmp_path, "export").state
        assert said[0] <= now.changes <= said[0] + 1, "at most one change was written and not said"
        if now.changes == said[0]:
            assert now.enabled == bool(said[1])
    changes = [it["state"]["changes"] for it in read_events(tmp_path / "governor.jsonl")]
    assert len(changes) > 50 and changes[0] == 1
    assert changes == sorted(set(changes)) and changes[-1] == len(changes), "each change is there once"
