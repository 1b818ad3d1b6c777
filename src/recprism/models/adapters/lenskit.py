"""Fitted ALS models of ``lenskit`` (extra ``[lenskit]``).

LensKit 2025 asks for pandas 2 and the tests here are pinned to pandas 3, so the two do not share the environment of the
tests. recprism itself needs no pandas: in an environment of your own ``pip install recprism lenskit`` works, and
``from_lenskit(pipeline).save("factors.safetensors")`` writes what ``Factors.load`` reads in any other.
``tools/record_lenskit.py`` does that for the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError, MissingDependencyError
from recprism.models.factors import Factors

KINDS = ("BiasedMFScorer", "ImplicitMFScorer")


def from_lenskit(model: Any, *, scorer: str = "scorer", history: str = "history-lookup") -> Factors:
    """The vectors of a trained ``BiasedMFScorer`` or ``ImplicitMFScorer``, alone or in a trained pipeline.

    scorer, history: in a pipeline, the names of its scorer and of what looks up the users' histories

    A pipeline is read as its ``recommend`` ranks: it solves for the user's vector anew from the history, unless the
    scorer has ``user_embeddings="prefer"``. A scorer alone gives the user vectors it was left with by the training,
    which are half an epoch older. Item biases become ``item_bias``; the user bias and the global mean add the same to
    all items of a user, cannot change a ranking, and are dropped.
    """
    require_lenskit()
    found, histories = _scorer_of(model, scorer, history)
    kind = type(found).__name__
    if kind not in KINDS or not type(found).__module__.startswith("lenskit."):
        raise InputError(
            f"{type(found).__module__}.{kind} is no scorer of LensKit that can be read; "
            f"pass a trained {' or '.join(KINDS)}, or a pipeline with one"
        )
    if getattr(found, "item_embeddings", None) is None:
        raise InputError(f"this {kind} is not trained yet; call its train first")
    if found.users is None or found.user_embeddings is None:
        raise InputError(f"this {kind} kept no user vectors; train it with user_embeddings=True")
    return Factors.from_arrays(
        _user_vectors(found, histories),
        found.item_embeddings,
        user_ids=found.users.ids(),
        item_ids=found.items.ids(),
        item_bias=_item_bias(found),
        settings={"model": f"lenskit.{kind}", **_settings(found.config)},
    )


def require_lenskit() -> None:
    try:
        import lenskit  # noqa: F401
    except ImportError as missing:
        raise MissingDependencyError(
            f"this needs the package {missing.name}; install it with: pip install 'recprism[lenskit]'"
        ) from missing


def _scorer_of(model: Any, scorer: str, history: str) -> tuple[Any, Any]:
    """The scorer, and the training interactions its pipeline looks up; None where there are none."""
    from lenskit.pipeline import Pipeline

    if not isinstance(model, Pipeline):
        return model, None
    if scorer not in model.component_names():
        names = ", ".join(model.component_names()) or "none"
        raise InputError(f"this pipeline has no component {scorer!r}; name its scorer with scorer=, one of: {names}")
    lookup = model.component(history) if history in model.component_names() else None
    return model.component(scorer), getattr(lookup, "interactions", None)


def _user_vectors(scorer: Any, histories: Any) -> NDArray[Any]:
    """(n_users, d), as the scorer would use them when a query comes with the user's history."""
    vectors: NDArray[Any] = np.array(scorer.user_embeddings)
    if histories is None or scorer.config.user_embeddings == "prefer":
        return vectors
    for row, user in enumerate(scorer.users.ids()):
        items = histories.row_items(user)
        # without a history LensKit falls back on the vector of the training, too
        if items is not None and len(items):
            vectors[row], _ = scorer.new_user_embedding(row, items)
    return vectors


def _item_bias(scorer: Any) -> NDArray[Any] | None:
    """(n_items,) in the order of the scorer's items, or None."""
    bias = getattr(scorer, "bias", None)
    if bias is None or bias.item_biases is None:
        return None
    # learned from the same data set, hence in the same order; asked for by id all the same
    values: NDArray[Any] = np.asarray(bias.item_biases)[bias.items.numbers(scorer.items.ids())]
    return values


def _settings(config: Any) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {name: value for name, value in config.model_dump(mode="json").items() if isinstance(value, plain)}
