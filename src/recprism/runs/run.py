"""The run directory: everything a run was asked, did and found, in files that other tools can read.

config.toml            what was asked
events.jsonl           what happened, one object a line
split.parquet          user_id, item_id, part and, with times, place: the order of a user's interactions
items.parquet          item_id and attributes
categories.parquet      item_id, category, weight
.training/, .search/   an unfinished training or search, with its checkpoint; its files move to the run when it ends
factors.safetensors    user and item vectors, with factors.json for ids and settings
result.json            the rule, if found within a budget
cmb.json               settings and history of the search, if found by players
delta.safetensors      arrays of the rule, or the change of the vectors that players found
certificate.json       what the lists are certified to cost, if a budget was given
clusters.parquet       user_id, cluster: users who are not independent, if --clusters named them
audit.json             what audits certified; diversify takes it over
explanation.json       why the lists are as they are
factors_explanation.json  what erasing factors of changed vectors takes back, with the controls
steering.json          dials that users set for themselves, for all results
recommendations.parquet  live lists: user_id, item_id, rank, score
recommendations.judged.parquet  judged lists, which use the history before the held-out part
path.GOAL.safetensors  lists along the path towards a goal, from which any budget is answered at once
report.html            one page about all of it
CARD.md                what the run is, in words
metrics.parquet        metric, k, part, mean, low, high, ...
results/NAME/          the same files of a named result, from delta.safetensors on, and
    result.toml        what was asked of it

Next to the runs, labels.jsonl has the questions that their held-out labels have answered.

A command that replaces files makes the new ones in a folder inside the run and moves them at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from recprism.common.bound import noted_in_tensors, require_bound
from recprism.common.files import is_left_over, readable
from recprism.errors import InputError
from recprism.runs.config import RunConfig, is_config, read_config, write_config
from recprism.runs.lock import LOCK, held, unchanged
from recprism.runs.parts import stage
from recprism.runs.parts.data import DATA
from recprism.runs.parts.folder import ASKED
from recprism.runs.parts.results import OF_RESULT, STEERING, RunResults

STATE = (
    *("config.toml", ASKED, "split.parquet", "factors.safetensors"),
    *("delta.safetensors", "cmb.json", "result.json", "certificate.json", STEERING),
)
"""Files that a page or an explanation must read from one and the same state of the run."""


class Run(RunResults):
    """Reads and writes one run directory; no other part of the package knows its files.

    A run has one model and any number of results: the unnamed one, and named ones. One object reads and writes one
    result.

    Args:
        path: The run directory.
        result: The name of a result; None is the unnamed one.

    Raises:
        InputError: If the name holds other characters than letters, digits, - and _.
    """

    @classmethod
    def create(cls, path: str | Path, config: RunConfig, *, overwrite: bool = False) -> Run:
        """Make a new run directory.

        Args:
            path: A new or empty folder.
            config: What is asked of the run.
            overwrite: Replace a run that exists there. It stays as it is until :meth:`commit`.

        Raises:
            InputError: If the folder holds a run that may not be replaced, or other files.
        """
        run = cls(path)
        run.require_free(overwrite=overwrite)
        with held(run.path):
            stage.tidy(run.path)
            if (run.path / "config.toml").exists():
                run = run.staged(stage.TRAINING)
            write_config(run.folder / "config.toml", config)
        return run

    @classmethod
    def open(cls, path: str | Path, result: str | None = None) -> Run:
        """Open an existing run, and an existing result of it.

        Raises:
            InputError: If there is no such run or result.
        """
        run = cls(path, result)
        stage.complete(run.path)
        read_config(run.path / "config.toml")
        if result is not None and result not in run.results:
            there = ", ".join(run.results)
            known = f"there are {there}" if there else f"make it with `recprism diversify {run.argument} --budget 5%`"
            raise InputError(f"{run.path}: has no result named {result}; {known}")
        return run

    def staged(self, work: str = stage.RESULT) -> Run:
        """Return a copy of this run to change. The run itself changes with :meth:`commit`, all at once.

        Args:
            work: What the copy is for; earlier work of the same kind is deleted. A training starts without files.
        """
        stage.complete(self.path)
        found = self._at(work)
        stage.begin(self.path, found.folder, empty=work == stage.TRAINING)
        return found

    def unfinished(self, work: str) -> Run | None:
        """Return the copy with an unfinished training, or the unfinished search of this result; None without one."""
        found = self._at(work)
        return found if all((found.folder / name).exists() for name in (stage.BEGAN, "config.toml")) else None

    def under_way(self) -> Run:
        """Return the copy with the unfinished training or search of this run; the run itself without one."""
        return self.unfinished(stage.TRAINING) or self.unfinished(stage.SEARCH) or self

    def keep_for(self, work: str) -> None:
        """Keep this copy as unfinished work, which :meth:`unfinished` finds; it replaces earlier work of this kind."""
        place = self._at(work).folder
        stage.discard(place)
        self.folder = self.folder.rename(place)

    def _at(self, work: str) -> Run:
        name = f"{work}.{self.result}" if work == stage.SEARCH and self.result is not None else work
        found = Run(self.path, self.result, folder=self.path / name)
        found.sinks = self.sinks
        return found

    def commit(self) -> None:
        """Make the run what this copy is, and this object the run; nothing happens if it is no copy."""
        if self.folder != self.path:
            with held(self.path):
                stage.commit(self.path, self.folder)
            self.folder = self.path

    def discard(self) -> None:
        """Delete this copy, and make this object the run, which stays as it is.

        A copy whose files are being moved stays: the next command that opens the run completes the moves.
        """
        if self.folder != self.path and not stage.is_committing(self.folder):
            stage.discard(self.folder)
            self.folder = self.path

    @contextmanager
    def discarded_on_failure(self) -> Iterator[None]:
        """Delete this copy if the block fails, unless `recprism resume` can continue the work in it."""
        try:
            yield
        except BaseException as failure:
            begun = isinstance(failure, KeyboardInterrupt) or any(self.folder.rglob(f"*{stage.CHECKPOINT}"))
            if self.folder.name == stage.RESULT or not begun:
                self.discard()
            raise

    def named(self, result: str | None) -> Run:
        """Return another result of the same run, which need not exist yet; None is the unnamed one."""
        return Run(self.path, result)

    @staticmethod
    def is_at(path: str | Path) -> bool:
        """Whether a folder is a run, or what is left of one; other programs write a ``config.toml``, too."""
        files = ("config.toml", "events.jsonl", "split.parquet", "factors.safetensors")
        return sum((Path(path) / name).is_file() for name in files) > 1 or is_config(Path(path) / "config.toml")

    def require_free(self, *, overwrite: bool = False) -> None:
        """Refuse a place where no run can be made, or that holds a run which may not be replaced."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; name a directory for the run")
        if (self.path / "config.toml").exists():
            if not overwrite:
                raise InputError(f"{self.path}: already holds a run; use `recprism resume`, --overwrite or another -o")
        elif self.path.exists() and any(it.name != LOCK and not is_left_over(it) for it in self.path.iterdir()):
            raise InputError(f"{self.path}: is not empty and holds no run; name an empty or new directory")

    def require_undiversified(self, *, overwrite: bool = False) -> None:
        """Refuse a second result of the same name, unless it may replace the first."""
        if overwrite:
            return
        what = "" if self.result is None else f" named {self.result}"
        other = "use --overwrite, another --name or another run"
        if self.config.diversify is not None:
            raise InputError(f"{self.path}: already has a result{what}; {other}")
        if self.unfinished(stage.SEARCH) is not None:
            again = f"recprism resume {self.argument}"
            raise InputError(
                f"{self.path}: has an unfinished search for a result{what}; continue it with `{again}`, or {other}"
            )

    def require_whole(self) -> None:
        """Refuse vectors that are damaged, or that were made from other files; the vectors are not loaded."""
        from safetensors import safe_open

        advice = {
            "factors.safetensors": f"run `recprism train -o {self.path} --overwrite`",
            "delta.safetensors": f"make the result of {self.argument} again with --overwrite",
        }
        now = self._files.hashes(*DATA, "factors.safetensors", "cmb.json", "result.json")
        for name, again in advice.items():
            path = self.file(name)
            if path.exists():
                with readable(path, "damaged", again), safe_open(path, framework="numpy"):
                    noted = {file: it for file, it in noted_in_tensors(path).items() if file != name}
                require_bound(path, noted, now, again)

    def replaced(self, *, everything: bool = False) -> list[str]:
        """Return the files, relative to the run, that an overwritten result or (``everything``) run loses."""
        if everything:
            return list(stage.file_names(self.path))
        names = OF_RESULT if self.config.diversify is not None else ()
        return sorted(str(self.file(name).relative_to(self.path)) for name in names if self.file(name).exists())

    def unchanged(self) -> AbstractContextManager[Callable[[], AbstractContextManager[None]]]:
        """Require that what is read within the block is of one state.

        Returns:
            A context manager. It yields a function: ``with saving(): ...`` holds the lock to save what was made from
            the files, and is refused if they have changed. The block ends with an error if they changed meanwhile.
        """
        return unchanged(self.path, [self.file(name) for name in STATE])
