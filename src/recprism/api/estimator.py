"""An estimator with the interface of scikit-learn, over the verbs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.api.verbs import diversify
from recprism.budget.certificate import Certificate
from recprism.budget.problem import Problem
from recprism.common.shares import Share
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.explain.explained import ExplainedLists
from recprism.metrics.registry import metric_name
from recprism.models import Factors
from recprism.models.registry import make_model
from recprism.result.result import Result
from recprism.rule.goal import Goal, Words
from recprism.runs.jobs.inputs import categories_of, data_of, is_vectors, judged_vectors, known_pairs


class Diversifier:
    """The verbs of recprism behind the interface of scikit-learn, which need not be installed.

    ``fit`` trains a model if no vectors are given, and finds the rule with the most diverse lists within the budget.

    Args:
        goal: What to raise: subtopic_coverage, alpha_ndcg, alpha_ndcg_relevant, err_ia, ilad_subtopics, ilad,
            catalogue_coverage, or several, as in "sc+ilad" or {"sc": 2, "ilad": 1}.
        budget: The share of NDCG@k that may be lost, 0.05 or "5%".
        guards: Further metrics and their shares, as in ``{"recall@20": 0.02}``.
        k: Length of the lists.
        confidence: Of the certificate.
        categories: Item id -> names, or a frame item_id, category[, weight]. A data set has its own.
        model: What is trained on interactions.
        model_settings: What differs from the model's defaults.
        seed: Of the split and the training.
        device: Where the model is trained.

    Attributes:
        base_: The vectors of the model.
        result_: The result: the rule, its certificate, lists and reasons.
        certificate_: What the change costs at most.
        split_: What was learned from and what judged.
        categories_: The categories of the items.

    >>> Diversifier(budget=0.02).set_params(k=20)
    Diversifier(budget=0.02, k=20)
    """

    base_: Factors
    split_: Split
    categories_: Categories
    result_: Result
    certificate_: Certificate | None

    def __init__(
        self,
        goal: Words = "subtopic_coverage",
        budget: Share = 0.05,
        *,
        guards: Mapping[str, Share] | None = None,
        k: int = 10,
        confidence: Share = 0.95,
        categories: Any = None,
        model: str = "bprmf",
        model_settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.goal = goal
        self.budget = budget
        self.guards = guards
        self.k = k
        self.confidence = confidence
        self.categories = categories
        self.model = model
        self.model_settings = model_settings
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Diversifier:
        """Train, if no vectors are given, and find the rule within the budget.

        Args:
            X: Interactions: a Dataset, a frame, a SciPy matrix of users x items, or rows of user id, item id[, rating,
                timestamp]. Ratings are not used. They are split 8:1:1, and the validation part certifies. Or vectors:
                Factors, or (user vectors, item vectors).
            y: With vectors, what judges them: a Split whose training part they were fitted to, or two matrices of
                users x items, (seen, taken later). Not used with interactions.
        """
        if is_vectors(X):
            factors, split = judged_vectors(X, y)
            categories = categories_of(self.categories, split.item_ids)
        else:
            data = data_of(X, self.categories)
            split, categories = data.split(seed=self.seed), data.categories
            trainer = make_model(self.model, **(self.model_settings or {}))
            factors = trainer.fit(split, seed=self.seed, device=self.device)
        problem = Problem(factors, split, categories, "test", self.k)
        result = diversify(problem, self.goal, self.budget, guards=self.guards, confidence=self.confidence)
        self.result_, self.base_, self.split_, self.categories_ = result, factors, split, categories
        self.certificate_ = result.certificate
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return live lists: ``(n, k)`` item ids for n user ids, or for the first column of rows as ``fit`` takes."""
        self._require_fitted()
        users = np.asarray(X)
        rows = self.result_.rows_of(users[:, 0] if users.ndim == 2 else users)
        return self.base_.ids_of(self.result_.ranked(rows)[0])

    def score(self, X: Any, y: Any = None, metric: str | None = None) -> float:  # noqa: ARG002 - scikit-learn passes y
        """Return the mean of a metric, judged by interactions that ``fit`` did not see.

        Args:
            X: Interactions. Those of unknown users or items are counted and skipped.
            y: Not used.
            metric: A name with a cut; the first goal by default.
        """
        self._require_fitted()
        name = metric_name(metric or Goal.parse(self.goal).terms[0].name, self.k)
        later = known_pairs(X, self.split_.user_ids, self.split_.item_ids)
        known = self.split_.live().train
        judged = Split(known, SparseRows.empty(later.shape), later, self.split_.user_ids, self.split_.item_ids)
        problem = Problem(self.base_, judged, self.categories_, "test", self.k)
        lists, _ = problem.rank(self.result_.model, int(name.partition("@")[2]))
        return float(np.nanmean(problem.judge(lists, (name,))[name]))

    def explain(self, **settings: Any) -> ExplainedLists:
        """Explain the lists; arguments as in :meth:`recprism.Result.explain`."""
        self._require_fitted()
        return self.result_.explain(**settings)

    # -- what scikit-learn asks of an estimator -----------------------------------------------------------------------

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {parameter.name: parameter.default for parameter in parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - no parameter is an estimator
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Diversifier:
        unknown = [name for name in params if name not in self._defaults()]
        if unknown:
            raise InputError(
                f"Invalid parameter {unknown[0]!r} for estimator {self!r}. Valid parameters are: {[*self._defaults()]}."
            )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = {name: getattr(self, name) for name, usual in self._defaults().items() if _differs(self, name, usual)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise InputError("this Diversifier is not fitted yet; call its fit first")


def _differs(estimator: Diversifier, name: str, usual: Any) -> bool:
    value = getattr(estimator, name)
    return not (value is usual or (isinstance(value, (str, int, float)) and value == usual))
