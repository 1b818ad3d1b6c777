"""Every file of a run edited or deleted, then every command that reads: one sentence, or the answer of the whole run.

python tools/faults/truncate.py

Each file is cut to nothing, one byte, a half and all but one byte, deleted, and changed in one byte. A command may
refuse in one sentence that names the file or its run, answer as it does for the undamaged run, or say in its answer
that the file does not tell how the run ended. Anything else is bad: a traceback, or another answer.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import io
import json
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kill import BUDGET, TRAIN, write_world

Answer = tuple[int, str, str]
NAMED = "second"
CUTS: dict[str, Callable[[bytes], bytes | None]] = {
    "0": lambda _content: b"",
    "1": lambda content: content[:1],
    "half": lambda content: content[: len(content) // 2],
    "all but 1": lambda content: content[:-1],
    "deleted": lambda _content: None,
    "one byte changed": lambda content: _with_other_byte(content, 2),
    "another byte changed": lambda content: _with_other_byte(content, 5),
}
SHOWN_AS_IT_IS = ("report.html",)
"""The studio hands out this page unread, so a byte that was changed in it is handed out, too."""
READERS: dict[str, tuple[str, ...]] = {
    "evaluate": ("evaluate", "RUN", "--bootstrap", "0", "--json"),
    "check": ("check", "RUN", "--max-ndcg-loss", "0.9", "--json"),
    "audit": ("audit", "RUN", "--json"),
    "explain": ("explain", "RUN", "--draws", "0", "--json"),
    "why": ("why", "RUN", "--user", "3", "--json"),
    "report": ("report", "RUN", "--draws", "0", "-o", "OUT/page.html", "--json"),
    "export": ("export", "RUN", "--form", "dials", "--to", "npz", "-o", "OUT/vectors", "--json"),
    "export the rule": ("export", "RUN", "-o", "OUT/rule", "--json"),
    "recommend": ("recommend", "RUN", "-o", "OUT/lists.csv"),
}
GOING_ON = {
    "searching": ("resume", "RUN", "--json"),
    "training": ("resume", "RUN", "--json"),
}


@dataclass(frozen=True)
class Outcome:
    """how: "refused", "the same", "told" (answered, and said that the file tells too little) or "bad"."""

    file: str
    cut: str
    command: str
    how: str
    said: str


def _with_other_byte(content: bytes, part: int) -> bytes:
    """The contents with another byte at one ``part``-th of them."""
    at = len(content) // part
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def call(words: tuple[str, ...]) -> Answer:
    """Exit code, stdout and stderr of a command in this process; -1 for a traceback."""
    from recprism.cli import main

    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["recprism", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        except BaseException as fault:
            code = -1
            err.write("".join(traceback.format_exception(fault)))
    return code, out.getvalue(), err.getvalue()


def open_in_studio(run: Path) -> Answer:
    """What the studio says of a run, with its report where there is one; code 2 if it cannot be shown."""
    from fastapi.testclient import TestClient

    from recprism.errors import RecprismError
    from recprism.studio.app import create_app

    try:
        app = create_app([run])
    except RecprismError as refused:
        return 2, "", f"error: {refused}\n"
    with TestClient(app, base_url="http://127.0.0.1") as client:
        while (state := client.get(f"/api/runs/{run.name}").json())["phase"] in ("waiting", "preparing"):
            if state["message"].startswith("This run has no trained model"):
                return 2, "", f"error: {run}: {state['message']}\n"
            time.sleep(0.02)
        if state["phase"] == "broken":
            return 2, "", f"error: {state['message']}\n"
        asked = [
            client.get(f"/api/runs/{run.name}/{it}") for it in ("payers", "paths/subtopic_coverage", "download/report")
        ]
    refused = [it.json()["detail"] for it in asked if it.status_code in (404, 409)]
    if refused:
        return 2, "", f"error: {refused[0]}\n"
    state.pop("standing")
    return 0, json.dumps([state, *(it.text for it in asked)]), ""


class Reading:
    """Runs with every file that a run can have, and what the commands say of them."""

    def __init__(self, folder: Path, names: tuple[str, ...] = (*READERS, "serve", "resume")) -> None:
        self.folder, self.run, self.out, self.names = folder, folder / "trial" / "run", folder / "out", names
        self.run.parent.mkdir()
        write_world(folder)
        self._must(*TRAIN)
        self._interrupted_training()
        self._interrupted_search()
        self._whole()
        self.expected = {(of, name): self._answer(of, name) for of, name in self.questions()}
        again = {key: self._answer(*key) for key in self.expected}
        self.moving = {key: changing(self.expected[key][1], again[key][1]) for key in again}

    def questions(self) -> Iterator[tuple[str, str]]:
        yield from (("whole", name) for name in self.names if name != "resume")
        yield from ((of, name) for of in GOING_ON for name in self.names if name == "resume")

    def files(self, of: str) -> list[str]:
        """Of an interrupted run only what the others do not have: its checkpoint, and what tells it how to go on."""
        folder = self.folder / of
        if of == "whole":
            names = sorted(path.name for path in folder.iterdir() if path.is_file())
            return [*names, *(f"results/{NAMED}/{name}" for name in ("result.toml", "factors_explanation.json"))]
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        asked = [path for path in files if "checkpoint" in path.name or path.name == "config.toml"]
        return [path.relative_to(folder).as_posix() for path in asked]

    def trial(self, of: str, file: str, cut: str, name: str) -> Outcome:
        self._fresh(of)
        content = CUTS[cut]((self.run / file).read_bytes())
        if content is None:
            (self.run / file).unlink()
        else:
            (self.run / file).write_bytes(content)
        code, out, err = self._ask(of, name)
        return Outcome(file, cut, name, *self._judged((of, name), file, code, out, err))

    def _judged(self, key: tuple[str, str], file: str, code: int, out: str, err: str) -> tuple[str, str]:
        wanted, moving = self.expected[key], self.moving[key]
        if code == wanted[0] and without(out, moving) == without(wanted[1], moving):
            return "the same", ""
        if code == 0 and f"{file} does not say how it ended" in out:
            return "told", ""
        errors = [line for line in err.splitlines() if line.startswith("error:")]
        if code in (1, 2) and len(errors) == 1 and (file in errors[0] or str(self.run) in errors[0]):
            return "refused", errors[0]
        return "bad", f"{code}: {(err.strip() or 'another answer')[-300:]}"

    def _answer(self, of: str, name: str) -> Answer:
        self._fresh(of)
        found = self._ask(of, name)
        if found[0]:
            raise RuntimeError(f"{name} of the undamaged run: {found}")
        return found

    def _ask(self, of: str, name: str) -> Answer:
        if name == "serve":
            return open_in_studio(self.run)
        code, out, err = call(self._words(READERS[name] if of == "whole" else GOING_ON[of]))
        trained = [self.run / it for it in ("factors.safetensors", "delta.safetensors") if of != "whole"]
        made = [*sorted(self.out.rglob("*")), *trained]
        prints = [hashlib.sha256(it.read_bytes()).hexdigest() for it in made if it.is_file() and it.suffix != ".html"]
        return code, json.dumps([out, prints]) if code == 0 else out, err

    def _words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        places = {"RUN": self.run, "DATA": self.folder / "a.csv", "ITEMS": self.folder / "items.csv"}
        return tuple(str(places.get(word, word.replace("OUT", str(self.out)))) for word in words)

    def _must(self, *words: str) -> None:
        code, _, err = call(self._words(words))
        if code:
            raise RuntimeError(f"{words}: {err}")

    def _fresh(self, of: str) -> None:
        for path in (self.run, self.out):
            shutil.rmtree(path, ignore_errors=True)
        self.out.mkdir()
        shutil.copytree(self.folder / of, self.run)

    def _interrupted_training(self) -> None:
        from recprism.runs.jobs.train import start, train
        from recprism.runs.run import Run

        config = Run.open(self.run).config
        run = start(self.folder / "training", config)
        with contextlib.suppress(KeyboardInterrupt):
            train(run, lambda epoch: _interrupt_at(epoch.epoch, 3))

    def _interrupted_search(self) -> None:
        from recprism.cmb.jobs.search import begin_search, search
        from recprism.runs.config import DiversifyConfig
        from recprism.runs.run import Run

        shutil.copytree(self.run, self.folder / "searching")
        run = begin_search(Run.open(self.folder / "searching"), DiversifyConfig(settings={"iterations": 12}))
        with contextlib.suppress(KeyboardInterrupt):
            search(run, lambda step: _interrupt_at(step.iteration, 5))

    def _whole(self) -> None:
        self._must("diversify", "RUN", *BUDGET)
        self._must("steer", "RUN", "--user", "3", "--set", "k1=0.1", "--keep")
        for words in (("evaluate",), ("recommend",), ("recommend", "--judged"), ("explain", "--draws", "0")):
            self._must(words[0], "RUN", *words[1:])
        self._must("search", "RUN", "--set", "iterations=3", "--name", NAMED)
        self._must("erase", "RUN", "--controls", "0", "--draws", "1", "--name", NAMED)
        self._must("report", "RUN", "--draws", "0")
        open_in_studio(self.run)  # makes the stored path
        shutil.copytree(self.run, self.folder / "whole")


def _interrupt_at(now: int, wanted: int) -> None:
    if now == wanted:
        raise KeyboardInterrupt


def changing(one: str, other: str) -> list[str]:
    """Numbers that differ between two answers of the same run: when it was made, how long it took."""
    pattern = r"\d[\d:.\-+TZ]*"
    first, second = re.findall(pattern, one), re.findall(pattern, other)
    return sorted({a for pair in zip(first, second, strict=False) if len(set(pair)) > 1 for a in pair})


def without(text: str, moving: list[str]) -> str:
    """The text with times of day and what took how long left out."""
    if not moving:
        return text
    text = re.sub(r"\d{4}-\d\d-\d\d[ T][\d:]+", "", text)
    return re.sub(r"(seconds\D{0,8}|took\D{0,8})[\d.]+", r"\1", text)


def table(outcomes: list[Outcome]) -> str:
    """Files by commands: of the edits, how many were refused (r) and how many answered the same (=)."""
    commands = list(dict.fromkeys(it.command for it in outcomes))
    cells: dict[tuple[str, str], collections.Counter[str]] = {}
    for it in outcomes:
        cells.setdefault((it.file, it.command), collections.Counter())[it.how] += 1
    lines = [f"| file | {' | '.join(commands)} |", "|---" * (len(commands) + 1) + "|"]
    for file in dict.fromkeys(it.file for it in outcomes):
        found = [cells.get((file, command), collections.Counter()) for command in commands]
        shown = [" ".join(f"{'=' if how == 'the same' else how} {n}" for how, n in sorted(it.items())) for it in found]
        lines.append(f"| {file} | {' | '.join(shown)} |")
    return "\n".join(lines)


def all_trials(reading: Reading) -> Iterator[tuple[str, str, str, str]]:
    for of, name in reading.questions():
        for file in reading.files(of):
            cuts = [it for it in CUTS if not (file in SHOWN_AS_IT_IS and name == "serve" and "changed" in it)]
            yield from ((of, file, cut, name) for cut in cuts)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--file", help="this file alone")
    options.add_argument("--cut", choices=list(CUTS), help="this edit alone")
    options.add_argument("--command", action="append", help="this command alone, and others so given")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reading = Reading(Path(folder).resolve(), tuple(given.command or (*READERS, "serve", "resume")))
        wanted = [it for it in all_trials(reading) if given.file in (None, it[1]) and given.cut in (None, it[2])]
        outcomes = [reading.trial(*it) for it in wanted]
    counts: Any = collections.Counter(it.how for it in outcomes)
    sys.stdout.write(table(outcomes) + "\n\n")
    for it in outcomes:
        if it.how == "bad":
            sys.stdout.write(f"BAD {it.file}, {it.cut}, {it.command}: {it.said}\n")
    sys.stdout.write(f"{len(outcomes)} trials: {dict(counts)}\n")
    sys.exit(counts["bad"] > 0)


if __name__ == "__main__":
    main()
