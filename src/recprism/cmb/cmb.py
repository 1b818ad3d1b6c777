"""CMB, the estimator: counterfactual multi-player bandits on a trained recommender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from recprism.cmb._learning import Learned, learn, learn_from_scores
from recprism.cmb.history import Follow, Progress, Step
from recprism.cmb.settings import CMBSettings, plain_settings, preset_settings
from recprism.cmb.space import Scorer
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part, Split
from recprism.errors import InputError
from recprism.metrics import Context, Evaluation, evaluate
from recprism.metrics.suite import deepest_cut
from recprism.models import Factors
from recprism.models.changed import ChangedVectors, goal_of
from recprism.models.perturbation import Perturbation


class CMB(CMBSettings):
    __doc__ = CMBSettings.__doc__

    delta_: Perturbation
    base_: Factors
    factors_: Factors
    history_: tuple[Step, ...]
    converged_: bool

    @classmethod
    def preset(cls, name: str, **settings: Any) -> CMB:
        """A CMB with the settings of a preset.

        Args:
            name: "default"; "shared" (one reward for all players, on validation); or "paper" (the settings behind the
                paper's tables).
            settings: Settings that override those of the preset.
        """
        return cls(**preset_settings(name, settings))

    # -- learning -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        factors: Factors,
        split: Split,
        categories: Categories | None = None,
        *,
        follow: Follow | None = None,
        resume: Progress | None = None,
    ) -> CMB:
        """Learn ``delta_`` for a dot-product model.

        Args:
            factors: The trained model.
            split: Train, validation and test interactions.
            categories: Of the items, if a metric needs them.
            follow: Called with the progress after every iteration.
            resume: The last progress of an interrupted search. The result has the same bits as an uninterrupted one.

        Returns:
            This CMB.
        """
        self.require_items(split.n_items)
        learned = learn(self, factors, split, categories, follow, resume)
        return self._hold(learned, factors)

    def fit_scorer(
        self,
        scorer: Scorer,
        split: Split,
        categories: Categories | None = None,
        *,
        follow: Follow | None = None,
        resume: Progress | None = None,
    ) -> CMB:
        """Learn ``delta_`` on the item features of any model, from its scores alone.

        Args:
            scorer: The model.
            split: Train, validation and test interactions.
            categories: Of the items, if a metric needs them.
            follow: Called with the progress after every iteration.
            resume: The last progress of an interrupted search.

        Returns:
            This CMB.
        """
        self.require_items(split.n_items)
        return self._hold(learn_from_scores(self, scorer, split, categories, follow, resume))

    def _hold(self, learned: Learned, base: Factors | None = None) -> CMB:
        self.delta_, self.history_, self.converged_ = learned.delta, learned.history, learned.converged
        if base is not None:
            self.base_, self.factors_ = base, self.delta_.applied_to(base)
        return self

    def require_known_goals(self) -> None:
        """Raise an error for unknown metrics, before a search starts or a file is replaced."""
        _ = self.objective.needs

    def require_items(self, n_items: int) -> None:
        """Raise an error if the lists would hold the whole catalogue, so that no change could show."""
        if self.k >= n_items:
            raise InputError(f"k is {self.k} and there are {n_items} items; set a smaller k (--set k=10)")

    # -- using --------------------------------------------------------------------------------------------------------

    def recommend(
        self, users: Any, k: int = 10, *, exclude: SparseRows | Any | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Recommend with the perturbed vectors; see :meth:`Factors.recommend`."""
        self._require_fitted()
        return self.factors_.recommend(users, k, exclude=exclude)

    def evaluate(
        self,
        split: Split,
        categories: Categories | None = None,
        metrics: Sequence[str] | None = None,
        *,
        part: Part = "test",
        bootstrap: int = 1000,
    ) -> tuple[Evaluation, Evaluation]:
        """Evaluate the lists before and after, for the same users.

        Distances between items are those of the base factors both times.

        Args:
            split: Train, validation and test interactions.
            categories: Of the items, if a metric needs them.
            metrics: Names of metrics; None for the default set.
            part: The part of the split to evaluate on.
            bootstrap: Number of bootstrap samples for confidence intervals.
        """
        self._require_fitted()
        more = {} if categories is None else {"categories": categories}
        context = Context.from_split(split, part, vectors=self.base_.item, **more)
        return tuple(  # type: ignore[return-value]
            evaluate_factors(factors, context, split.seen_before(part), metrics, bootstrap)
            for factors in (self.base_, self.factors_)
        )

    def _require_fitted(self) -> None:
        if not hasattr(self, "factors_"):
            raise InputError("this CMB has not been fitted to factors; call fit(factors, split, categories) first")

    @property
    def goal(self) -> str:
        """What the reward counts as diversity; several metrics are joined by +."""
        return goal_of(self.settings())

    # -- keeping ------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """All settings in JSON values; a function of your own is replaced by its name."""
        return plain_settings(self)

    def save(
        self, folder: str | Path, *, made_from: Mapping[str, str] | None = None, base_folder: str | Path | None = None
    ) -> None:
        """Write delta.safetensors, cmb.json (settings and history) and the base factors into a folder.

        Args:
            folder: Where to write.
            made_from: Hashes of other files that the base factors belong with (see ``common.bound``).
            base_folder: Where to write the base factors, if not into the same folder.
        """
        self.changed().save(Path(folder), made_from=made_from, base_folder=Path(base_folder or folder))

    @classmethod
    def load(cls, folder: str | Path, *, base_folder: str | Path | None = None) -> CMB:
        """Read what ``save`` wrote.

        Args:
            folder: Where to read.
            base_folder: Where the base factors are, if not in the same folder.
        """
        return cls.of_changed(ChangedVectors.load(Path(folder), base_folder=Path(base_folder or folder)))

    def changed(self) -> ChangedVectors:
        """Return the vectors before and after, and how they were found, as files keep them."""
        self._require_fitted()
        steps = tuple(Progress(self.history_).to_json())
        return ChangedVectors(self.base_, self.delta_, self.settings(), steps, self.converged_)

    @classmethod
    def of_changed(cls, found: ChangedVectors) -> CMB:
        """Return the search that found a change of vectors."""
        try:
            model, history = cls(**found.settings), Progress.from_json(found.history).steps
        except InputError:
            raise
        except (ValueError, TypeError) as broken:
            raise InputError(f"not a search written by recprism ({broken})") from None
        return model._hold(Learned(found.change, history, found.converged), found.base)


def evaluate_factors(
    factors: Factors, context: Context, seen: SparseRows, metrics: Sequence[str] | None, bootstrap: int = 1000
) -> Evaluation:
    """Rank with the given vectors, without the items in ``seen``, and evaluate the lists."""
    items, _ = factors.rank(deepest_cut(metrics), exclude=seen)
    return evaluate(items, context, metrics, bootstrap=bootstrap, users=factors.user_ids)
