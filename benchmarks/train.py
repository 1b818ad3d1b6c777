"""Seconds until a model ranks well, each family against its own: BPRMF and LightGCN on MovieLens-1M.

Quality is NDCG@10 on the validation part of one 8:1:1 split, taken after every epoch by recprism's own evaluation. The
bar of a family is 98 % of the best value any of its members reached; the figure is training time until that. Rivals'
evaluation is not counted; recprism's own, which decides when to stop, is. A member that has not arrived within the
limit is written ">15 min".

    python benchmarks/train.py                      recprism alone, a minute
    python benchmarks/train.py --rivals             with implicit and RecBole, up to an hour and a half
    python benchmarks/train.py --rivals --quick     the same with few settings and a limit of a minute each

RecBole is installed into .venv-recbole on first use. On a machine that others use as well, set OMP_WAIT_POLICY=PASSIVE:
it keeps torch's threads, in recprism and RecBole alike, from burning their time in waiting for each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from implicit.cpu.bpr import BayesianPersonalizedRanking
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

import harness
from recprism.data import Split, load_dataset
from recprism.models import BPRMF, LightGCN
from recprism.models.adapters import from_implicit
from recprism.models.validation import ValidationNdcg

ROOT = Path(__file__).resolve().parent.parent
RECBOLE_PACKAGES = ("torch==2.13.0", "numpy<2", "setuptools<81", "pandas<3", "scipy<1.12", "recbole==1.2.1")
SHARE_OF_BEST = 0.98
EPOCHS_WITHOUT_GAIN = 30


@dataclass
class Course:
    """How one member of a family fared: (seconds, NDCG@10) after every epoch."""

    family: str
    name: str
    settings: dict[str, Any]
    points: list[tuple[float, float]] = field(default_factory=list)

    @property
    def best(self) -> float:
        return max((value for _, value in self.points), default=0.0)

    def seconds_to(self, value: float) -> float | None:
        return next((seconds for seconds, reached in self.points if reached >= value), None)

    def goes_on(self, limit: float) -> bool:
        values = [value for _, value in self.points]
        stale = len(values) - 1 - int(np.argmax(values)) >= EPOCHS_WITHOUT_GAIN
        return self.points[-1][0] < limit and not stale


class EnoughError(Exception):
    """Ends a rival's training from inside its callback."""


Evaluator = Callable[[NDArray[np.float32], NDArray[np.float32]], float]


def our_courses(split: Split, quick: bool) -> Iterator[Course]:
    """recprism with its defaults, and from a random start for comparison."""
    members: list[tuple[str, str, Any]] = [
        ("BPRMF", "recprism", BPRMF()),
        ("LightGCN", "recprism", LightGCN()),
    ]
    if not quick:
        random = {"start": "normal", "start_scale": 0.03, "patience": 5}
        members += [
            ("BPRMF", "recprism, random start", BPRMF(**random, learning_rate=0.01, weight_decay=1.4)),
            ("LightGCN", "recprism, random start", LightGCN(**random, learning_rate=0.03)),
        ]
    for family, name, model in members:
        course = Course(family, name, vars(model))
        began = time.perf_counter()
        model.fit(split, progress=lambda e, c=course, b=began: c.points.append((time.perf_counter() - b, e.validation)))
        yield course


def implicit_courses(split: Split, judge: Evaluator, limit: float, quick: bool) -> Iterator[Course]:
    """implicit's BPR over a small grid."""
    train = csr_matrix(split.train.to_scipy())
    grid = [(0.005, 0.001)] if quick else [(rate, l2) for rate in (0.003, 0.005, 0.01) for l2 in (1e-4, 1e-3, 1e-2)]
    for rate, l2 in grid:
        course = Course("BPRMF", "implicit", {"learning_rate": rate, "regularization": l2})
        model = BayesianPersonalizedRanking(50, rate, l2, iterations=1000, random_state=0)
        seconds = 0.0

        def after(_: int, elapsed: float, *__: Any, course: Course = course, model: Any = model) -> None:
            nonlocal seconds
            seconds += elapsed
            course.points.append((seconds, judge(*from_implicit(model).search_vectors)))
            if not course.goes_on(limit):
                raise EnoughError

        with suppress(EnoughError):
            model.fit(train, show_progress=False, callback=after)
        yield course


def recbole_courses(split: Split, judge: Evaluator, limit: float, quick: bool) -> Iterator[Course]:
    """RecBole's BPR and LightGCN, with its default settings and with faster ones."""
    python = recbole_python()
    settings: dict[str, list[dict[str, Any]]] = {
        "BPR": [{}, {"learning_rate": 0.003}, {"learning_rate": 0.003, "weight_decay": 1e-6}],
        "LightGCN": [{"n_layers": 3}, {"n_layers": 3, "train_batch_size": 16_384, "learning_rate": 0.005}],
    }
    for model, grid in settings.items():
        for chosen in grid[:1] if quick else grid:
            family = "BPRMF" if model == "BPR" else model
            course = Course(family, "RecBole", chosen)
            with tempfile.TemporaryDirectory() as folder:
                write_inter_files(split, Path(folder) / "same")
                follow_recbole(python, model, Path(folder), course, split, judge, limit)
            yield course


def follow_recbole(
    python: Path, model: str, folder: Path, course: Course, split: Split, judge: Evaluator, limit: float
) -> None:
    asked = {
        "model": model,
        "folder": str(folder),
        "settings": course.settings,
        "n_users": split.n_users,
        "n_items": split.n_items,
    }
    command = [str(python), str(ROOT / "benchmarks" / "recbole_rival.py"), json.dumps(asked)]
    log = folder / "errors.txt"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            value = judge(np.load(folder / "user.npy"), np.load(folder / "item.npy"))
            course.points.append((json.loads(line)["seconds"], value))
            process.stdin.write("go\n" if course.goes_on(limit) else "stop\n")
            process.stdin.flush()
    if process.returncode:
        raise SystemExit(f"RecBole's {model} failed with exit code {process.returncode}:\n{log.read_text()[-2000:]}")


def write_inter_files(split: Split, folder: Path) -> None:
    """The same split in RecBole's format, users and items by number."""
    folder.mkdir()
    for part, name in (("train", "train"), ("validation", "valid"), ("test", "test")):
        matrix = split.part(part)  # type: ignore[arg-type]
        pairs = np.stack([matrix.row_of_entry, matrix.indices], axis=1)
        header = "user_id:token\titem_id:token"
        np.savetxt(folder / f"{folder.name}.{name}.inter", pairs, "%d", "\t", header=header, comments="")


def recbole_python() -> Path:
    """RecBole wants old packages: it lives in an environment of its own."""
    home = ROOT / ".venv-recbole"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *RECBOLE_PACKAGES], check=True)
    return python


def make_judge(split: Split) -> Evaluator:
    """recprism's validation NDCG@10 for plain arrays; called once so that compilation is on nobody's clock."""
    ndcg = ValidationNdcg(split, torch.device("cpu"))

    def judge(user: NDArray[np.float32], item: NDArray[np.float32]) -> float:
        return ndcg(torch.from_numpy(np.ascontiguousarray(user)), torch.from_numpy(np.ascontiguousarray(item)))

    judge(np.ones((split.n_users, 2), np.float32), np.ones((split.n_items, 2), np.float32))
    return judge


def claims_of(courses: list[Course], limit: float) -> list[harness.Claim]:
    """Per family: seconds of every member to the family's bar, then recprism's seconds to each rival's own best."""
    claims = []
    for family in ("BPRMF", "LightGCN"):
        members = [course for course in courses if course.family == family]
        bar = SHARE_OF_BEST * max(course.best for course in members)
        fastest = fastest_by_name(members, bar)
        ours = fastest["recprism"]
        rivals = {name: course for name, course in fastest.items() if not name.startswith("recprism")}
        times = [seconds for course in rivals.values() if (seconds := course.seconds_to(bar)) is not None]
        for name, course in fastest.items():
            late = f">{limit / 60:g} min" if course.points[-1][0] >= limit else "never (stopped rising)"
            seconds = course.seconds_to(bar)
            claim = f"{family}, {name}: seconds to NDCG@10 {bar:.4f} (its best: {course.best:.4f})"
            to_beat = min(times) if course is ours and times else None
            claims.append(harness.Claim(claim, late if seconds is None else seconds, to_beat))
        for name in rivals:
            best = max((course for course in members if course.name == name), key=lambda course: course.best)
            claim = f"{family}, recprism: seconds to {name}'s own best, NDCG@10 {best.best:.4f}"
            claims.append(harness.Claim(claim, ours.seconds_to(best.best), best.seconds_to(best.best)))
    return claims


def fastest_by_name(members: list[Course], bar: float) -> dict[str, Course]:
    """Of each name the course that came to the bar first; where none did, the best."""

    def order(course: Course) -> tuple[float, float]:
        seconds = course.seconds_to(bar)
        return (float("inf") if seconds is None else seconds, -course.best)

    names = dict.fromkeys(course.name for course in members)
    return {name: min((course for course in members if course.name == name), key=order) for name in names}


def main() -> None:
    options = harness.parser(__doc__)
    options.add_argument("--data-root", help="where ml-1m.zip is (else RECPRISM_DATA)")
    options.add_argument("--rivals", action="store_true", help="train implicit's and RecBole's models as well")
    options.add_argument("--quick", action="store_true", help="few settings, a minute each")
    options.add_argument("--limit", type=float, help="training seconds allowed to each member (default 900, quick: 60)")
    asked = options.parse_args()
    limit = asked.limit or (60.0 if asked.quick else 900.0)
    split = load_dataset("ml-1m", preset="paper", data_root=asked.data_root).split(seed=0)
    judge = make_judge(split)
    courses = list(our_courses(split, asked.quick))
    if asked.rivals:
        courses += implicit_courses(split, judge, limit, asked.quick)
        courses += recbole_courses(split, judge, limit, asked.quick)
    harness.report(
        claims_of(courses, limit),
        as_json=asked.json,
        packages=("implicit",),
        details=[vars(course) for course in courses],
    )


if __name__ == "__main__":
    main()
