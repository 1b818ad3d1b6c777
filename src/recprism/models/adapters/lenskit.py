"""Fitted ALS models of ``lenskit`` (extra ``[lenskit]``).

LensKit 2025 needs pandas 2, and the tests here use pandas 3, so LensKit is not installed for the tests. recprism itself
does not need pandas: ``pip install 'recprism[lenskit]'`` works in an environment of your own. There,
``from_lenskit(pipeline).save("factors.safetensors")`` writes a file that ``Factors.load`` reads in any environment.
``tools/record_lenskit.py`` does that for the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.extras import needing
from recprism.errors import InputError
from recprism.models.factors import Factors

KINDS = ("BiasedMFScorer", "ImplicitMFScorer")


def from_lenskit(model: Any, *, scorer: str = "scorer", history: str = "history-lookup") -> Factors:
    """Convert a trained scorer or pipeline of LensKit.

    The result for a pipeline ranks as its ``recommend``, which computes the user's vector again from the history unless
    the scorer has ``user_embeddings="prefer"``. The result for a scorer has the user vectors of the training, which are
    half an epoch older. Item biases become ``item_bias``. The user bias and the global mean are the same for all items
    of a user, do not affect the ranking, and are dropped.

    Args:
        model: A trained ``BiasedMFScorer`` or ``ImplicitMFScorer``, or a trained pipeline with one.
        scorer: Name of the scorer in the pipeline.
        history: Name of the component that looks up the users' histories.

    Returns:
        The vectors of the model.

    Raises:
        InputError: The model is of another kind, not trained, or has no user vectors.
        MissingDependencyError: ``lenskit`` is not installed.
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
    with needing("a model of lenskit", "lenskit"):
        import lenskit  # noqa: F401


def _scorer_of(model: Any, scorer: str, history: str) -> tuple[Any, Any]:
    """Return the scorer and the training interactions of its pipeline; None if there are none."""
    from lenskit.pipeline import Pipeline

    if not isinstance(model, Pipeline):
        return model, None
    if scorer not in model.component_names():
        names = ", ".join(model.component_names()) or "none"
        raise InputError(f"this pipeline has no component {scorer!r}; name its scorer with scorer=, one of: {names}")
    lookup = model.component(history) if history in model.component_names() else None
    return model.component(scorer), getattr(lookup, "interactions", None)


def _user_vectors(scorer: Any, histories: Any) -> NDArray[Any]:
    """Return the user vectors, (n_users, d), that the scorer uses for a query with the user's history."""
    vectors: NDArray[Any] = np.array(scorer.user_embeddings)
    if histories is None or scorer.config.user_embeddings == "prefer":
        return vectors
    for row, user in enumerate(scorer.users.ids()):
        items = histories.row_items(user)
        # LensKit, too, uses the vector of the training if there is no history
        if items is not None and len(items):
            vectors[row], _ = scorer.new_user_embedding(row, items)
    return vectors


def _item_bias(scorer: Any) -> NDArray[Any] | None:
    """Return the item bias, (n_items,), in the order of the scorer's items; None if there is none."""
    bias = getattr(scorer, "bias", None)
    if bias is None or bias.item_biases is None:
        return None
    # both come from the same data set, so the order should be the same; looking up by id is safe in any case
    values: NDArray[Any] = np.asarray(bias.item_biases)[bias.items.numbers(scorer.items.ids())]
    return values


def _settings(config: Any) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {name: value for name, value in config.model_dump(mode="json").items() if isinstance(value, plain)}
