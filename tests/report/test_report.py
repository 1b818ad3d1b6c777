"""The page: complete, self-contained, for every kind of run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from recprism.explain.explained import ExplanationInShort
from recprism.report.collect import gather
from recprism.report.content import Content
from recprism.report.html import SCRIPTS, inline_json, render, spoken
from recprism.result.catalogue import titles_of
from recprism.runs.config import RunConfig
from recprism.runs.run import Run

VOID = {"meta", "link", "br", "img", "input", "hr"}
LOADS = {"src", "href", "data", "poster", "srcset", "action"}


@dataclass
class Page(HTMLParser):
    """Checks that elements close in order, and records what tests need."""

    open: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    reasons: int = 0
    text: list[str] = field(default_factory=list)
    specs: dict[str, object] = field(default_factory=dict)
    inside: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if "id" in known:
            self.ids.append(str(known["id"]))
        self.loads += [str(value) for name, value in attrs if name in LOADS]
        self.reasons += known.get("class") == "reason"
        self.inside = str(known.get("id", "")) if known.get("type") == "application/json" else ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing, at {self.getpos()}"
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.specs[self.inside] = json.loads(data)
        elif not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert len(page.ids) == len(set(page.ids)), "ids must be distinct"
    return page


def without_scripts(text: str) -> str:
    return re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_a_page_of_synthetic_content(content: Content) -> None:
    text = render(content)
    page = read(text)
    assert len(text.encode()) < 3_000_000
    charts = [name for name in page.ids if name.startswith("chart-") and not name.endswith("-spec")]
    assert len(charts) == 8
    assert set(page.specs) == {f"{name}-spec" for name in charts}
    assert text.count('<details class="data"') == len(charts), "every chart has its table"
    order = [
        *("headline", "next", "users", "why", "front", "pays", "appendix"),
        *("change", "factors", "erasure", "facts"),
    ]
    assert [name for name in page.ids if name in order] == order
    assert page.reasons == 2, "every new item has its reason next to it"
    assert "Adds War; replaces Old & gone." in page.text
    assert "recprism export runs/made-up" in page.text
    assert "For 1\u00a0%: −3\u00a0%." in page.text


def test_it_loads_nothing_and_needs_no_eval(content: Content) -> None:
    text = render(content)
    assert all(target.startswith("#") for target in read(text).loads)
    rest = without_scripts(text)
    assert not re.search(r"https?:|//[a-z]+\.[a-z]|url\(|@import", rest)
    assert "default-src 'none'" in rest
    assert "unsafe-eval" not in rest
    assert "ast: true" in text


def test_names_from_data_stay_text(content: Content) -> None:
    """Titles are untrusted: none may end a script or start an element."""
    text = render(replace(content, title="<img src=x onerror=alert(1)>"))
    page = read(text)
    assert "<img" not in without_scripts(text)
    assert "<script>alert" not in text
    assert "<script>alert(1)</script>" in "".join(page.text)
    assert "Comedy <b>" in json.dumps(page.specs, ensure_ascii=False)
    assert inline_json("</script>&") == '"\\u003c/script\\u003e\\u0026"'


def test_the_shipped_scripts_can_be_inlined() -> None:
    from importlib.resources import files

    folder = files("recprism.report").joinpath("static")
    for name in SCRIPTS:
        script = folder.joinpath(name).read_text(encoding="utf-8")
        assert "</script" not in script
        assert "sourceMappingURL" not in script
        assert folder.joinpath(f"LICENSE.{name.removesuffix('.min.js')}.txt").read_text(encoding="utf-8")


def test_a_run_that_was_not_diversified_gets_an_audit(trained: Path) -> None:
    content = gather(Run.open(trained))
    page = read(render(content))
    assert not content.diversified
    assert "This run was not diversified. These are the metrics of its current lists:" in " ".join(page.text)
    assert "factors" not in page.ids
    assert "recprism diversify" in content.headline.next_steps[0]
    assert not content.users


@pytest.mark.slow
def test_a_diversified_run_gets_the_whole_page(
    diversified: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    assert call("report", diversified, "--draws", 40, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    text = (diversified / "report.html").read_text(encoding="utf-8")
    page = read(text)
    assert told["bytes"] == len(text.encode()) < 3_000_000
    assert spoken(told["headline"]["statements"][0]["text"]) in text
    assert [user["reason"] for user in told["users"]] == ["typical", "typical", "pays most"]
    for user in told["users"]:
        gone, new = (
            sum(it["state"] == state for it in user[side]) for side, state in (("before", "gone"), ("after", "new"))
        )
        assert gone == new > 0
        assert all(it["reason"] for it in user["after"] if it["state"] == "new")
        assert not user["dials"]
    assert "These are judged lists: history before the test part." in "".join(page.text)
    assert told["explained"]["heat_side"] == "item"
    assert len(told["explained"]["heat"]) == 15 * 8
    assert page.reasons == sum(it["state"] == "new" for user in told["users"] for it in user["after"])


def test_a_page_of_a_rule_has_no_factors(content: Content, rule: ExplanationInShort) -> None:
    text = render(replace(content, explained=None, rule=rule))
    page = read(text)
    charts = [name for name in page.ids if name.startswith("chart-") and not name.endswith("-spec")]
    assert "chart-categories" in charts
    assert text.count('<details class="data"') == len(charts), "every chart has its table"
    assert {"why", "users"} <= set(page.ids)
    assert not {"factors", "erasure", "items"} & set(page.ids)
    assert "War <i>" not in without_scripts(text)
    assert "The stated reasons predict 80\u00a0% of the changes in the lists of 500 users." in page.text
    assert "Control: with shuffled categories, 5.0\u00a0% (p = 0.005)." in " ".join(page.text)
    assert "factor" not in " ".join(page.text).casefold()
    assert "It explains 80\u00a0%." in page.text


@pytest.mark.parametrize("goal", ["subtopic_coverage", pytest.param("gini", marks=pytest.mark.slow)])
def test_a_rule_gets_its_reasons(
    goal: str, by_rule: Callable[[str], Path], capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    path = by_rule(goal)
    assert call("report", path, "--draws", 2, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    page = read((path / "report.html").read_text(encoding="utf-8"))
    assert told["explained"] is None
    found = told["rule"]
    assert spoken(found["sentences"][-1]) in (path / "report.html").read_text(encoding="utf-8")
    assert bool(found["categories"]) == (goal != "gini")
    assert not {"factors", "erasure", "items"} & set(page.ids)
    assert "These are live lists, for all known history." in "".join(page.text)
    assert len(told["users"]) == 3
    for user in told["users"]:
        assert bool(user["dials"]) == (goal != "gini"), "boosts alone make these lists: no weight is needed"
        assert any(it["state"] == "new" for it in user["after"])
        assert all(bool(it["reason"]) == (it["state"] == "new") for it in user["after"])


@pytest.mark.slow
def test_the_page_gives_the_lists_and_reasons_of_the_rule(by_rule: Callable[[str], Path]) -> None:
    run = Run.open(by_rule("subtopic_coverage"))
    content = gather(run, draws=0)
    assert content.rule is not None
    found = run.load_result()
    summary = found.explain(draws=0).rule_summary
    assert summary is not None
    assert list(content.rule.categories) == summary.table()
    titles = dict(zip(run.items()["item_id"].to_list(), titles_of(run.items()), strict=True))
    for user in content.users:
        listed = [titles[it] for it in found.lists(int(user.name))["item_id"].to_list()]
        shown = [f"{it.title} ({it.year})" for it in user.after]
        assert shown == listed, "live lists, as `recprism recommend` shows them"
        reasons = {it.in_brief(titles.__getitem__) for it in found.why(int(user.name))}  # type: ignore[union-attr]
        told = [line for entry in user.after for line in entry.reason]
        assert told
        assert set(told) <= reasons
        dials = found.dials([int(user.name)])
        own = dials.of_user(int(dials.users[0]))
        assert {it.name: it.share for it in user.dials}.items() <= own.items()
        assert user.dials


def test_the_page_names_the_users_of_the_controls(content: Content) -> None:
    text = " ".join(read(render(content)).text)
    assert text.index("Factors matter to it.") < text.index("Controls were judged on 20 users.")


def test_where_factors_do_not_hold_the_page_does_not_name_them(content: Content) -> None:
    assert content.explained is not None
    text = render(replace(content, explained=replace(content.explained, holds=False)))
    told = " ".join(read(text).text)
    assert "Nothing reliable was found about factors, so none is given a meaning here." in told
    assert "Comedy" not in without_scripts(text)
    assert "adds up" not in told
    assert "What each factor is worth" not in told


@pytest.mark.slow
def test_both_sides_equal_titles_no_labels(unlabelled: Path) -> None:
    """Names stay distinct, and missing values are marked as not judged."""
    content = gather(Run.open(unlabelled), part="validation", draws=0)
    json.dumps(content.to_dict(), allow_nan=False)
    found = content.explained
    assert found is not None
    labels = [it.label for it in found.features]
    assert len(set(labels)) == len(labels)
    assert {"(item)", "(user)"} <= {label.split()[-1] for label in labels}
    assert len({cell.item for cell in found.heat}) == 15
    titles = {entry.title for user in content.users for entry in (*user.before, *user.after)}
    assert "None" not in titles
    assert "Twin" in titles

    assert "ndcg@10" not in {row.name for row in content.changes}
    assert content.chosen is None
    assert content.headline.of("cost")[0].figure is None
    assert "not known" in content.headline.of("cost")[0].text
    assert "hold out some interactions" in content.headline.next_steps[0]
    page = " ".join(read(render(content)).text)
    assert "Accuracy could not be judged:" in page
    assert "nan" not in page.split()
    assert [what for _, what in content.facts["What happened"]][:2] == ["first", "second"]
    assert content.facts["What happened"][2:] == [("then", "events.jsonl does not say how it ended")]


def test_the_command_prints_the_verdict_and_the_path(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    assert call("report", trained, "-o", tmp_path / "page.html") == 0
    out, err = capsys.readouterr()
    title, verdict, *_, where = out.splitlines()
    assert title == f"{trained}, on the test part"
    assert verdict.startswith("Nothing is changed yet")
    assert where.startswith(f"{tmp_path / 'page.html'}: ")
    assert err.rstrip().splitlines()[-1] == f"open {tmp_path / 'page.html'} in a browser"
    assert not (trained / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--part", "train"), "test or validation"),
        (("--draws", "19"), "--draws has no effect for a run that was only trained"),
        (("-o", "."), "is a directory"),
    ],
)
def test_bad_arguments_get_one_sentence(
    trained: Path,
    capsys: pytest.CaptureFixture[str],
    call: Callable[..., int],
    words: tuple[str, ...],
    complaint: str,
) -> None:
    assert call("report", trained, *words) == 2
    out, err = capsys.readouterr()
    assert complaint in err
    assert not out
    assert "Traceback" not in err


def test_a_run_without_a_model_gets_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., int]
) -> None:
    Run.create(tmp_path / "empty", RunConfig())
    assert call("report", tmp_path / "empty") == 2
    assert "recprism resume" in capsys.readouterr().err
    assert call("report", tmp_path / "nowhere") == 2
    assert "not a run directory" in capsys.readouterr().err
