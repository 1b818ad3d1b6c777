"""Requests of tools/bits.py: the only part of it that knows names of Python and HTTP. Change it when they change.

python tools/bits_requests.py request_time      in the folder of the recording; prints JSON
python tools/bits_requests.py service
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bits_inputs import PRICES, requests, vectors
from fastapi.testclient import TestClient

from recprism import serving
from recprism.service import Settings, create_app


def request_time(folder: Path) -> Any:
    """Ask the exported rule in this process."""
    rule = serving.load_rule(folder / "rule", prices=PRICES)
    asked = requests(folder)
    answers = {name: rule.rerank(**request).to_dict() for name, request in asked.items()}
    options: list[dict[str, Any]] = [{"history": []}, {"k": 5, "price": 0.2, "history": asked["0 history"]["history"]}]
    ranked = {
        f"{name} {number}": rule.rank(vector, **more).to_dict()
        for name, vector in vectors().items()
        for number, more in enumerate(options)
    }
    together = [answer.to_dict() for answer in rule.rerank_many(list(asked.values()))]
    return {"rerank": answers, "rank": ranked, "many": together}


def service(folder: Path) -> Any:
    """Ask the same over HTTP."""
    app = create_app(folder / "rule", Settings(prices=PRICES))
    asked = requests(folder)
    plain = {name: asked[name] for name in asked if name.endswith(("plain", "history", "constraints"))}
    bodies = [("/rerank", name, body) for name, body in asked.items()]
    bodies += [("/rank", name, {"user_vector": vector, "history": []}) for name, vector in vectors().items()]
    bodies += [("/explain", name, body) for name, body in plain.items()]
    bodies += [("/steer", name, {**body, "dials": {"Comedy": 0.5}}) for name, body in plain.items()]
    bodies += [("/rerank", "wrong", {"candidates": ["a"]})]
    # The service makes up a name for each request that has none.
    with TestClient(app, base_url="http://127.0.0.1", headers={"X-Request-Id": "bits"}) as client:
        answers = {f"{place} {name}": client.post(place, json=body) for place, name, body in bodies}
        answers |= {place: client.get(place) for place in ("/rule", "/ready", "/health")}
    return {name: {"status": answer.status_code, "body": answer.json()} for name, answer in answers.items()}


STEPS: dict[str, Callable[[Path], Any]] = {"request_time": request_time, "service": service}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](Path.cwd())))
