"""Draw docs/list.svg, the picture of the README: one user's list with the reason of every item.

python tools/list_image.py

It runs the README's lines of Python on the embedded data, so the items and the reasons are real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import recprism as rp
from recprism.explain.reasons.reason import Reason

TARGET = Path(__file__).parents[1] / "docs" / "list.svg"
USER = 1
SOURCE = "MovieLens (ml-latest-small), BPRMF, within 5 % of NDCG@10; the live list, every place with its reason"
WIDTH, TOP, ROW, NEW_ROW, REASON = 900, 74, 29, 50, 335
STYLE = """
.card{fill:#fff;stroke:#d0d7de}.new{fill:#ecfdf3}.bar{fill:#15803d}
text{font:14px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.head{font-size:17px;font-weight:600}.quiet{font-size:13px;fill:#59636e}
.title{font-weight:600}.added{font-size:13px;fill:#116329}
@media(prefers-color-scheme:dark){
.card{fill:#0d1117;stroke:#3d444d}.new{fill:#12261e}.bar{fill:#3fb950}
text{fill:#f0f6fc}.quiet{fill:#9198a1}.added{fill:#56d364}}
"""


@dataclass(frozen=True)
class UserList:
    """What the picture shows.

    Attributes:
        reasons: One per item of the list, in order.
        base: Ids of the list before, in order.
        titles: Item id -> title.
        categories: Item id -> its categories.
    """

    reasons: Sequence[Reason]
    base: Sequence[int]
    titles: Mapping[int, str]
    categories: Mapping[int, frozenset[str]]

    def covered(self, items: Sequence[int]) -> int:
        """Return how many categories the items have."""
        return len(frozenset().union(*(self.categories[item] for item in items)))


def main() -> None:
    TARGET.write_text(picture(list_of(USER)), encoding="utf-8")


def list_of(user: int) -> UserList:
    """Train, diversify within 5 % of NDCG@10, and return the user's live list with its reasons."""
    data = rp.load("ml-latest-small")
    split = data.split(seed=0)
    model = rp.BPRMF().fit(split, device="cpu")
    problem = rp.Problem(model, split, data.categories)
    found = rp.diversify(problem, goal="subtopic_coverage", budget="5%")
    reasons = found.why(user)
    assert isinstance(reasons, tuple)
    row = split.user_ids.tolist().index(user)
    table = data.attributes.select("item_id", "title", "genres").rows()
    return UserList(
        reasons,
        model.item_ids[found.context().base_lists[row]].tolist(),  # live, as the list with reasons
        {item: title for item, title, _ in table},
        {item: frozenset(genres.split("|")) for item, _, genres in table},
    )


def picture(shown: UserList) -> str:
    """Return the picture as SVG."""
    body, y = [], TOP
    for reason in shown.reasons:
        body += _row(reason, shown, y)
        y += NEW_ROW if reason.newcomer else ROW
    now = [reason.item for reason in shown.reasons]
    before, after = (shown.covered(items) for items in (shown.base, now))
    head = f"User {shown.reasons[0].user}: {before} genres in ten films before, {after} now"
    body[:0] = [_text(20, 34, head, "head"), _text(20, 57, SOURCE, "quiet")]
    return _svg(body, y + 10, f"{head}. Each film of the list with its reason.")


def _row(reason: Reason, shown: UserList, y: float) -> list[str]:
    title = shown.titles[reason.item]
    why = reason.for_users(shown.titles.__getitem__)
    place = _text(44, y + 19, str(reason.place), "quiet", anchor="end")
    if not reason.newcomer:
        return [place, _text(58, y + 19, title), _text(REASON, y + 19, why, "quiet")]
    box = f'x="12" y="{y}" height="{NEW_ROW - 4}"'
    replaced = "" if reason.replaced is None else f"; replaces {shown.titles[reason.replaced.item]}"
    return [
        f'<rect class="new" {box} width="{WIDTH - 24}" rx="4"/><rect class="bar" {box} width="4" rx="2"/>',
        place,
        _text(58, y + 19, title, "title"),
        _text(58, y + 37, "new", "added"),
        _text(REASON, y + 19, why, "added"),
        _text(REASON, y + 37, f"Number {reason.rank} by relevance alone{replaced}", "quiet"),
    ]


def _text(x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def _svg(body: Sequence[str], height: float, title: str) -> str:
    inner = "\n".join(body)
    card = f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n{card}\n{inner}\n</svg>\n"
    )


if __name__ == "__main__":
    main()
