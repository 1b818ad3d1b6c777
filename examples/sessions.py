"""User vectors that exist only at request time: a session model, with the rule behind it.

    python examples/sessions.py [--data ml-1m --data-root DIR]

A small self-attentive model (in the manner of SASRec) learns from what happened before a point in time. Then it answers
the sessions of users who came later, of whom it has seen nothing. The rule is exported once. It takes the candidates
and scores of each request, and gives a reason for each item.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recprism import Problem, load
from recprism.budget.path import rule_at
from recprism.common.threads import one_thread
from recprism.data import Categories, Dataset, SparseRows, Split
from recprism.forms import collect_rule
from recprism.models import Factors
from recprism.serving import Ranked, ServedRule, load_rule

LENGTH, DIM, HEADS = 30, 48, 2
BATCH, RIVALS, PATIENCE = 64, 200, 3
EARLY, NEXT = 0.8, 0.2  # of all interactions by time; of a session, what is to be foretold
TRADE_OFF = 0.2
JUDGED = 1000  # early sessions that say when training ends


@dataclass(frozen=True, eq=False)
class Sessions:
    """so_far, then: per session the items in order of time, before and after the moment of the request."""

    so_far: list[NDArray[np.int64]]
    then: list[NDArray[np.int64]]


def sessions_by_time(data: Dataset) -> tuple[Sessions, Sessions, NDArray[np.int64]]:
    """Sessions of those who were there early (only what they did early), of those who came later, and the catalogue.

    The catalogue holds what was taken early; items are numbered in it.
    """
    found = data.interactions
    assert found.timestamp is not None
    cut = np.quantile(found.timestamp, EARLY)
    order = np.lexsort((found.item, found.timestamp, found.user))
    user, item, early = found.user[order], found.item[order], found.timestamp[order] < cut
    catalogue = np.unique(item[early])
    number = np.full(found.n_items, -1, np.int64)
    number[catalogue] = np.arange(len(catalogue))
    known = number[item] >= 0
    newcomer = ~np.isin(user, user[early])
    return (
        _sessions(user[early], number[item[early]]),
        _sessions(user[newcomer & known], number[item[newcomer & known]]),
        catalogue,
    )


def _sessions(user: NDArray[np.int64], item: NDArray[np.int64]) -> Sessions:
    whole = np.split(item, np.flatnonzero(np.diff(user)) + 1)
    cuts = [(session, len(session) - max(1, round(NEXT * len(session)))) for session in whole if len(session) >= 3]
    return Sessions([session[:at] for session, at in cuts], [session[at:] for session, at in cuts])


class SessionModel(nn.Module):
    """Attention over the last items; the vector after the last one is the session's, and items share one table."""

    def __init__(self, n_items: int) -> None:
        super().__init__()
        self.items = nn.Embedding(n_items + 1, DIM)  # the last is padding
        self.places = nn.Embedding(LENGTH, DIM)
        nn.init.normal_(self.items.weight, std=0.05)
        nn.init.normal_(self.places.weight, std=0.05)
        self.block = nn.TransformerEncoderLayer(DIM, HEADS, 2 * DIM, dropout=0.3, batch_first=True, norm_first=True)
        self.last = nn.LayerNorm(DIM)

    def forward(self, rows: Tensor) -> Tensor:
        """(n, length) items to (n, length, d): at each place the vector after that item. Padding comes last."""
        mask = nn.Transformer.generate_square_subsequent_mask(rows.shape[1])
        x = self.items(rows) + self.places(torch.arange(rows.shape[1]))
        return self.last(self.block(x, src_mask=mask, is_causal=True))

    @property
    def n_items(self) -> int:
        return self.items.num_embeddings - 1

    def padded(self, sessions: list[NDArray[np.int64]]) -> tuple[Tensor, Tensor]:
        """(n, length) the last items of each, padded, and (n,) how many there are."""
        rows = torch.full((len(sessions), LENGTH), self.n_items)
        for row, session in zip(rows, sessions, strict=True):
            row[: len(session[-LENGTH:])] = torch.from_numpy(session[-LENGTH:])
        return rows, torch.tensor([min(len(session), LENGTH) for session in sessions])

    def learn(
        self, sessions: list[NDArray[np.int64]], epochs: int, quality: Callable[[], float] | None = None
    ) -> SessionModel:
        """Foretell every next item among some that were drawn; the state with the best ``quality`` is kept."""
        generator = torch.Generator().manual_seed(0)
        rows, _ = self.padded(sessions)
        adam = torch.optim.Adam(self.parameters(), 3e-3)
        best, kept, since = -np.inf, copy.deepcopy(self.state_dict()), 0
        for _ in range(epochs):
            self.train()
            with one_thread():  # batches are small
                for batch in torch.randperm(len(rows), generator=generator).split(BATCH):
                    loss = self._loss(rows[batch], torch.randint(self.n_items, (RIVALS,), generator=generator))
                    adam.zero_grad()
                    loss.backward()
                    adam.step()
            self.eval()
            if quality is None:
                continue
            now, since = quality(), since + 1
            if now > best:
                best, kept, since = now, copy.deepcopy(self.state_dict()), 0
            if since == PATIENCE:
                break
        if quality is not None:
            self.load_state_dict(kept)
        return self.eval()

    def _loss(self, rows: Tensor, rivals: Tensor) -> Tensor:
        """Of the true next item against the rivals, which all places of a batch share."""
        following = rows[:, 1:]
        real = following < self.n_items
        vectors, true = self(rows[:, :-1])[real], following[real]
        own = (vectors * self.items(true)).sum(1, keepdim=True)
        others = (vectors @ self.items(rivals).T).masked_fill(rivals == true[:, None], -torch.inf)
        return nn.functional.cross_entropy(torch.cat([own, others], 1), torch.zeros(len(true), dtype=torch.int64))

    @torch.no_grad()
    def vectors(self, sessions: list[NDArray[np.int64]]) -> NDArray[np.float32]:
        """(n, d): what a request computes."""
        rows, lengths = self.padded(sessions)
        parts = [self(part) for part in rows.split(256)]
        return torch.cat(parts)[torch.arange(len(rows)), lengths - 1].numpy()


def serving(model: SessionModel, sessions: Sessions, categories: Categories) -> Problem:
    """The model about to answer these sessions' requests; what they took so far is not shown again."""
    item = model.items.weight[:-1].detach().numpy()
    shape = (len(sessions.so_far), len(item))
    so_far, then = (_sparse_rows(part, shape) for part in (sessions.so_far, sessions.then))
    factors = Factors.from_arrays(model.vectors(sessions.so_far), item)
    split = Split(so_far, SparseRows.empty(shape), then, factors.user_ids, factors.item_ids)
    return Problem(factors, split, categories, "test")


def _sparse_rows(rows: list[NDArray[np.int64]], shape: tuple[int, int]) -> SparseRows:
    return SparseRows.from_pairs(
        np.repeat(np.arange(len(rows)), [len(row) for row in rows]), np.concatenate(rows), shape
    )


def exported(early: Problem) -> ServedRule:
    """The rule for early sessions, written and read back as a server reads it; `recprism export` is for runs."""
    with tempfile.TemporaryDirectory() as folder:
        collect_rule(early, rule_at(early, "subtopic_coverage", TRADE_OFF)).write(Path(folder) / "rule")
        return load_rule(Path(folder) / "rule")


def answer(rule: ServedRule, model: SessionModel, session: NDArray[np.int64]) -> Ranked:
    """One request: the model scores the catalogue for the session, and the rule chooses from the best of it."""
    scores = model.items.weight[:-1].detach().numpy() @ model.vectors([session])[0]
    best = np.argsort(-scores, kind="stable")[: rule.file.candidates + len(session)]
    return rule.rerank(best, scores[best], history=session, exclude=session)


def judged(problem: Problem, lists: NDArray[np.int64]) -> dict[str, float]:
    found = problem.judge(lists, ("ndcg@10", "subtopic_coverage@10"))
    return {name: float(np.nanmean(values)) for name, values in found.items()}


def show(found: Ranked, data: Dataset, catalogue: NDArray[np.int64]) -> None:
    """Print the list of one session, and why its new items are there."""
    titles = data.attributes["title" if "title" in data.attributes.columns else "item_id"].gather(catalogue).to_list()
    print(f"A later session gets {len(found.ids)} items, {found.swaps} of them not in the list by score alone:")
    for reason in found.reasons:
        if reason.newcomer:
            print(f"  {titles[reason.item]}: {reason.in_brief(lambda item: str(titles[item]))}")


def compare(data: Dataset, epochs: int) -> dict[str, dict[str, float]]:
    """Method -> NDCG@10 and SC@10 of sessions that came later."""
    torch.manual_seed(0)
    early, late, catalogue = sessions_by_time(data)
    categories = data.categories.take_items(catalogue)
    model = SessionModel(len(catalogue))

    def quality() -> float:
        some = Sessions(early.so_far[:JUDGED], early.then[:JUDGED])
        problem = serving(model, some, categories)
        return judged(problem, problem.base_lists)["ndcg@10"]

    model.learn(early.so_far, epochs, quality)
    before, now = serving(model, early, categories), serving(model, late, categories)
    print(f"{len(early.so_far):,} early sessions, {len(late.so_far):,} later ones, {len(catalogue):,} items")
    rule = exported(before)
    answers = [answer(rule, model, session) for session in late.so_far]
    show(answers[0], data, catalogue)
    return {
        "base": judged(now, now.base_lists),
        "rule at request time": judged(now, np.array([it.ids for it in answers])),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default="ml-latest-small")
    options.add_argument("--data-root")
    options.add_argument("--epochs", type=int, default=30)
    words = options.parse_args()
    rows = compare(load(words.data, data_root=words.data_root), words.epochs)
    for name, row in rows.items():
        change = ", ".join(
            f"{metric} {value:.4f} ({value / rows['base'][metric] - 1:+.1%})" for metric, value in row.items()
        )
        print(f"{name}: {change}")


if __name__ == "__main__":
    main()
