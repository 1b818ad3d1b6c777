"""The OpenAPI description, with examples that the loaded rule answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from recprism.service._bodies import BODIES, Body
from recprism.service._loaded import Loaded
from recprism.service.answers import Answer

SCHEMAS = "#/components/schemas/{model}"
PROBLEM = {"type": "object", "properties": {"detail": {"type": "string"}}, "required": ["detail"]}
PROBLEMS = {
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site, or needs the owner's token.",
    413: "The body is too large.",
    422: "The request is wrong; one sentence says what.",
    429: "Too many requests without the right token.",
    503: "Too many requests are in flight; Retry-After says when to try again.",
}


def documented(body: type[Body], answer: type | None) -> dict[str, Any]:
    """Return what FastAPI documents of a route that reads its body itself, which is faster."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": words, "content": {"application/json": {"schema": PROBLEM}}}
        for status, words in PROBLEMS.items()
    }
    if answer is not None:
        responses[200] = {"model": answer}
    schema = {"$ref": SCHEMAS.format(model=body.__name__)}
    content = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"responses": responses, "openapi_extra": {"requestBody": content}}


def describe(app: FastAPI, loaded: Loaded, lists: Sequence[tuple[str, type[Body], type[Answer]]]) -> dict[str, Any]:
    """Return the description of an application.

    Args:
        app: The application.
        loaded: The rule, for examples.
        lists: Path, body and answer of the routes that FastAPI does not know.
    """
    router = APIRouter()
    for path, body, answer in lists:
        about = documented(body, answer)
        router.add_api_route(path, _nothing, methods=["POST"], name=path[1:], description=body.__doc__, **about)
    routes = [*router.routes, *app.routes]
    found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=routes)
    _, definitions = models_json_schema([(it, "validation") for it in BODIES], ref_template=SCHEMAS)
    found["components"].setdefault("schemas", {}).update(definitions["$defs"])
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, example in examples(loaded).items():
        found["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"] = example
    for path, operations in found["paths"].items():
        for operation in operations.values():
            operation["security"] = [{}] if path in ("/health", "/ready") else [{"token": []}, {}]
    return found


async def _nothing() -> None:
    """Stand for a route that FastAPI does not run."""


def examples(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Return a request for each route; none for /rank if the export has no item vectors."""
    file = loaded.rule.file
    ids = file.item_ids[:6].tolist()
    scores = [1 - at / 10 for at in range(len(ids))]
    request: dict[str, Any] = {"candidates": ids, "scores": scores, "k": 3, "history": ids[-1:]}
    found = {
        "/rerank": {**request, "shown": [[one, 1] for one in ids[:1]], "user": "u-17", "segment": "new users"},
        "/explain": request,
        "/steer": {**request, "dials": dict.fromkeys(file.names[:1], 0.2)},
        "/enabled": {"enabled": True},
        "/governor": {"enabled": True},
    }
    if file.item_vectors is not None:
        vector = [0.1] * file.item_vectors.shape[1]
        found["/rank"] = {"user_vector": vector, "k": 3, "history": ids[-1:], "exclude": ids[:1]}
    return found
