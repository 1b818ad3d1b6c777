"""A rule that answers requests and can be replaced while it does."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recprism.common.files import require_rights, storable
from recprism.common.ids import Id, canonical_text
from recprism.errors import BusyError, InputError, RecprismError
from recprism.operate.traffic.draw import Draw
from recprism.runs.lock import held
from recprism.service._bodies import Common, ServedBody
from recprism.service._lists import BASE, ONCE, RULE, Made
from recprism.service._loaded import Loaded, Signature, load_export, signature
from recprism.service._metrics import Metrics
from recprism.service._workers import Workers
from recprism.service.settings import Settings

if TYPE_CHECKING:
    from recprism.operate.traffic.governor import Governor
    from recprism.service._request_log import RequestLog

THREADS, MOST_SLOW = 2, 32
"""Threads for slow requests, and how many of them may wait."""
WATCH_SECONDS = 0.5
log = logging.getLogger(__name__)


class TooManyError(Exception):
    """More slow requests wait than allowed."""


class Service:
    """The state of a service.

    Args:
        folder: An export of a rule.
        settings: What the service does with requests.

    Attributes:
        loaded: The rule that answers; a new one replaces it in one step, together with the workers.
        workers: The processes that make its lists; None if this one does.
        problem: Why the last new export was not loaded; empty if it was.
        stopping: Whether the service ends soon.

    Raises:
        InputError: If the export cannot be used.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings, self.metrics = folder, settings, Metrics()
        self._signature: Signature = signature(folder)
        self.enabled = settings.enabled
        self.loaded = self._prepared()
        folder_of_log = settings.log_folder
        if folder_of_log is not None:  # before the first request: if it cannot be written, the service does not start
            with storable(folder_of_log):
                folder_of_log.mkdir(parents=True, exist_ok=True)
                require_rights(folder_of_log, write=True)
        self.problem, self.stopping = "", False
        self.governor: Governor | None = None
        self.workers: Workers | None = None
        self._alone = ExitStack()
        self._use(self.loaded)
        if settings.governor is not None:
            from recprism.operate.traffic.governor import Governor  # these load polars
            from recprism.operate.traffic.judgement import JudgeApart

            assert folder_of_log is not None
            try:
                self._alone.enter_context(held(folder_of_log))
            except BusyError:
                where = f"{folder_of_log}: another service with a governor writes here"
                raise InputError(f"{where}; name another folder") from None
            apart = JudgeApart()
            self._alone.callback(apart.end)
            self.governor = Governor(settings.governor, folder_of_log, self.loaded.fingerprint, apart)
            self.metrics.governed(self.governor)
        self._slow, self._waiting = ThreadPoolExecutor(THREADS, "recprism-slow"), 0
        self._key = (settings.log_key or "").encode()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.log: RequestLog | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loading = asyncio.Lock()

    # -- beginning and end --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to log and to watch, with all workers."""
        self._loop = asyncio.get_running_loop()
        self.workers = await self._workers_of(self.loaded)
        if self.settings.log_folder is not None:
            from recprism.service._request_log import RequestLog  # it loads polars

            self.log = RequestLog(self.settings.log_folder, self.metrics)
        if self.settings.watch:
            self._begin(self._watch())
        if self.governor is not None:
            self._begin(self._govern(self.governor))
        gc.collect()
        gc.freeze()  # the catalogue stays; without this, the collector would look through it again and again

    def close(self) -> None:
        """Stop watching, and write the log; requests in flight have ended."""
        self.stopping = True
        for task in self._tasks:
            task.cancel()
        self._slow.shutdown()
        if self.workers is not None:
            self.workers.close()
        if self.log is not None:
            self.log.close()
        self._alone.close()

    # -- the rule -----------------------------------------------------------------------------------------------------

    def _prepared(self) -> Loaded:
        found = load_export(self.folder, self.settings)
        found.rule.enabled = self.enabled
        return found

    async def _workers_of(self, loaded: Loaded) -> Workers | None:
        if not self.settings.workers:
            return None
        return await Workers.begin(self.folder, self.settings, loaded.fingerprint)

    def _use(self, loaded: Loaded, workers: Workers | None = None) -> None:
        if self.governor is not None:
            self.governor.use(loaded.fingerprint)
        before, self.loaded, self.workers = self.workers, loaded, workers
        if before is not None:
            before.close()
        loaded.rule.enabled = self.enabled  # the switch may have been used while it was loaded
        self.metrics.loads("loaded").inc()
        self.metrics.loaded.set(loaded.time)
        self.metrics.enabled.set(float(self.enabled))
        log.info("rule %s: %d items, %d categories", loaded.fingerprint, *_sizes(loaded))

    def switch(self, enabled: bool) -> None:
        """Set the kill switch, for this rule and later ones."""
        self.enabled = self.loaded.rule.enabled = enabled
        self.metrics.enabled.set(float(enabled))
        log.info("the rule is %s", "enabled" if enabled else "disabled")

    async def reload(self) -> str:
        """Load the export again in a thread; requests in flight keep the rule with which they began.

        Returns:
            Why it was not loaded; empty if it was.
        """
        async with self._loading:
            self._signature = signature(self.folder)
            try:
                loaded = await asyncio.to_thread(self._prepared)
                self._use(loaded, await self._workers_of(loaded))
                self.problem = ""
            except (RecprismError, OSError) as problem:
                self.problem = f"the new export was not loaded, and the old one stays: {problem}"
                self.metrics.loads("refused").inc()
                log.error("%s", self.problem)
            return self.problem

    def reload_soon(self) -> None:
        """Ask for :meth:`reload` from a signal handler."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._begin(self.reload()))

    async def _watch(self) -> None:
        """Reload once the files have changed and stay the same for a while."""
        before = self._signature
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = await asyncio.to_thread(signature, self.folder)
            if now and now == before and now != self._signature:
                await self.reload()
            before = now

    async def _govern(self, governor: Governor) -> None:
        """Take a step now and then; after one that fails, the price stays."""
        while True:
            await asyncio.sleep(governor.plan.every)
            try:
                step = await asyncio.to_thread(governor.step)
                governor.problem = ""
                self.metrics.steps(step).inc()
                log.info("governor: %s, price %g", step, governor.price)
            except Exception as problem:  # whatever the table of outcomes holds, there is a next step
                governor.problem = str(problem) or type(problem).__name__
                self.metrics.steps("failed").inc()
                log.error("the governor keeps its price: %s", problem)

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def make(self, slow: bool, make: Callable[..., Made], options: dict[str, Any]) -> Made:
        """Make a list here or in a worker, or in a thread if that is slow.

        Raises:
            InputError: If an argument is invalid.
            LostWorkerError: If a worker ended.
            TooManyError: If too many slow requests wait.
        """
        loaded = self.loaded
        if not slow:
            if self.workers is None or self.workers.are_gone:
                return make(loaded, options)
            return await self.workers.make(make.__name__, self.enabled, options)
        if self._waiting >= MOST_SLOW:
            self.metrics.refused.inc()
            raise TooManyError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._slow, make, loaded, options)
        finally:
            self._waiting -= 1

    def options_of(self, body: Common, request: str) -> tuple[dict[str, Any], Draw]:
        """Return the arguments of the library, and the draw of the price.

        Raises:
            InputError: If the price of a request whose price was drawn is invalid.
        """
        draw, found = self.draw(body.user, request), body.options()
        price = self.settings.holdout_price if draw.held else None
        if draw.place is not None and self.governor is not None:
            price = self.governor.plan.prices[draw.place]
        if price is not None:
            self.loaded.rule.trade_off_of(found.get("price"))  # a wrong one is refused in every arm
            found["price"] = price
        return found, draw

    def draw(self, user: Id | None, request: str) -> Draw:
        """Draw the price of a request."""
        if self.governor is not None:
            return self.governor.draw(None if user is None else canonical_text(user), request, self._key)
        if not self.settings.holdout:
            return Draw()
        held, share = self.is_held_out(user, request), float(self.settings.holdout)
        return Draw(None, held, share if held else 1 - share, None if user is None else ONCE)

    def is_held_out(self, user: Id | None, request: str) -> bool:
        """Whether a user, or else a request, is in the holdout: always the same answer for the same one."""
        who = f"request {request}" if user is None else f"user {canonical_text(user)}"
        digest = blake2b(who.encode(), key=self._key, person=b"recprism-holdout"[:16], digest_size=8).digest()
        return int.from_bytes(digest) < float(self.settings.holdout) * 2**64

    def user_hash(self, user: Id | None) -> str | None:
        """Return the keyed hash of a user id, or None where users are not logged."""
        if user is None or not self.settings.log_users:
            return None
        return blake2b(
            canonical_text(user).encode(), key=self._key, person=b"recprism-user", digest_size=16
        ).hexdigest()

    def record(self, loaded: Loaded, made: Made, body: ServedBody, *, request: str, draw: Draw, started: float) -> None:
        """Count a list, and log it."""
        metrics = self.metrics
        metrics.swaps.observe(len({*made.ids} - {*made.base}))
        for name, covered in zip((BASE, RULE), made.coverage, strict=True):
            metrics.coverage(name).observe(covered)
        if made.unmet:
            metrics.unmet.inc(made.unmet)
            metrics.unmet_lists.inc()
        if made.unknown:
            metrics.unknown.inc(made.unknown)
        if made.fallback is not None:
            metrics.fallbacks(made.fallback).inc()
        if draw.held:
            metrics.holdout.inc()
        if self.settings.shadow:
            metrics.shadow.inc()
        if self.log is None:
            return
        self.log.add(
            (
                time.time_ns() // 1000,
                request,
                self.user_hash(body.user),
                body.segment,
                made.trade_off,
                draw.held,
                made.shown,
                [canonical_text(it) for it in made.ids],
                [canonical_text(it) for it in made.base],
                made.fallback,
                made.unmet,
                (time.perf_counter() - started) * 1e3,
                loaded.fingerprint,
                draw.probability,
                draw.name,
                draw.place,
            )
        )


def _sizes(loaded: Loaded) -> tuple[int, int]:
    return len(loaded.rule.file.item_ids), len(loaded.rule.names)
