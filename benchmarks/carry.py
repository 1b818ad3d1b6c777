"""What carries over? Which artefact keeps what share of the rule's gain, where the rule itself did not make the lists.

    python benchmarks/carry.py --data-root DIR [--sets ml-1m amazon-cds-2014] [--seeds 5] [--models DIR]
                               [--users 2000] [--judged 600] [--out FILE] [--json]
    python tools/carry_docs.py           # writes the tables of docs/design/carry.md from docs/design/carry.json

BPRMF (50 factors), test part, lists of ten. Users fall into three groups (70, 15 and 15 %); the model is trained on the
first alone. All vectors are folded in from training interactions, so that they come about alike. A random tenth of the
items is on its first day: no artefact knows it. The rule (SC, trade-off 0.2, 100 candidates) makes lists for up to
``--users`` users of the first group, and artefacts are fitted to these lists. The strength of an artefact is the one
with the most SC on the second group (validation part) among those that lose no more NDCG than the rule.

Artefacts: "dials": named weights per user; users without a list get the mean weights. "item vectors"; "adapter": a
linear query adapter, fitted to lists. Controls: "one number per item", fitted to the same lists by the same loss as the
adapter; "bias part": the change of each item vector along the mean user alone. At most ``--judged`` users of each group
choose strengths and are judged.

Situations: "new users": the third group. "sessions": the same users with vectors from five of their items, drawn at
random. "first-day items": fitted users, all items on offer; an item on its first day has the mean vector of the ten
items with the most similar categories, and changes from similar items (``recprism.dials.transfer``). "retrained":
fitted users, a model of the next seed on the axes of the old one. "second stage": the third group; a gradient-boosted
ranker, trained on validation labels of the second group, orders 200 candidates and sees the scores of the artefact; the
rule runs after it.

Intervals (95 %) cover seeds and users: both are drawn again together 400 times, and everything is computed again in
every draw; the interval is that of a t distribution with as many degrees of freedom as seeds, less one. "share" is the
gain in SC over that of the rule. "over_control" is SC minus that of "one number per item" at the strength that costs as
much NDCG on the same users; an artefact is more than promotion of items if the interval is above 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.ensemble import HistGradientBoostingClassifier
from torch.nn.functional import softplus

from harness import Claim, interleaved, parser, report
from recprism.data import Incidence, load_dataset
from recprism.data.subtopics import Subtopics
from recprism.dials import lists_to_dials
from recprism.dials.query_adapter import QueryAdapter, QueryAdapterSettings
from recprism.dials.solve import lists_to_vectors
from recprism.dials.transfer import change_from_similar_items
from recprism.explain.factors.change import with_bias_column
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors
from recprism.models.alignment import align
from recprism.models.folding import fold_in
from recprism.rerank import Features, reranker

K, CANDIDATES, TRADE_OFF, FIRST_DAY, SESSION, FETCHED = 10, 100, 0.2, 0.1, 5, 200
NDCG, SC, DRAWS = "ndcg@10", "subtopic_coverage@10", 400
STRENGTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0)
RULE, DIALS, ITEMS, ADAPTER, ONE_NUMBER, BIAS = (
    *("the rule at request time", "dials", "item vectors", "adapter"),
    *("one number per item", "bias part of item vectors"),
)
CONTROL_AT, CONTROL_STRENGTHS = "control at ", (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)
ARTEFACTS = (DIALS, ITEMS, ADAPTER, ONE_NUMBER, BIAS)
Lists = NDArray[np.int64]
Floats = NDArray[np.float32]
Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items on offer: their categories, and what each artefact has for them."""

    subtopics: Subtopics
    change: Floats
    one_number: Floats


@dataclass(eq=False)
class World:
    """A data set: its groups of users, and its items with and without those on their first day."""

    name: str
    data_root: str | None
    fitted: int
    judged: int

    def __post_init__(self) -> None:
        data = load_dataset(self.name, preset="paper", data_root=self.data_root)
        self.whole, self.all_topics = data.split(seed=0), data.subtopics
        order = np.random.default_rng(0).permutation(self.whole.n_users)
        first, self.second, self.third = np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])
        self.trained_on = np.sort(first)
        self.first, self.again = first[: self.fitted], first[: self.judged]
        self.second, self.third = self.second[: self.judged], self.third[: self.judged]
        self.known = np.flatnonzero(np.random.default_rng(1).random(self.whole.n_items) >= FIRST_DAY)
        self.split, self.topics = self.whole.of_items(self.known), self.all_topics.take_items(self.known)
        self.features, self.all_features = Features(subtopics=self.topics), Features(subtopics=self.all_topics)

    def model(self, seed: int, models: Path | None) -> Factors:
        kept = None if models is None else models / f"{self.name}-{seed}.safetensors"
        if kept is not None and kept.exists():
            return Factors.load(kept)
        factors = BPRMF().fit(self.whole.of_users(self.trained_on), seed=seed, device="cpu")
        if kept is not None:
            factors.save(kept)
        return factors

    def judge(self, lists: Lists, users: NDArray[np.int64], part: Any, *, all_items: bool = False) -> Values:
        split, topics = (self.whole, self.all_topics) if all_items else (self.split, self.topics)
        context = Context(relevant=split.part(part).take_rows(users), subtopics=topics)
        return dict(evaluate(lists, context, [NDCG, SC], bootstrap=0).values)

    def seen(self, users: NDArray[np.int64], part: Any = "test", *, all_items: bool = False) -> Incidence:
        return (self.whole if all_items else self.split).seen_before(part).take_rows(users)


def by_rule(users: Factors, seen: Incidence, features: Features) -> Lists:
    candidates, scores = users.rank(CANDIDATES, exclude=seen)
    return reranked(candidates, scores, features)


def reranked(candidates: Lists, scores: NDArray[Any], features: Features) -> Lists:
    method = reranker("optimal_subtopic_coverage", trade_off=TRADE_OFF, sort_back=True)
    return np.asarray(method(candidates, scores, K, features=features))


def ranked(users: Factors, seen: Incidence) -> Lists:
    return users.rank(K, exclude=seen)[0]


def numbers_per_item(users: Factors, lists: Lists, seen: Incidence, steps: int = 300) -> Floats:
    """Fit one number per item to lists: listed items above the 50 best others, as the adapter is fitted."""
    rivals, _ = users.rank(60, exclude=seen)
    outside = ~(rivals[:, :, None] == lists[:, None, :]).any(2)
    order = np.argsort(~outside, axis=1, kind="stable")[:, :50]
    others = torch.from_numpy(np.take_along_axis(rivals, order, 1))
    wanted = torch.from_numpy(np.ascontiguousarray(lists)).long()
    user, item = torch.from_numpy(users.user), torch.from_numpy(users.item)
    scores = [torch.einsum("ud,und->un", user, item[it]) for it in (wanted, others)]
    spread = 0.2 * torch.cat(scores, 1).std(1)[:, None, None]
    found = torch.zeros(users.n_items, requires_grad=True)
    optimiser, generator = torch.optim.Adam([found], lr=0.02), torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(wanted), (256,), generator=generator)
        above = scores[0][rows] + found[wanted[rows]]
        below = scores[1][rows] + found[others[rows]]
        loss = softplus((below[:, None, :] - above[:, :, None]) / spread[rows]).mean() + 1e-4 * (found**2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return found.detach().numpy()


class Fitted:
    """A model of one seed, and the artefacts that were fitted to the lists of the first group."""

    def __init__(self, world: World, trained: Factors, following: Factors) -> None:
        self.world, self.trained, self.following = world, trained, following
        self.base = trained.of_items(world.known)
        seen = world.seen(world.first)
        users = self.users(self.base, world.first)
        lists, self._fitted_users = by_rule(users, seen, world.features), users
        self.mean_user = users.user.mean(0)
        self.dials = lists_to_dials(users, lists, world.topics, exclude=seen, demote=True)
        change = lists_to_vectors(users, lists, "item", exclude=seen).perturbation.item
        assert change is not None
        self.catalogue = Catalogue(world.topics, change.numpy(), numbers_per_item(users, lists, seen))
        settings = QueryAdapterSettings(steps=300, temperature=0.2)
        self.adapter = QueryAdapter(settings).fit_lists(users, lists, exclude=seen)
        self.strengths = {name: self._strength(name) for name in ARTEFACTS}

    def users(self, model: Factors, rows: NDArray[np.int64], taken: Incidence | None = None) -> Factors:
        """Return users, folded in."""
        split = self.world.split if model.n_items == len(self.world.known) else self.world.whole
        vectors = fold_in(model, split.train.take_rows(rows) if taken is None else taken)
        ids = {"user_ids": self.world.whole.user_ids[rows], "item_ids": model.item_ids}
        return Factors.from_arrays(vectors, model.item, item_bias=model.item_bias, **ids)

    def served(
        self, name: str, users: Factors, strength: float, catalogue: Catalogue, weights: Floats | None = None
    ) -> Factors:
        """Return what serves users with an artefact; ``weights`` are their own dials."""
        if name == ADAPTER:
            return self.adapter.with_strength(strength).applied_to(users)
        if name == ITEMS:
            return users.with_vectors(item=users.item + np.float32(strength) * catalogue.change)
        if name == DIALS and weights is not None:
            wide = np.hstack([users.item, catalogue.subtopics.dense()]).astype(np.float32)
            return users.with_vectors(user=np.hstack([users.user, weights]), item=wide)
        numbers = {
            DIALS: catalogue.subtopics.dense() @ self.dials.weights.mean(0),
            ONE_NUMBER: catalogue.one_number,
            BIAS: catalogue.change @ self.mean_user,
        }[name]
        found = with_bias_column(users)
        found.item[:, -1] = strength * numbers
        return found

    def _strength(self, name: str) -> float:
        users, seen, rows = self._validation
        base = self.world.judge(ranked(users, seen), rows, "validation")
        bar = np.nanmean(self.world.judge(by_rule(users, seen, self.world.features), rows, "validation")[NDCG])
        bar = min(bar, np.nanmean(base[NDCG]))
        best = (-np.inf, 0.0)
        for strength in STRENGTHS:
            lists = ranked(self.served(name, users, strength, self.catalogue), seen)
            values = self.world.judge(lists, rows, "validation")
            if np.nanmean(values[NDCG]) >= bar:
                best = max(best, (float(np.nanmean(values[SC])), strength))
        return best[1]

    @cached_property
    def _validation(self) -> tuple[Factors, Incidence, NDArray[np.int64]]:
        rows = self.world.second
        return self.users(self.base, rows), self.world.seen(rows, "validation"), rows

    @cached_property
    def _third(self) -> tuple[Factors, Incidence, NDArray[np.int64]]:
        return self.users(self.base, self.world.third), self.world.seen(self.world.third), self.world.third

    @property
    def _weights(self) -> Floats:
        """The dials of the fitted users that are judged again."""
        return self.dials.weights[: len(self.world.again)].astype(np.float32)

    def all_artefacts(
        self, users: Factors, seen: Incidence, catalogue: Catalogue, weights: Floats | None = None
    ) -> Iterator[tuple[str, Lists]]:
        for name in ARTEFACTS:
            yield name, ranked(self.served(name, users, self.strengths[name], catalogue, weights), seen)
        for strength in CONTROL_STRENGTHS:
            yield f"{CONTROL_AT}{strength:g}", ranked(self.served(ONE_NUMBER, users, strength, catalogue), seen)

    # -- situations: the values of every user under the base, the rule and every artefact ------------------------------

    def new_users(self) -> dict[str, Values]:
        users, seen, rows = self._third
        lists = {"base": ranked(users, seen), RULE: by_rule(users, seen, self.world.features)}
        lists |= dict(self.all_artefacts(users, seen, self.catalogue))
        return {name: self.world.judge(it, rows, "test") for name, it in lists.items()}

    def sessions(self) -> dict[str, Values]:
        _, seen, rows = self._third
        generator, train = np.random.default_rng(0), self.world.split.train.take_rows(rows)
        own = [generator.permutation(train.row(row))[:SESSION] for row in range(train.n_rows)]
        owner = np.repeat(np.arange(len(own)), [len(it) for it in own])
        users = self.users(self.base, rows, Incidence.from_pairs(owner, np.concatenate(own), train.shape))
        lists = {"base": ranked(users, seen), RULE: by_rule(users, seen, self.world.features)}
        lists |= dict(self.all_artefacts(users, seen, self.catalogue))
        return {name: self.world.judge(it, rows, "test") for name, it in lists.items()}

    def first_day(self) -> dict[str, Values]:
        world, rows = self.world, self.world.again
        model = with_content_vectors(self.trained, world.known, world.all_topics)
        numbers = np.zeros_like(self.catalogue.change)
        numbers[:, 0] = self.catalogue.one_number
        change, numbers = (
            change_from_similar_items(model, world.known, it, world.all_topics)
            for it in (self.catalogue.change, numbers)
        )
        catalogue = Catalogue(world.all_topics, change, numbers[:, 0])
        known = self._fitted_users.of_users(np.arange(len(rows)))  # folded in from items that were there before
        ids = {"user_ids": known.user_ids, "item_ids": model.item_ids}
        users = Factors.from_arrays(known.user, model.item, item_bias=model.item_bias, **ids)
        seen = world.seen(rows, all_items=True)
        lists = {"base": ranked(users, seen), RULE: by_rule(users, seen, world.all_features)}
        lists |= dict(self.all_artefacts(users, seen, catalogue, self._weights))
        return {name: world.judge(it, rows, "test", all_items=True) for name, it in lists.items()}

    def retrained(self) -> dict[str, Values]:
        rows, new = self.world.again, align(self.following, self.trained).factors.of_items(self.world.known)
        users, seen = self.users(new, rows), self.world.seen(rows)
        lists = {"base": ranked(users, seen), RULE: by_rule(users, seen, self.world.features)}
        lists |= dict(self.all_artefacts(users, seen, self.catalogue, self._weights))
        return {name: self.world.judge(it, rows, "test") for name, it in lists.items()}

    def second_stage(self) -> dict[str, Values]:
        users, seen, rows = self._third
        ranker = Ranker(self.world, *self._validation)
        base, scores = ranker.order(users, seen, rows)
        lists = {"base": base[:, :K], RULE: reranked(base[:, :CANDIDATES], scores[:, :CANDIDATES], self.world.features)}
        for name in ARTEFACTS:
            served = self.served(name, users, self.strengths[name], self.catalogue)
            lists[name] = ranker.order(served, seen, rows)[0][:, :K]
        for strength in CONTROL_STRENGTHS:
            served = self.served(ONE_NUMBER, users, strength, self.catalogue)
            lists[f"{CONTROL_AT}{strength:g}"] = ranker.order(served, seen, rows)[0][:, :K]
        return {name: self.world.judge(it, rows, "test") for name, it in lists.items()}

    def milliseconds(self) -> dict[str, float]:
        """Return milliseconds per request of one user, all in one run on one thread."""
        users, seen, _ = self._third
        served = {"the base": users} | {
            name: self.served(name, users, self.strengths[name], self.catalogue) for name in ARTEFACTS
        }
        turn = iter(np.random.default_rng(0).integers(len(users.user), size=100_000).tolist())

        def one(factors: Factors) -> tuple[Factors, Incidence]:
            row = np.array([next(turn)])
            return factors.of_users(row), seen.take_rows(row)

        tasks: dict[str, Any] = {name: (lambda it=it: ranked(*one(it))) for name, it in served.items()}
        tasks[RULE] = lambda: by_rule(*one(users), self.world.features)
        return {name: 1000 * seconds for name, seconds in interleaved(tasks, 200).items()}


def with_content_vectors(model: Factors, known: NDArray[np.int64], topics: Subtopics) -> Factors:
    """Return the model where items that are not known have the mean vector of the ten with the nearest categories."""
    rows = topics.dense().astype(np.float64)
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cold = np.setdiff1d(np.arange(model.n_items), known)
    near = known[np.argsort(-(unit[cold] @ unit[known].T), axis=1, kind="stable")[:, :10]]
    item = model.item.copy()
    item[cold] = model.item[near].mean(1)
    return model.with_vectors(item=item)


class Ranker:
    """A second stage: a gradient-boosted ranker of candidates, trained on validation labels."""

    def __init__(self, world: World, users: Factors, seen: Incidence, rows: NDArray[np.int64]) -> None:
        self.world = world
        items, columns = self._columns(users, seen, rows)
        keys = np.arange(len(items))[:, None] * users.n_items + items
        labels = np.isin(keys, world.split.part("validation").take_rows(rows).keys)
        chosen = labels | (np.random.default_rng(0).random(labels.shape) < 0.1)
        settings = {"max_iter": 60, "max_leaf_nodes": 8, "min_samples_leaf": 200, "early_stopping": False}
        self.model = HistGradientBoostingClassifier(**settings, random_state=0).fit(columns[chosen], labels[chosen])

    def order(self, served: Factors, seen: Incidence, rows: NDArray[np.int64]) -> tuple[Lists, NDArray[Any]]:
        items, columns = self._columns(served, seen, rows)
        scores = self.model.decision_function(columns.reshape(-1, columns.shape[2])).reshape(items.shape)
        best = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(items, best, 1), np.take_along_axis(scores, best, 1)

    def _columns(self, served: Factors, seen: Incidence, rows: NDArray[np.int64]) -> tuple[Lists, NDArray[np.float32]]:
        items, scores = served.rank(FETCHED, exclude=seen)
        popularity = np.log1p(self.world.split.train.col_counts)[items]
        topics = self.world.topics.dense()
        taken = self.world.split.train.take_rows(rows)
        tastes = np.stack([topics[taken.row(row)].mean(0) for row in range(taken.n_rows)])
        match = np.einsum("us,uns->un", tastes, topics[items])
        activity = np.broadcast_to(np.log1p(taken.row_counts)[:, None], items.shape)
        columns = [scores, scores - scores.mean(1, keepdims=True), popularity, match, activity, topics.sum(1)[items]]
        return items, np.stack(columns, 2).astype(np.float32)


SITUATIONS = {
    "new users": Fitted.new_users,
    "first-day items": Fitted.first_day,
    "retrained": Fitted.retrained,
    "sessions": Fitted.sessions,
    "second stage": Fitted.second_stage,
}


def rows_of(name: str, situation: str, found: list[dict[str, Values]]) -> Iterator[dict[str, Any]]:
    """One row per artefact; seeds and users are drawn again together, so that intervals cover both."""
    values = {who: {metric: np.array([it[who][metric] for it in found]) for metric in (NDCG, SC)} for who in found[0]}
    judged = ~np.isnan(values["base"][NDCG]).any(0)
    values = {who: {metric: it[:, judged] for metric, it in own.items()} for who, own in values.items()}
    shape, generator = values["base"][SC].shape, np.random.default_rng(0)
    drawn = [
        (generator.integers(shape[0], size=shape[0]), generator.integers(shape[1], size=shape[1])) for _ in range(DRAWS)
    ]
    whole = figures({who: {metric: float(it.mean()) for metric, it in own.items()} for who, own in values.items()})
    again = [
        figures(
            {
                who: {metric: float(it[np.ix_(*rows)].mean()) for metric, it in own.items()}
                for who, own in values.items()
            }
        )
        for rows in drawn
    ]
    of_seeds = [
        figures({who: {metric: float(it[seed].mean()) for metric, it in own.items()} for who, own in values.items()})
        for seed in range(shape[0])
    ]
    for who in (RULE, *ARTEFACTS):
        yield {
            "set": name,
            "situation": situation,
            "artefact": who,
            "users": shape[1],
            "seeds": shape[0],
            **{label: interval(it, [one[who][label] for one in again], shape[0]) for label, it in whole[who].items()},
            "share_of_seeds": [one[who]["share"] for one in of_seeds],
        }


def figures(mean: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return relative changes, the share of the rule's gain, and SC over that of the control at the same NDCG."""
    base = mean["base"]
    gain = mean[RULE][SC] - base[SC]
    return {
        who: {
            "ndcg": mean[who][NDCG] / base[NDCG] - 1,
            "sc": mean[who][SC] / base[SC] - 1,
            "share": (mean[who][SC] - base[SC]) / gain,
            "over_control": (mean[who][SC] - control_at(mean, mean[who][NDCG])) / base[SC],
        }
        for who in (RULE, *ARTEFACTS)
    }


def control_at(mean: dict[str, dict[str, float]], ndcg: float) -> float:
    """Return the SC of one number per item at the strength that has this NDCG, between two measured ones."""
    curve = [mean["base"], *(values for who, values in mean.items() if who.startswith(CONTROL_AT))]
    falling = np.minimum.accumulate([it[NDCG] for it in curve])
    after = int(np.searchsorted(-falling, -ndcg, side="right"))  # the first strength that costs more
    if after in (0, len(curve)):
        return curve[min(after, len(curve) - 1)][SC]
    share = float((falling[after - 1] - ndcg) / (falling[after - 1] - falling[after]))
    return (1 - share) * curve[after - 1][SC] + share * curve[after][SC]


def interval(middle: float, draws: list[float], seeds: int) -> list[float]:
    """Return a figure and its interval: t with seeds - 1 degrees of freedom, as few seeds are the weakest part."""
    error = float(np.std(draws)) * np.sqrt(seeds / max(seeds - 1, 1))
    half = float(stdtrit(max(seeds - 1, 1), 0.975)) * error
    return [middle, middle - half, middle + half]


def claims(rows: list[dict[str, Any]]) -> Iterator[Claim]:
    for row in rows:
        said = f"SC {100 * row['sc'][0]:+.1f} %, NDCG {100 * row['ndcg'][0]:+.1f} %"
        where = f"{row['set']}, {row['situation']}, {row['artefact']} ({said})"
        yield Claim(f"{where}: share of the rule's gain in SC", row["share"][0], 0.6, "higher")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--sets", nargs="+", default=["ml-1m", "amazon-cds-2014"])
    options.add_argument("--seeds", type=int, default=5, help="of the model (5)")
    options.add_argument("--users", type=int, default=2000, help="how many users artefacts are fitted to (2000)")
    options.add_argument("--judged", type=int, default=600, help="at most so many users of each group are judged (600)")
    options.add_argument("--models", type=Path, help="a folder where trained models are kept between runs")
    options.add_argument("--out", type=Path, help="write rows and milliseconds as JSON, after each set")
    words = options.parse_args()
    rows: list[dict[str, Any]] = []
    milliseconds: dict[str, dict[str, float]] = {}
    strengths: dict[str, list[dict[str, float]]] = {}
    for name in words.sets:
        world = World(name, words.data_root, words.users, words.judged)
        found: dict[str, list[dict[str, Values]]] = {situation: [] for situation in SITUATIONS}
        for seed in range(words.seeds):
            fitted = Fitted(world, *(world.model(seed + more, words.models) for more in (0, 1)))
            strengths.setdefault(name, []).append(fitted.strengths)
            for situation, measure in SITUATIONS.items():
                found[situation].append(measure(fitted))
            if seed == 0:
                milliseconds[name] = fitted.milliseconds()
            print(name, "seed", seed, json.dumps(fitted.strengths), file=sys.stderr, flush=True)  # it takes a while
        for situation, values in found.items():
            rows += rows_of(name, situation, values)
        found_so_far = {"rows": rows, "milliseconds": milliseconds, "strengths": strengths}
        if words.out is not None:
            words.out.write_text(json.dumps(found_so_far, indent=1) + "\n")
    report(list(claims(rows)), as_json=words.json, details=found_so_far)


if __name__ == "__main__":
    main()
