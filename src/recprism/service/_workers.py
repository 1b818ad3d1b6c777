"""Processes that make lists for one service, so that it uses more than one processor.

The service reads requests, draws prices, counts and logs; a worker gets the arguments of the library and returns the
answer. Each worker has one request at a time. It ends with the service, however that ends, because its input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import struct
import sys
import traceback
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, BinaryIO, Self

import orjson

from recprism.errors import InputError, RecprismError
from recprism.service import _lists
from recprism.service._loaded import Loaded, load_export
from recprism.service.settings import Settings

LENGTHS = struct.Struct("!QQ")
"""Before each message: the bytes of its JSON, and those of the content behind it."""
MOST = 2**24  # bytes of an answer that wait in the service
PROBLEM = "problem"
MAKERS = {it.__name__: it for it in (_lists.serve, _lists.serve_in_shadow, _lists.explain, _lists.steer)}
log = logging.getLogger(__name__)


class LostWorkerError(Exception):
    """No worker made the list: each that tried ended."""


class Workers:
    """The workers of one export.

    Args:
        folder: The export.
        settings: What the service does with requests.
        fingerprint: That of the export that the service has loaded.
    """

    def __init__(self, folder: Path, settings: Settings, fingerprint: str) -> None:
        self._folder, self._fingerprint = str(folder), fingerprint
        self._settings = {name: getattr(settings, name) for name in ("candidates", "prices", "scorer")}
        self._free: asyncio.Queue[Process | None] = asyncio.Queue()
        self._all: set[Process] = set()
        self._tasks: set[asyncio.Future[None]] = set()
        self._requests, self._closed = 0, False

    @classmethod
    async def begin(cls, folder: Path, settings: Settings, fingerprint: str) -> Self:
        """Start as many workers as the settings say, and wait until all of them are ready.

        Raises:
            InputError: If a worker cannot load the export, or finds another one.
        """
        found = cls(folder, settings, fingerprint)
        try:
            await asyncio.gather(*(found._start() for _ in range(settings.workers)))
        except BaseException:
            found.close()
            raise
        return found

    @property
    def are_gone(self) -> bool:
        """Whether all workers ended, and none could be started again."""
        return not self._all and not self._tasks

    def close(self) -> None:
        """Let the workers end, after all requests that wait for a list."""
        self._closed = True
        if not self._requests:
            for one in self._all:
                assert one.stdin is not None
                one.stdin.close()

    async def make(self, name: str, enabled: bool, options: dict[str, Any]) -> _lists.Made:
        """Make a list in the next free worker.

        Args:
            name: A key of ``MAKERS``.
            enabled: False if the rule is switched off.
            options: Arguments of the library.

        Raises:
            InputError: If an argument is invalid.
            LostWorkerError: If two workers ended; others are started.
        """
        what = {"make": name, "enabled": enabled, "options": options}
        self._requests += 1
        try:
            try:
                about, content = await self._in_turn(what)
            except LostWorkerError:  # a list can be made again, but one request must not end all workers
                about, content = await self._in_turn(what)
        finally:
            self._requests -= 1
            if self._closed:
                self.close()
        return _lists.Made(content=content, **about)

    async def _in_turn(self, what: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        worker = await self._free.get()
        if worker is None:
            raise LostWorkerError
        try:
            found = await _asked(worker, what)
        except BaseException as problem:  # also a cancelled request: its answer must not reach another one
            self._drop(worker)
            task = asyncio.ensure_future(self._replace())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if isinstance(problem, OSError | EOFError):
                raise LostWorkerError from None
            raise
        self._free.put_nowait(worker)
        _raise_problem(found[0])
        return found

    async def _start(self) -> None:
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__), stdin=PIPE, stdout=PIPE, limit=MOST
        )
        self._all.add(worker)
        try:
            found, _ = await _asked(worker, {"folder": self._folder, **self._settings})
            _raise_problem(found)
            if found["fingerprint"] != self._fingerprint:
                raise InputError(f"{self._folder}: changed while it was read; write a new folder and rename it")
        except (OSError, EOFError):
            self._drop(worker)
            raise InputError("a worker ended before it had loaded the export; is there too little memory?") from None
        except BaseException:
            self._drop(worker)
            raise
        self._free.put_nowait(worker)

    def _drop(self, worker: Process) -> None:
        self._all.discard(worker)
        with contextlib.suppress(ProcessLookupError):
            worker.kill()

    async def _replace(self) -> None:
        """Start a worker in the place of one that ended."""
        log.error("a worker ended; another one is started")
        try:
            await self._start()
        except RecprismError as problem:
            log.error("no other worker was started: %s", problem)
            if not self._all and len(self._tasks) == 1:  # this one
                for _ in range(self._requests):
                    self._free.put_nowait(None)


async def _asked(worker: Process, what: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Send a message to a worker, and return its answer.

    Raises:
        OSError: If the worker has ended.
        EOFError: The same.
    """
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(_message(what))
    await worker.stdin.drain()
    about, content = LENGTHS.unpack(await worker.stdout.readexactly(LENGTHS.size))
    return orjson.loads(await worker.stdout.readexactly(about)), await worker.stdout.readexactly(content)


def _raise_problem(answer: dict[str, Any]) -> None:
    if PROBLEM in answer:
        raise (InputError if answer["kind"] == InputError.__name__ else RuntimeError)(answer[PROBLEM])


def _message(what: dict[str, Any], content: bytes = b"") -> bytes:
    about = orjson.dumps(what, default=float)  # shares that were read are numbers of a kind of their own
    return LENGTHS.pack(len(about), len(content)) + about + content


def work(asked: BinaryIO, answers: BinaryIO) -> None:
    """Load the export that the service names, and make lists until the input ends."""
    loaded: Loaded | None = None
    with contextlib.suppress(OSError):
        while head := asked.read(LENGTHS.size):
            what, content = orjson.loads(asked.read(LENGTHS.unpack(head)[0])), b""
            try:
                if loaded is None:
                    loaded = load_export(Path(what.pop("folder")), Settings(**what))
                    gc.collect()
                    gc.freeze()
                    answer: dict[str, Any] = {"fingerprint": loaded.fingerprint}
                else:
                    loaded.rule.enabled = what["enabled"]
                    answer = {**vars(MAKERS[what["make"]](loaded, what["options"]))}
                    content = answer.pop("content")
            except InputError as problem:
                answer = {"kind": InputError.__name__, PROBLEM: str(problem)}
            except Exception as problem:
                where = traceback.extract_tb(problem.__traceback__)[-1]
                log.error("%s in %s:%d", type(problem).__name__, Path(where.filename).name, where.lineno)
                answer = {"kind": "", PROBLEM: "a worker failed"}
            answers.write(_message(answer, content))
            answers.flush()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach all processes of a service that still has requests
        signal.signal(number, signal.SIG_IGN)
    pipe, sys.stdout = sys.stdout.buffer, sys.stderr  # what a library prints is no answer
    work(sys.stdin.buffer, pipe)
