"""An estimator in the manner of scikit-learn, which need not be installed: the main job behind fit and predict."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.budget.certificate import Certificate
from recprism.budget.path import Diversified, within_budget
from recprism.budget.scenario import Scenario
from recprism.data.incidence import Incidence
from recprism.data.shares import Share
from recprism.data.split import Split
from recprism.data.subtopics import Subtopics
from recprism.dials.query_adapter import QueryAdapter
from recprism.errors import InputError
from recprism.explain.build import explain
from recprism.explain.change import Change
from recprism.explain.evaluator import METRICS, Evaluator
from recprism.explain.explanation import Explanation
from recprism.explain.naming import Labels
from recprism.models import Factors, make_model
from recprism.runs.jobs._inputs import data_of, is_vectors, judged_vectors, known_pairs, subtopics_of


class Diversifier:
    """The most diverse vectors whose loss of NDCG@k is certified to stay within a budget.

    goal: what to raise: subtopic_coverage, alpha_ndcg, ilad_subtopics, ilad, catalogue_coverage, or several joined by +
    budget: the share of NDCG@k that may be lost, 0.05 or "5%"
    guards: further metrics and their shares, as in {"recall@20": 0.02}
    side: whose vectors change, "user" (an index of items stays as it is) or "item"
    subtopics: item id -> names, or a long table item_id, subtopic[, weight]; a Dataset brings its own
    model, model_settings: what is trained where interactions are given, and what differs from its defaults
    seed: of the split and the training

    After ``fit``: base_ and factors_ (vectors before and after), certificate_, kept_, split_, subtopics_, met_ (users x
    items: all they did, not shown again).

    >>> Diversifier(budget=0.02).set_params(side="item")
    Diversifier(budget=0.02, side='item')
    """

    base_: Factors
    factors_: Factors
    split_: Split
    subtopics_: Subtopics
    kept_: Diversified
    certificate_: Certificate
    met_: Incidence

    def __init__(
        self,
        goal: str = "subtopic_coverage",
        budget: Share = 0.05,
        *,
        guards: Mapping[str, Share] | None = None,
        side: Literal["user", "item"] = "user",
        k: int = 10,
        confidence: Share = 0.95,
        subtopics: Any = None,
        model: str = "bprmf",
        model_settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.goal = goal
        self.budget = budget
        self.guards = guards
        self.side = side
        self.k = k
        self.confidence = confidence
        self.subtopics = subtopics
        self.model = model
        self.model_settings = model_settings
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Diversifier:
        """Train, where vectors are not given, and find the vectors within the budget.

        X: interactions (a Dataset, a frame, a SciPy matrix of users x items, or rows of user id, item id[, rating,
            timestamp]; a rating is not looked at): split 8:1:1, trained on, certified on the validation part. Or
            vectors, Factors or (user vectors, item vectors)
        y: with vectors, what judges them: a Split whose training part they were fitted to, or two matrices of users x
            items, (seen, taken later). Not looked at where X are interactions
        """
        if is_vectors(X):
            factors, split = judged_vectors(X, y)
            subtopics = subtopics_of(self.subtopics, split.item_ids)
        else:
            data = data_of(X, self.subtopics)
            split, subtopics = data.split(seed=self.seed), data.subtopics
            trainer = make_model(self.model, **(self.model_settings or {}))
            factors = trainer.fit(split, seed=self.seed, device=self.device)
        scenario = Scenario(factors, split, subtopics, "test", self.k)
        budgets = {f"ndcg@{self.k}": self.budget, **(self.guards or {})}
        kept = within_budget(scenario, self.goal, budgets, side=self.side, confidence=self.confidence)
        self.__dict__.pop("adapter_", None)  # of an earlier fit
        self.base_, self.split_, self.subtopics_, self.kept_ = factors, split, subtopics, kept
        self.factors_, self.certificate_ = kept.perturbation.applied_to(factors), kept.certificate
        self.met_ = split.seen_before("test").union(split.test)
        return self

    def recommend(self, users: Any, k: int | None = None) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Item ids and scores of the best k items that a user has not met in ``fit``, as ``Factors.recommend``."""
        self._require_fitted()
        return self.factors_.recommend(users, k or self.k, exclude=self.met_)

    def predict(self, X: Any) -> NDArray[Any]:
        """(n, k) item ids for n user ids, or for the first column of rows such as ``fit`` takes."""
        users = np.asarray(X)
        return self.recommend(users[:, 0] if users.ndim == 2 else users)[0]

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """(n, d) vectors of any users, also new ones, to vectors that serve more diverse lists.

        For item-side vectors they stay as they are. On the user side a map learned from the lists of ``fit`` answers;
        it reaches part of what the users' own vectors do (docs/design/carry.md), and the certificate is not about it.
        """
        self._require_fitted()
        if self.side == "item" or self.kept_.baked is None:
            return np.array(X, np.float32)
        return self.adapter_(X)

    @cached_property
    def adapter_(self) -> QueryAdapter:
        """The map p -> p + f(p) behind ``transform``, learned when it is first asked for."""
        seen = self.split_.seen_before("test")
        lists, _ = self.factors_.rank(self.k, exclude=seen)
        return QueryAdapter().fit_lists(self.base_, lists, exclude=seen)

    def score(self, X: Any, y: Any = None, metric: str | None = None) -> float:  # noqa: ARG002 - scikit-learn passes y
        """Mean of a metric, the first goal unless named, of the lists judged by interactions that ``fit`` did not see.

        Interactions of users or items that ``fit`` did not know are passed over.
        """
        self._require_fitted()
        name = metric or f"{self.goal.partition('+')[0]}@{self.k}"
        later = known_pairs(X, self.split_.user_ids, self.split_.item_ids)
        judged = Split(self.met_, Incidence.empty(later.shape), later, self.split_.user_ids, self.split_.item_ids)
        scenario = Scenario(self.base_, judged, self.subtopics_, "test", self.k)
        lists, _ = self.factors_.rank(int(name.partition("@")[2]), exclude=self.met_)
        return float(np.nanmean(scenario.judge(lists, (name,))[name]))

    def explain(self, **settings: Any) -> Explanation:
        """What the change did and consists of; settings of :func:`recprism.explain.build.explain`."""
        self._require_fitted()
        wanted = f"{self.goal.partition('+')[0]}@{self.k}"
        names = tuple(dict.fromkeys((wanted, *METRICS)))
        judge = Evaluator.on(self.split_, "test", self.base_, self.subtopics_, names)
        labels = Labels.of(self.subtopics_, popularity=self.split_.train.col_counts)
        change = Change.of(self.base_, self.kept_.perturbation)
        return explain(change, judge, wanted, **{"labels": labels, **settings})

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
        return hasattr(self, "kept_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), transformer_tags=TransformerTags())

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise InputError("this Diversifier is not fitted yet; call its fit first")


def _differs(estimator: Diversifier, name: str, usual: Any) -> bool:
    value = getattr(estimator, name)
    return not (value is usual or (isinstance(value, (str, int, float)) and value == usual))
