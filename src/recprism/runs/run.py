"""The run directory: everything a run was asked, did and found, in files that other tools can read.

config.toml            what was asked
events.jsonl           what happened, one object a line
split.parquet          user_id, item_id, part
items.parquet          item_id and attributes
subtopics.parquet      item_id, subtopic, weight
*.checkpoint.safetensors  where an interrupted training or search goes on (gone once it ended)
factors.safetensors    user and item vectors, with factors.json for ids and settings
delta.safetensors      the change of the vectors
result.json            how it was found, if within a budget
cmb.json               its settings and history, if found by players
certificate.json       what the perturbation is certified to cost, where a budget was given
explanation.json       what it changed and which claims about factors survived their controls
recommendations.parquet  user_id, item_id, rank, score
path.GOAL.safetensors  lists along the path towards a goal, from which any budget is answered at once
report.html            one page about all of it
CARD.md                what the run is, in words
metrics.parquet        metric, k, part, mean, low, high, ...
live.safetensors       user vectors for lists that take all known interactions as seen
recommendations.live.parquet  such lists
results/NAME/          the same files of a result that has a name, from delta.safetensors on, and
    result.toml        what was asked of it
"""

from __future__ import annotations

import io
import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import polars as pl
from numpy.typing import NDArray

from recprism.budget.diversified import Diversified
from recprism.data._bound import hash_of, noted_in_tensors, require_bound
from recprism.data._files import atomic_path, is_left_over, readable, require_rights, write_text
from recprism.data._ids import number_ids
from recprism.data.dataset import Dataset
from recprism.data.frames import subtopics_from_frame
from recprism.data.split import Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.models import Factors
from recprism.runs._bound_files import SERVED, BoundFiles
from recprism.runs._event_log import append_event, read_events
from recprism.runs._lock import LOCK, held, unchanged
from recprism.runs._long_tables import split_from_table, split_table, subtopics_table
from recprism.runs._result_files import read_result, write_result
from recprism.runs._tensor_files import read_tensors, write_tensors
from recprism.runs.config import DiversifyConfig, RunConfig, is_config, read_config, write_config
from recprism.runs.sinks import Guarded

STEPS = ("epoch", "step")
"""Events that tell how far something has come: done of total."""
TRAINED, DIVERSIFIED = "trained", "diversified"
OF_PERTURBATION = (
    *("metrics.parquet", "recommendations.parquet", "delta.safetensors", "cmb.json", "result.json"),
    *("certificate.json", "explanation.json", "report.html", "live.safetensors", "recommendations.live.parquet"),
)
"""What goes, in this order, with a perturbation that is replaced."""
SHARED = (
    *("config.toml", "events.jsonl", "split.parquet", "items.parquet", "subtopics.parquet"),
    *("factors.safetensors", "factors.json", "training.checkpoint.safetensors"),
)
"""What the results of a run have in common; every other file belongs to one result."""
RESULTS, ASKED = "results", "result.toml"
OF_SEARCH = ("step", "diversified", "diversified within a budget")
"""Events of one result; those of the unnamed one have no name."""
STATE = (
    *("config.toml", ASKED, "split.parquet", "factors.safetensors"),
    *("delta.safetensors", "cmb.json", "result.json", "certificate.json"),
)
"""Files that a page or an explanation must find all of the same moment."""


class Run:
    """Reads and writes one run directory; no other part of the package knows its files.

    A run has one model and any number of results: the unnamed one, and those that have a name. ``result`` says which
    of them this object reads and writes.
    """

    def __init__(self, path: str | Path, result: str | None = None) -> None:
        if result is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", result):
            raise InputError(f"a result is named by letters, digits, - and _, not {result!r}")
        self.path, self.result = Path(path), result
        self._files = BoundFiles(self.file, self.argument)
        self.sinks: list[Guarded] = []

    def file(self, name: str) -> Path:
        """Where a file is: in the run's folder what all results share, else in the folder of the result."""
        is_shared = self.result is None or name in SHARED or name.startswith("path.")
        return (self.path if is_shared else self.path / RESULTS / str(self.result)) / name

    @property
    def argument(self) -> str:
        """How a command line names this result."""
        path = shlex.quote(str(self.path))
        return path if self.result is None else f"{path} --name {self.result}"

    def results(self) -> list[str]:
        """The names of the results that have one, in order."""
        return sorted(file.parent.name for file in self.path.glob(f"{RESULTS}/*/{ASKED}"))

    def named(self, result: str | None) -> Run:
        """Another result of the same run, which may not be there yet; None is the unnamed one."""
        return Run(self.path, result)

    @classmethod
    def create(cls, path: str | Path, config: RunConfig, *, overwrite: bool = False) -> Run:
        """A fresh directory; one that already holds a run is refused unless ``overwrite``."""
        run = cls(path)
        run.require_free(overwrite=overwrite)
        with held(run.path):
            run._clear()
            write_config(run.path / "config.toml", config)
        return run

    def require_free(self, *, overwrite: bool = False) -> None:
        """Refuse a place where no run can be made, or where there is one already that may not be replaced."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; name a directory for the run")
        if (self.path / "config.toml").exists():
            if not overwrite:
                raise InputError(f"{self.path}: already holds a run; use --resume, --overwrite or another -o")
        elif self.path.exists() and any(it.name != LOCK and not is_left_over(it) for it in self.path.iterdir()):
            raise InputError(f"{self.path}: is not empty and holds no run; name an empty or new directory")

    @staticmethod
    def is_at(path: str | Path) -> bool:
        """Whether a folder is a run, or what is left of one: ``config.toml`` alone may be anybody's."""
        files = ("config.toml", "events.jsonl", "split.parquet", "factors.safetensors")
        return sum((Path(path) / name).is_file() for name in files) > 1 or is_config(Path(path) / "config.toml")

    @classmethod
    def open(cls, path: str | Path, result: str | None = None) -> Run:
        """An existing run, and an existing result of it; anything else is refused."""
        run = cls(path, result)
        read_config(run.path / "config.toml")
        if result is not None and result not in run.results():
            there = ", ".join(run.results())
            known = f"there are {there}" if there else f"make it with `recprism diversify {run.argument}`"
            raise InputError(f"{run.path}: has no result named {result}; {known}")
        return run

    @property
    def config(self) -> RunConfig:
        """What was asked of the run and of this result."""
        found = read_config(self.path / "config.toml")
        if self.result is None:
            return found
        asked = self.file(ASKED)
        return found.model_copy(update={"diversify": read_config(asked).diversify if asked.exists() else None})

    def event(self, kind: str, **facts: Any) -> None:
        """Append one line to events.jsonl, and tell whoever follows the run."""
        of = {} if self.result is None else {"result": self.result}
        event = {"time": round(time.time(), 3), "event": kind, **of, **facts}
        append_event(self.path / "events.jsonl", event)
        for sink in self.sinks:
            sink.tell("event", event)

    def events(self, without: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What happened, oldest first, apart from some kinds and from other results.

        A last line that was cut short is left out.
        """

        def is_own(event: Mapping[str, Any]) -> bool:
            of = event.get("result")
            return of == self.result or (of is None and event.get("event") not in OF_SEARCH)

        return [event for event in read_events(self.path / "events.jsonl", without) if is_own(event)]

    def has_events(self) -> bool:
        return (self.path / "events.jsonl").exists()

    # -- data ---------------------------------------------------------------------------------------------------------

    def save_data(self, dataset: Dataset, split: Split) -> None:
        """Keep the split, the attributes and the subtopics: a run stands without the original files."""
        parts = io.BytesIO()
        split_table(split).write_parquet(parts)
        made_from = {"split.parquet": hash_of(parts.getvalue())}
        self._files.write_table("items", dataset.attributes, made_from)
        self._files.write_table("subtopics", subtopics_table(dataset.subtopics, split.item_ids), made_from)
        with atomic_path(self.path / "split.parquet") as temporary:
            temporary.write_bytes(parts.getvalue())

    def has_data(self) -> bool:
        return (self.path / "split.parquet").exists()

    def split(self) -> Split:
        frame = self._files.read_table("split")
        return split_from_table(frame, self.path / "split.parquet", self.config.split.model_dump())

    def subtopics(self) -> Subtopics:
        items = self._files.read_table("items")["item_id"]
        return subtopics_from_frame(
            self._files.read_table("subtopics"), number_ids(items)[0], where="subtopics.parquet"
        )

    def items(self) -> pl.DataFrame:
        """item_id and attributes, in the order of the item numbers."""
        return self._files.read_table("items")

    # -- training -----------------------------------------------------------------------------------------------------

    def save_checkpoint(
        self, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], step: str = "training"
    ) -> None:
        """State of an unfinished step."""
        write_tensors(self._checkpoint(step), tensors, facts)

    def load_checkpoint(self, step: str = "training") -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        path = self._checkpoint(step)
        try:
            return read_tensors(path) if path.exists() else None
        except ValueError as broken:
            again = "recprism train --resume" if step == "training" else "recprism search --resume"
            again = f"{again} {self.path if step == 'training' else self.argument}"
            raise InputError(
                f"{path}: damaged checkpoint ({broken}); delete it, and `{again}` starts this step anew"
            ) from None

    def drop_checkpoint(self, step: str = "training") -> None:
        self._checkpoint(step).unlink(missing_ok=True)

    def _checkpoint(self, step: str) -> Path:
        return self.file(f"{step}.checkpoint.safetensors")

    def save_factors(self, factors: Factors) -> None:
        factors.save(self.path / "factors.safetensors", made_from=self._files.hashes("split.parquet"))

    def has_factors(self) -> bool:
        return (self.path / "factors.safetensors").exists()

    def factors(self) -> Factors:
        """The trained model's."""
        if not self.has_factors():
            raise InputError(f"{self.path}: holds no trained model yet; run `recprism train --resume {self.path}`")
        require_rights(self.path / "factors.safetensors")
        path, now = self.path / "factors.safetensors", self._files.hashes("split.parquet")
        require_bound(path, noted_in_tensors(path), now, f"run `recprism train -o {self.path} --overwrite`")
        return Factors.load(path)

    def served_factors(self, *, base: bool = False) -> Factors:
        """What the run serves: perturbed where it was diversified, unless ``base`` asks for the trained model's."""
        return self.factors() if base or not self.is_diversified() else self.diversified().factors

    def require_whole(self) -> None:
        """Refuse vectors that are damaged, or that were made from other files than the run has; nothing is loaded."""
        from safetensors import safe_open

        advice = {
            "factors.safetensors": f"run `recprism train -o {self.path} --overwrite`",
            "delta.safetensors": f"run `recprism diversify {self.argument}` again with --overwrite",
        }
        now = self._files.hashes("split.parquet", "factors.safetensors", "cmb.json", "result.json")
        for name, again in advice.items():
            path = self.file(name)
            if path.exists():
                with readable(path, "damaged", again), safe_open(path, framework="numpy"):
                    noted = {file: it for file, it in noted_in_tensors(path).items() if file != name}
                require_bound(path, noted, now, again)

    def fingerprint(self) -> str:
        """Of vectors, split and subtopics: what is made from others is not of this run."""
        return self._files.fingerprint("factors.safetensors", "split.parquet", "subtopics.parquet")

    def save_path(
        self, goal: str, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], made_from: str
    ) -> None:
        """The path towards a goal; made_from: the fingerprint, taken before anything was read for it."""
        write_tensors(self._path_file(goal), tensors, {"made_from": made_from, **facts})

    def load_path(self, goal: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """None where there is none, where it is of other vectors, or where it is damaged: it can be made again."""
        path = self._path_file(goal)
        try:
            tensors, facts = read_tensors(path)
        except (FileNotFoundError, ValueError):
            return None
        return (tensors, facts) if facts.pop("made_from", None) == self.fingerprint() else None

    def _path_file(self, goal: str) -> Path:
        return self.file(f"path.{goal}.safetensors")

    # -- diversifying -------------------------------------------------------------------------------------------------

    def require_undiversified(self, *, overwrite: bool = False) -> None:
        """Refuse a second perturbation, unless it may replace the first."""
        asked = self.config.diversify
        if asked is not None and not overwrite:
            what = "a perturbation" if self.result is None else f"a result named {self.result}"
            stopped = asked.within is None and not self.is_diversified()
            resume = f"continue it with `recprism search --resume {self.argument}`, or " if stopped else ""
            raise InputError(f"{self.path}: already has {what}; {resume}use --overwrite, another --name or another run")

    def set_diversify(self, config: DiversifyConfig, *, overwrite: bool = False) -> None:
        """Note what is about to be searched for; a result holds one perturbation."""
        self.require_undiversified(overwrite=overwrite)
        require_rights(self.path / "events.jsonl", write=True)  # before anything goes
        if self.config.diversify is not None or self.result is not None:
            self.drop_checkpoint("search")
            for name in OF_PERTURBATION:
                self.file(name).unlink(missing_ok=True)
        asked = self.config.model_copy(update={"diversify": config})
        if self.result is None:
            write_config(self.path / "config.toml", asked)
        else:
            write_config(self.file(ASKED), asked, only={"diversify"})

    def require_only_result(self) -> None:
        """Refuse to turn the vectors of a run onto other axes where other results are changes of them as they are."""
        unnamed = [] if read_config(self.path / "config.toml").diversify is None else ["the unnamed one"]
        others = [it for it in (*unnamed, *self.results()) if it != (self.result or "the unnamed one")]
        if others:
            raise InputError(
                f"{self.path}: refit turns the vectors that its other results ({', '.join(others)}) are made for; "
                "train into another run, or train again with --overwrite"
            )

    def replaced(self, *, everything: bool = False) -> list[str]:
        """What an overwritten result, or run with ``everything``, removes: paths in the run."""
        if everything:
            inside = (*self.path.glob("*"), *self.path.glob(f"{RESULTS}/*/*"))
            found = [file for file in inside if file.is_file() and file.name != LOCK]
        else:
            names = OF_PERTURBATION if self.config.diversify is not None else ()
            found = [self.file(name) for name in names if self.file(name).exists()]
        return sorted(str(file.relative_to(self.path)) for file in found)

    def save_result(self, found: Diversified) -> None:
        """Keep a change of the vectors, and the base that it is a change of."""
        measured = self.metrics() if self.measured() == TRAINED else None
        if measured is None:
            self.file("metrics.parquet").unlink(missing_ok=True)  # of the result that is replaced
        before = self._files.hashes("factors.safetensors")
        folder, made_from = self.file("delta.safetensors").parent, self._files.hashes("split.parquet")
        self.file("cmb.json" if found.search is None else "result.json").unlink(missing_ok=True)
        if found.search is None:
            write_result(found, folder, self.path, made_from)
        else:
            found.search.save(folder, made_from=made_from, base_folder=self.path)
        if measured is not None and before != self._files.hashes("factors.safetensors"):
            self.save_metrics(measured, base=True)  # the base was turned onto other axes: other bytes, the same lists

    def save_certificate(self, facts: Mapping[str, Any]) -> None:
        write_text(self.file("certificate.json"), json.dumps(self._files.bound_facts(facts), indent=1))

    def is_diversified(self) -> bool:
        return self.file("delta.safetensors").exists()

    def diversified(self) -> Diversified:
        """Return the result, however it was found."""
        if not self.is_diversified():
            raise InputError(f"{self.path}: holds no result yet; run `recprism diversify {self.argument} --budget 5%`")
        require_rights(self.file("delta.safetensors"))
        return read_result(self.file("delta.safetensors").parent, self.path, self.certificate())

    def certificate(self) -> dict[str, Any] | None:
        """What the perturbation is certified to cost, as it was written; None where no budget was given."""
        return self._files.read_facts("certificate", "diversify")

    def save_explanation(self, facts: Mapping[str, Any]) -> Path:
        path = self.file("explanation.json")
        write_text(path, json.dumps(self._files.bound_facts(facts), indent=1, ensure_ascii=False))
        return path

    def explanation(self) -> dict[str, Any] | None:
        """What was explained last, or None."""
        return self._files.read_facts("explanation", "explain")

    # -- results ------------------------------------------------------------------------------------------------------

    def save_recommendations(self, frame: pl.DataFrame, *, live: bool = False) -> Path:
        name = "recommendations.live" if live else "recommendations"
        return self._files.write_table(name, frame, self._files.hashes(*SERVED))

    def save_live(self, user: NDArray[Any], made_from: str) -> None:
        """User vectors for live lists; made_from: the fingerprint, taken before anything was read for them."""
        write_tensors(self.file("live.safetensors"), {"user": user}, {"made_from": made_from})

    def load_live(self) -> NDArray[Any] | None:
        """None where there are none, where they are of another result, or where they are damaged."""
        try:
            tensors, facts = read_tensors(self.file("live.safetensors"))
        except (FileNotFoundError, ValueError):
            return None
        return tensors.get("user") if facts.get("made_from") == self.live_fingerprint() else None

    def live_fingerprint(self) -> str:
        """Of all that live user vectors are made from."""
        made_from = ("factors.safetensors", "split.parquet", "subtopics.parquet", "delta.safetensors")
        return self._files.fingerprint(*made_from, "certificate.json")

    def save_metrics(self, frame: pl.DataFrame, *, base: bool = False) -> Path:
        """Rows that judge the lists served, or with ``base`` those of the trained model, whatever was found since."""
        return self._files.write_table("metrics", frame, self._files.hashes(*(SERVED[:2] if base else SERVED)))

    def measured(self) -> str | None:
        """Whose lists the rows of metrics.parquet judge; None where there are none."""
        path = self.file("metrics.parquet")
        if not path.exists():
            return None
        with readable(path, "damaged", f"run `recprism evaluate {self.argument}` again"):
            return DIVERSIFIED if "delta.safetensors" in self._files.noted_in("metrics") else TRAINED

    def metrics(self) -> pl.DataFrame:
        return self._files.read_table("metrics", f"run `recprism evaluate {self.argument}` again")

    def save_card(self, text: str) -> None:
        write_text(self.file("CARD.md"), text)

    @property
    def report_path(self) -> Path:
        return self.file("report.html")

    def export_path(self, form: str) -> Path:
        """The folder of an export, where none is named."""
        return self.file(f"export-{form}")

    def _clear(self) -> None:
        """What was made from other files goes before them: whatever is left of a run at any moment belongs together."""
        first_made = [ASKED, *(f"{name}.parquet" for name in ("subtopics", "items", "split")), "config.toml"]
        files = [self.path / name for name in self.replaced(everything=True)]
        for file in sorted(files, key=lambda it: first_made.index(it.name) if it.name in first_made else -1):
            file.unlink()
        for folder in (*self.path.glob(f"{RESULTS}/*/"), self.path / RESULTS):
            with suppress(OSError):  # it is not there, or holds something that somebody else put there
                folder.rmdir()

    def unchanged(self) -> AbstractContextManager[Callable[[], AbstractContextManager[None]]]:
        """What is read within the block is of one state: an error at its end if somebody wrote meanwhile.

        Yields how to save what was made from it: ``with saving(): ...`` holds the lock, and is refused where the run is
        no longer what was read.
        """
        return unchanged(self.path, [self.file(name) for name in STATE])
