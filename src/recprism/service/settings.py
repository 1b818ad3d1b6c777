"""What a service is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from recprism.common.shares import Share, share
from recprism.errors import InputError
from recprism.service.limits import Allowed
from recprism.service.safety import is_loopback

if TYPE_CHECKING:
    from recprism.operate.traffic.governor_plan import GovernorPlan

SHORTEST_KEY, LONGEST_KEY = 32, 64
"""Characters of the key of the log; blake2b takes at most 64 bytes."""

SHORTEST_TOKEN = 16
"""Characters of a token that others than this machine can try to guess."""

MOST_WORKERS = 64


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a service does with requests, and what it accepts.

    Attributes:
        host: The address to which the server binds.
        token: A token that every request must have; None for no token.
        caller_token: A second token, with which requests cannot reload the rule or switch it off; needs ``token``.
        candidates: How many of the best candidates the rule chooses from; that of the export by default.
        prices: Trade-offs by the name of a user or a segment.
        scorer: Name of the model whose scores requests have; answers say whether it was tested.
        enabled: False starts with the kill switch on.
        shadow: Whether requests are answered with the list by relevance alone, and both lists are logged.
        holdout: Share of requests, or of users, that get ``holdout_price``; with ``log`` it needs ``log_users``.
        holdout_price: The trade-off of the holdout.
        governor: Prices that a governor tries and raises within budgets; it needs ``log`` and ``log_users``.
        log: Folder of the log of served requests; None for no log.
        log_users: Whether the log has a keyed hash of each user id.
        log_key: The key of the hash.
        workers: Processes that make lists; 0 makes them in the process of the service.
        watch: Whether a changed export is loaded without a request to do so.
        max_bytes: Bytes of a request.
        max_candidates: Ids in each list of a request: candidates, history, exclude, banned.
        max_k: Length of a list, and pins of a request.
        max_in_flight: Requests for lists that are answered at the same time; more get 503.
        drain: Seconds between the signal to end and the end, in which the service answers and is not ready.

    Raises:
        InputError: If a value is out of range, or two of them do not fit together.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    caller_token: str | None = field(default=None, repr=False)
    candidates: int | None = None
    prices: Mapping[str, Share] | None = None
    scorer: str | None = None
    enabled: bool = True
    shadow: bool = False
    holdout: Share = 0.0
    holdout_price: Share | None = None
    governor: GovernorPlan | None = None
    log: str | Path | None = None
    log_users: bool = False
    log_key: str | None = field(default=None, repr=False)
    workers: int = 0
    watch: bool = False
    max_bytes: int = 1024 * 1024
    max_candidates: int = 10_000
    max_k: int = 1_000
    max_in_flight: int = 256
    drain: float = 0.0

    def __post_init__(self) -> None:
        for name in ("candidates", "max_bytes", "max_candidates", "max_k", "max_in_flight"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}")
        if not 0 <= self.workers <= MOST_WORKERS:
            raise InputError(f"workers must be from 0 to {MOST_WORKERS}, not {self.workers}")
        if not 0 <= self.drain < float("inf"):
            raise InputError(f"drain must be a number of seconds from 0 up, not {self.drain}")
        object.__setattr__(self, "holdout", share(self.holdout, "holdout"))
        if self.holdout_price is not None:
            object.__setattr__(self, "holdout_price", share(self.holdout_price, "holdout_price"))
        if (self.holdout_price is None) == bool(self.holdout):
            raise InputError("holdout and holdout_price belong together; give both or neither")
        if self.shadow and self.holdout:
            raise InputError("in shadow mode all users see the same list at every price; choose shadow or holdout")
        if self.governor is not None and (self.shadow or self.holdout or not self.log_users):
            raise InputError("a governor draws the prices itself: it needs log and log_users, and no holdout or shadow")
        if self.governor is not None and self.prices is not None:
            raise InputError("a governor draws the prices itself, so a table of prices has no effect; give one of both")
        if self.caller_token is not None and not self.token:
            raise InputError("caller_token needs token: without it, callers could switch the rule off")
        if self.caller_token is not None and self.caller_token == self.token:
            raise InputError("caller_token is the same as token; write another one")
        self._check_host()
        self._check_log()

    def _check_host(self) -> None:
        if is_loopback(self.host):
            return
        if self.token is None:
            raise InputError(f"the host {self.host} opens the service to others; give a token (or set RECPRISM_TOKEN)")
        if any(it is not None and len(it) < SHORTEST_TOKEN for it in (self.token, self.caller_token)):
            raise InputError(f"a token on the host {self.host} must have at least {SHORTEST_TOKEN} characters")

    def _check_log(self) -> None:
        if self.log is None and self.log_users:
            raise InputError("log_users needs log, a folder")
        if self.log is not None and self.holdout and not self.log_users:
            raise InputError(
                "holdout and log need log_users: users are drawn, and a log without them cannot compare the two groups"
            )
        if self.log_users and not self.log_key:
            raise InputError(
                f"log_users needs a key for the hash of user ids; set RECPRISM_LOG_KEY to {SHORTEST_KEY} bytes or more"
            )
        length = len((self.log_key or "").encode())
        if self.log_key is not None and not SHORTEST_KEY <= length <= LONGEST_KEY:
            raise InputError(f"the key of the log has {length} bytes; write {SHORTEST_KEY} to {LONGEST_KEY}")
        if self.log_folder is not None and self.log_folder.exists() and not self.log_folder.is_dir():
            raise InputError(f"{self.log}: is a file; name a folder for the log")

    @property
    def log_folder(self) -> Path | None:
        """The folder of the log."""
        return None if self.log is None else Path(self.log)

    @property
    def allowed(self) -> Allowed:
        """Limits on connections and bytes. Callers are few programs with many connections, so no address is special."""
        return Allowed(
            per_second=1e6, at_once=1e6, most_bytes=self.max_bytes, connections=900, per_address=900, seconds=10.0
        )
