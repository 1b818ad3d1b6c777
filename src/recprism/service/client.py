"""A client of the service that needs the standard library only, besides the classes of the answers."""

from __future__ import annotations

import http.client
import json
import random
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from recprism.common.ids import Id
from recprism.errors import InputError, RecprismError
from recprism.rule.constraints.constraints import Constraints
from recprism.service.answers import Answer, ExplainedAnswer, Kind, SteeredAnswer, answer_of

AGAIN = (429, 503)
"""Statuses after which a request is repeated."""
LONGEST_WAIT, LONGEST_LOAD = 2.0, 600.0


class ServiceError(RecprismError):
    """The service cannot be reached, or refuses a request for another reason than its contents.

    Attributes:
        status: Status of the last answer; None if the last attempt had none.
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class _Reply:
    status: int
    content: bytes
    wait: float


class Client:
    """Asks a service for lists; safe to share among threads, each of which keeps a connection.

    A request for a list is repeated after a lost connection, a timeout, 429 and 503. It has an id, by which the log
    recognises the repetition.

    Args:
        address: Such as "http://127.0.0.1:8766".
        token: The token of the service, if it has one.
        timeout: Seconds to wait for each attempt.
        retries: How often a request is repeated.
        backoff: Seconds before the first repetition; each next one waits twice as long, at most 2 s.

    Raises:
        InputError: If the address is no http address.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8766",
        *,
        token: str | None = None,
        timeout: float = 5.0,
        retries: int = 10,
        backoff: float = 0.05,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{address!r} is no address of a service; write http://HOST:PORT")
        self._parts, self._timeout, self._retries, self._backoff = parts, timeout, retries, backoff
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._own = threading.local()

    def rerank(self, candidates: Sequence[Id], scores: Sequence[float], k: int | None = None, **options: Any) -> Answer:
        """Ask for a list from candidates with scores.

        Args:
            candidates: Ids, (n,), in any order.
            scores: One score per candidate, (n,).
            k: Length of the list; that of the rule by default.
            options: history, exclude, shown, no_repeat, half_life, constraints, price, dials, reasons, entry_prices,
                user, scorer, segment, time_limit, as for
                :meth:`recprism.serving.ServedRule.rerank`; and ``request_id``, by default a new one.

        Raises:
            InputError: If the service refuses the contents of the request.
            ServiceError: If there is no answer after all attempts.
        """
        return self._ask(Answer, "/rerank", {"candidates": candidates, "scores": scores, "k": k, **options})

    def rank(self, user_vector: Sequence[float], k: int | None = None, **options: Any) -> Answer:
        """Ask for a list for a user vector, (d,); options and errors are those of :meth:`rerank`."""
        return self._ask(Answer, "/rank", {"user_vector": user_vector, "k": k, **options})

    def explain(
        self, candidates: Sequence[Id], scores: Sequence[float], k: int | None = None, **options: Any
    ) -> ExplainedAnswer:
        """Ask why each item is in the list of :meth:`rerank`, in words.

        Options and errors are those of :meth:`rerank`, without segment and reasons. This list is not logged.
        """
        return self._ask(ExplainedAnswer, "/explain", {"candidates": candidates, "scores": scores, "k": k, **options})

    def steer(
        self,
        candidates: Sequence[Id],
        scores: Sequence[float],
        dials: Mapping[str, float],
        k: int | None = None,
        **options: Any,
    ) -> SteeredAnswer:
        """Ask for a list with dials, and what they change.

        Options and errors are those of :meth:`rerank`, without segment and entry_prices. This list is not logged.
        """
        asked = {"candidates": candidates, "scores": scores, "dials": dict(dials), "k": k, **options}
        return self._ask(SteeredAnswer, "/steer", asked)

    def health(self) -> bool:
        """Whether the process answers; asked once."""
        return self._state("/health")

    def ready(self) -> bool:
        """Whether the service takes requests; asked once."""
        return self._state("/ready")

    def metrics(self) -> dict[str, float]:
        """Return the figures of the service: the name with its labels -> the value."""
        return figures_in(self._send("GET", "/metrics", None, {}).decode())

    def rule(self) -> dict[str, Any]:
        """Return what is loaded: goals, k, names, fingerprint."""
        found: dict[str, Any] = json.loads(self._send("GET", "/rule", None, {}))
        return found

    def reload(self) -> str:
        """Let the service load its export again; returns the fingerprint. Needs the owner's token.

        It is asked once, and waits at most ten minutes until the export is loaded: a repetition would load it again.
        """
        self._connect(LONGEST_LOAD)
        try:
            return str(json.loads(_content(self._once("POST", "/reload", b"", self._headers)))["fingerprint"])
        except (OSError, http.client.HTTPException) as lost:
            raise ServiceError(f"{self._parts.netloc}: {lost}") from None
        finally:
            self.close()

    def enable(self, enabled: bool = True) -> None:
        """Switch the rule on or off. Needs the owner's token."""
        self._send("POST", "/enabled", json.dumps({"enabled": enabled}).encode(), {})

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._own.connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    def _ask(self, kind: type[Kind], path: str, asked: dict[str, Any]) -> Kind:
        number = asked.pop("request_id", None) or secrets.token_hex(16)
        body = {name: value for name, value in asked.items() if value is not None}
        content = json.dumps(body, default=_plain).encode()
        return answer_of(kind, json.loads(self._send("POST", path, content, {"X-Request-Id": str(number)})))

    def _send(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> bytes:
        """Send a request until it is answered."""
        problem, status = "no attempt", None
        for attempt in range(self._retries + 1):
            wait = 0.0
            try:
                reply = self._once(method, path, content, {**self._headers, **headers})
                if reply.status not in AGAIN:
                    return _content(reply)
                problem, status, wait = f"status {reply.status}", reply.status, reply.wait
            except (OSError, http.client.HTTPException) as lost:
                self.close()
                problem, status = str(lost) or type(lost).__name__, None
            if attempt < self._retries:
                pause = min(self._backoff * 2**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)
                time.sleep(max(pause, min(wait, LONGEST_WAIT)))
        raise ServiceError(f"{self._parts.netloc}: no answer after {self._retries + 1} attempts ({problem})", status)

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        """Keep a new connection for this thread."""
        self.close()
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        made = self._own.connection = kind(str(self._parts.hostname), self._parts.port, timeout=timeout)
        return made

    def _once(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> _Reply:
        connection = getattr(self._own, "connection", None) or self._connect(self._timeout)
        connection.request(method, self._parts.path.rstrip("/") + path, content, headers)
        found = connection.getresponse()
        wait = found.headers.get("Retry-After", "")
        return _Reply(found.status, found.read(), float(wait) if wait.isdigit() else 0.0)

    def _state(self, path: str) -> bool:
        self.close()  # the service closes a connection that is idle; a new one tells whether it answers
        try:
            return self._once("GET", path, None, self._headers).status == 200
        except (OSError, http.client.HTTPException):
            self.close()
            return False


def figures_in(text: str) -> dict[str, float]:
    """Read the text format of Prometheus: the name with its labels -> the value."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def _content(reply: _Reply) -> bytes:
    """Return the content of an answer.

    Raises:
        InputError: If the contents of the request are wrong.
        ServiceError: If the service refuses it for another reason.
    """
    if reply.status == 200:
        return reply.content
    try:
        sentence = str(json.loads(reply.content)["detail"])
    except (ValueError, KeyError, TypeError):
        sentence = f"the service answers with status {reply.status}"
    if reply.status == 422:
        raise InputError(sentence)
    raise ServiceError(sentence, reply.status)


def _plain(value: Any) -> Any:
    """Return numpy numbers and arrays, and other sequences, as JSON can write them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Constraints):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    raise InputError(f"a {type(value).__name__} cannot be sent; send numbers, texts, lists and mappings")
