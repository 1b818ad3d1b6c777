"""Team-draft interleaving (Radlinski et al., 2008): two rankers in one list, and which one clicks prefer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from recprism.common.checks import random_generator
from recprism.common.ids import id_series
from recprism.data.frames import interpret_ids
from recprism.data.readers.tables import TableReader
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.runs.jobs.list_files import read_pairs
from recprism.runs.run import Run

TEAMS = ("base", "swapped")
USERS_AT_ONCE = 1 << 14

Items = NDArray[np.int64]
Teams = NDArray[np.int8]


def team_draft(first: ArrayLike, second: ArrayLike, k: int, coins: ArrayLike) -> tuple[Items, Teams]:
    """Interleave two rankers: they alternate, each with its best item that is not yet in the list.

    Args:
        first: (n_users, depth) item numbers of the first ranker, best first, -1 in empty places.
        second: The same for the second ranker.
        k: Length of the lists.
        coins: (n_users, ceil(k / 2)) bool; False lets the first ranker begin that round.

    Returns:
        (n_users, k) items, and the team of each place, 0 or 1. A list ends (-1 in both) when the ranker whose turn it
        is has no item left.

    Raises:
        InputError: If shapes do not match.

    >>> items, teams = team_draft([[1, 2, 3]], [[2, 4, 1]], 3, [[True, False]])
    >>> items.tolist(), teams.tolist()
    ([[2, 1, 3]], [[1, 0, 0]])
    """
    a, b = np.asarray(first, np.int64), np.asarray(second, np.int64)
    heads = np.asarray(coins, bool)
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b):
        raise InputError(f"lists have shapes {a.shape} and {b.shape}; one list of each ranker per user is needed")
    if k < 1 or heads.shape != (len(a), (k + 1) // 2):
        raise InputError(f"coins have shape {heads.shape}; {k} places need ({len(a)}, {(k + 1) // 2})")
    parts = [
        _drafted(a[block], b[block], k, heads[block])
        for block in (slice(at, at + USERS_AT_ONCE) for at in range(0, max(len(a), 1), USERS_AT_ONCE))
    ]
    return np.concatenate([items for items, _ in parts]), np.concatenate([teams for _, teams in parts])


def _drafted(a: Items, b: Items, k: int, heads: NDArray[np.bool_]) -> tuple[Items, Teams]:
    items, teams = np.full((len(a), k), -1, np.int64), np.full((len(a), k), -1, np.int8)
    rows, open_lists = np.arange(len(a)), np.ones(len(a), bool)
    for place in range(k):
        turn = heads[:, place // 2] ^ (place % 2 == 1)  # the other ranker ends the round
        offers = [_best_left(lists, items[:, :place]) for lists in (a, b)]
        pick = np.where(turn, offers[1], offers[0])
        open_lists &= pick >= 0
        items[rows[open_lists], place] = pick[open_lists]
        teams[rows[open_lists], place] = turn[open_lists]
    return items, teams


def _best_left(lists: Items, taken: Items) -> Items:
    """(n,) first item of each list that is not taken; -1 if there is none."""
    if not lists.shape[1]:
        return np.full(len(lists), -1, np.int64)
    left = (lists >= 0) & ~(lists[:, :, None] == taken[:, None, :]).any(2)
    best = left.argmax(1)
    return np.where(left.any(1), lists[np.arange(len(lists)), best], -1)


def interleaved(run: Run, k: int = 10, *, part: Part = "test", live: bool = True, seed: int = 0) -> pl.DataFrame:
    """Interleave the base lists and the swapped lists of a diversified run.

    Args:
        run: A diversified run.
        k: Length of the lists.
        part: The part that judged lists are made for; earlier parts count as seen.
        live: Whether all known interactions count as seen, whatever ``part`` is.
        seed: Seed of the coins.

    Returns:
        A table with user_id, item_id, rank (from 1) and team ("base" or "swapped").

    Raises:
        ConstraintError: If the mixture of the two lists violates a constraint, and the run does not allow it.
    """
    found = run.load_result(part)
    problem = found.context(live=live)
    base, swapped = (problem.rank(it, k)[0] for it in (problem.base, found.model))
    coins = random_generator(seed).integers(0, 2, (len(base), (k + 1) // 2), dtype=np.int8)
    items, teams = team_draft(base, swapped, k, coins)
    violations = problem.violations(items)
    if violations is not None and not run.constraints.allow_violations:
        violations.require_none()
    user, place = np.nonzero(items >= 0)
    return pl.DataFrame(
        {
            "user_id": id_series(problem.base.user_ids[user]),
            "item_id": id_series(problem.base.item_ids[items[user, place]]),
            "rank": (place + 1).astype(np.int32),
            "team": np.asarray(TEAMS, dtype=object)[teams[user, place]],
        },
        schema_overrides={"team": pl.String},
    )


# -- clicks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preference:
    """Which team clicks prefer. Each user has one vote, for the team with more of the user's clicks.

    Attributes:
        votes: Team -> users who prefer it.
        credit: Team -> clicks.
        ties: Users with as many clicks for both.
        share: Share of the votes for the swapped lists; None without votes.
        low: Lower end of its exact 95 % interval.
        high: Upper end of that interval.
        p_value: Two-sided sign test of equal preference.
        ignored: Clicks on items that no list shows.
    """

    votes: Mapping[str, int]
    credit: Mapping[str, int]
    ties: int
    share: float | None
    low: float | None
    high: float | None
    p_value: float
    ignored: int

    def sentence(self) -> str:
        """Describe the preference."""
        decided = sum(self.votes.values())
        if self.share is None:
            return f"No user preferred either team ({self.ties:,} ties): the clicks say nothing."
        ends = f"95 % interval {self.low:.0%} to {self.high:.0%}"
        said = f"{self.share:.1%} of {decided:,} users with a preference chose the swapped lists ({ends}"
        clear = "clear" if self.p_value < 0.05 else "not clear"
        return f"{said}, p = {self.p_value:.2g}); the preference is {clear}."

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sentence": self.sentence()}


def preference(lists: pl.DataFrame, clicks: pl.DataFrame) -> Preference:
    """Compute the preference from clicks on interleaved lists.

    Args:
        lists: A table that ``interleaved`` made.
        clicks: A table with user_id and item_id; repeated clicks on the same item count once.
    """
    from scipy.stats import binomtest

    once = clicks.select("user_id", "item_id").unique()
    credited = once.join(lists.select("user_id", "item_id", "team"), on=["user_id", "item_id"], how="inner")
    of_team = {team: credited.filter(pl.col("team") == team) for team in TEAMS}
    counted = credited.group_by("user_id").agg((pl.col("team") == TEAMS[1]).sum().alias("new"), pl.len().alias("all"))
    lead = (2 * counted["new"].cast(pl.Int64) - counted["all"].cast(pl.Int64)).to_numpy()
    votes = {TEAMS[0]: int((lead < 0).sum()), TEAMS[1]: int((lead > 0).sum())}
    decided = sum(votes.values())
    credit, ties = {team: len(rows) for team, rows in of_team.items()}, int((lead == 0).sum())
    ignored = len(once) - len(credited)
    if not decided:
        return Preference(votes, credit, ties, None, None, None, 1.0, ignored)
    test = binomtest(votes[TEAMS[1]], decided)
    ends = test.proportion_ci(0.95)
    share, low, high = votes[TEAMS[1]] / decided, float(ends.low), float(ends.high)
    return Preference(votes, credit, ties, share, low, high, float(test.pvalue), ignored)


def read_interleaved(path: str | Path, reader: TableReader) -> pl.DataFrame:
    """Read user_id, item_id (as text) and team from a file with the table of ``interleaved``.

    Raises:
        InputError: If a team is unknown, or a user has an item more than once.
    """
    frame = reader.read(path, required=("user_id", "item_id", "team"))
    unknown = frame.filter(~frame["team"].cast(pl.String).is_in(TEAMS))
    if not unknown.is_empty():
        raise InputError(
            f"{path}: team {unknown['team'][0]!r} is none of {', '.join(TEAMS)}; keep the column as it was"
        )
    ids = {name: interpret_ids(frame, name, str(path)).cast(pl.String) for name in ("user_id", "item_id")}
    lists = pl.DataFrame({**ids, "team": frame["team"].cast(pl.String)})
    twice = lists.filter(lists.select("user_id", "item_id").is_duplicated())
    if not twice.is_empty():
        raise InputError(f"{path}: user {twice['user_id'][0]!r} has item {twice['item_id'][0]!r} more than once")
    return lists


def read_clicks(path: str | Path, reader: TableReader) -> pl.DataFrame:
    """Read user_id and item_id as text, like :func:`read_interleaved`."""
    return read_pairs(path, reader).cast(pl.String)
