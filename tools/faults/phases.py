"""Run a recprism command and note, at once and outside of the process, in which phase it is.

python tools/faults/phases.py LOG WORDS...

Every line of LOG is the beginning of a phase: seconds and its name. What was written stays when the process is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import CodeType, FrameType
from typing import Any

# (end of the file's path, function) -> what goes on while it runs, apart from what it calls that stands here too
PHASES = {
    ("runs/jobs/train.py", "start"): "loading and dividing the data",
    ("runs/parts/stage.py", "begin"): "copying the run",
    ("runs/parts/stage.py", "commit"): "noting what moves",
    ("runs/parts/stage.py", "_roll_forward"): "moving files into the run",
    ("runs/parts/stage.py", "discard"): "removing the copy",
    ("runs/run.py", "create"): "writing the data",
    ("runs/parts/data.py", "save_data"): "writing the data",
    ("runs/jobs/train.py", "train"): "training",
    ("runs/parts/data.py", "save_checkpoint"): "writing a checkpoint",
    ("runs/parts/data.py", "save_factors"): "writing the vectors",
    ("runs/card.py", "write_card"): "writing the card",
    ("runs/parts/data.py", "split"): "reading the run",
    ("runs/parts/data.py", "factors"): "reading the run",
    ("runs/parts/results.py", "load_result"): "reading the run",
    ("runs/parts/results.py", "set_diversify"): "noting what is asked",
    ("cmb/jobs/search.py", "search"): "searching",
    ("cmb/jobs/search.py", "begin_search"): "noting what is asked",
    ("operate/refitted_run.py", "refit_run"): "walking within the budget",
    ("explain/explained.py", "explain_made"): "explaining",
    ("runs/parts/results.py", "save_explanation"): "writing the explanation",
    ("cmb/jobs/erasure.py", "erase_run"): "erasing",
    ("runs/parts/results.py", "save_factors_explanation"): "writing the explanation",
    ("runs/jobs/diversify.py", "diversify_within"): "walking within the budget",
    ("runs/parts/lists.py", "save_path"): "writing the path",
    ("runs/parts/audits.py", "keep_audit"): "keeping the audit",
    ("runs/parts/results.py", "save_result"): "writing the result",
    ("runs/parts/results.py", "save_certificate"): "writing the certificate",
    ("result/effect.py", "effect"): "measuring what it did",
    ("contest/tuning.py", "tune"): "tuning on validation",
    ("contest/fronts.py", "frontier"): "reading on the test",
    ("report/collect.py", "gather"): "gathering",
    ("report/html.py", "render"): "drawing",
    ("report/page.py", "write_report"): "writing the page",
}
STARTING, ENDING = "starting", "telling"


class Recorder:
    """Notes phases as functions are entered and left; the innermost one counts.

    stop_at: the process stops (SIGSTOP) when it notes this line, counted from 0; somebody else lets it go on
    """

    def __init__(self, path: str, stop_at: int = -1) -> None:
        self._stop_at, self._noted = stop_at, 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._known: dict[CodeType, str | None] = {}
        self._inside: list[str] = []
        self._last = ""
        self.note(STARTING)

    def note(self, phase: str) -> None:
        if phase != self._last:
            self._last = phase
            os.write(self._file, f"{time.monotonic():.4f} {phase}\n".encode())
            self._noted += 1
            if self._noted == self._stop_at + 1:
                os.kill(os.getpid(), signal.SIGSTOP)

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self._known:
            self._known[code] = self._phase(code)
        phase = self._known[code]
        if phase is None:
            return
        if event == "call":
            self._inside.append(phase)
        else:
            self._inside.pop()
        self.note(self._inside[-1] if self._inside else ENDING)

    @staticmethod
    def _phase(code: CodeType) -> str | None:
        for (file, function), phase in PHASES.items():
            if code.co_name == function and code.co_filename.endswith(f"recprism/{file}"):
                return phase
        return None


def main() -> None:
    log, sys.argv = sys.argv[1], ["recprism", *sys.argv[2:]]
    sys.setprofile(Recorder(log))
    from recprism.cli import main as recprism

    recprism()


if __name__ == "__main__":
    main()
