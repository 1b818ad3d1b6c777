"""The studio in a real browser with the real command: every input, and runs in every state."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recprism.data import load_files
from recprism.forms.rule_file import RuleFile
from recprism.models import BPRMF
from recprism.operate.served_log import SERVED_LOG_COLUMNS
from recprism.operate.traffic.certificate import LiveAnswer
from recprism.operate.traffic.governor import Governor
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.result.catalogue import titles_of
from recprism.runs.config import RunConfig
from recprism.runs.jobs.dials import steer_run
from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path

LONG = (
    180_000  # milliseconds that something may take on a busy machine, code to be compiled for the first time included
)

SHOWN = {"everyone": "#front svg", "item": "#find-item", "results": "#results tbody tr", "user": "#after .entry"}
CUT = "(it) => getComputedStyle(it).whiteSpace"


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """The server from the command line, and the link it prints."""
    command = [sys.executable, "-m", "recprism", "studio", *arguments, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    for line in server.stderr:
        found = re.search(r"http://\S+", line)
        if found:
            return server, found.group()
    raise AssertionError("the server ended without a link")


def end(server: subprocess.Popen[str]) -> None:
    server.terminate()
    server.wait(timeout=60)
    assert server.stderr is not None
    server.stderr.close()


@pytest.fixture(scope="module")
def studio(browser: Any, shelf: Path) -> Iterator[str]:
    names = ("rule", "plain", "changed", "unlabelled", "empty", "broken")
    server, link = start(*(str(shelf / name) for name in names))
    yield link
    end(server)


@pytest.fixture
def page(browser: Any, studio: str) -> Iterator[Any]:
    yield from opened(browser, studio)


def opened(
    browser: Any, link: str, width: int = 1280, scheme: str = "light", but_for: str | None = None
) -> Iterator[Any]:
    """A page without console messages except the given ones; violations of the policy are console messages."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(LONG)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.text} {message.location.get('url', '')}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(link)
    yield page
    page.close()
    assert [words for words in complaints if but_for is None or but_for not in words] == []


def choose(page: Any, run: str) -> None:
    page.select_option("#run", run)
    says(page.locator("#after .entry")).to_have_count(10)


def turn_to(page: Any, view: str) -> None:
    page.click(f"#{view}-tab")
    says(page.locator(f"#{view}-view")).to_be_visible()


def says(what: Any) -> Any:
    """Wait until an expectation holds; without eval in the page, which its policy forbids."""
    from playwright.sync_api import expect

    expect.set_options(timeout=LONG)
    return expect(what)


def ranks(page: Any, where: str) -> list[str]:
    return page.locator(f"#{where} .entry .title").all_inner_texts()


def drag(page: Any, slider: str, value: float) -> None:
    page.locator(slider).fill(str(value))


def find_user(page: Any, user: int) -> None:
    page.fill("#find-user input", str(user))
    page.press("#find-user input", "Enter")
    says(page.locator("#user-title")).to_have_text(f"User {user}")
    says(page.locator("#after .entry")).to_have_count(10)


# -- one user ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_every_view_fits_without_errors(browser: Any, studio: str, width: int, scheme: str) -> None:
    for page in opened(browser, studio, width, scheme):
        choose(page, "rule")
        page.locator("#after .entry.new button.title").first.click()
        says(page.locator("#after .more .actions")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out at the side"
        for view, ready in (("everyone", "#front svg"), ("item", "#find-item"), ("results", "#pareto svg")):
            turn_to(page, view)
            page.wait_for_selector(ready)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view


def test_enter_opens_a_user_with_reasons_on_hover_and_click(page: Any, shelf: Path) -> None:
    choose(page, "rule")
    find_user(page, 12)
    reason = page.locator("#after .entry.new .reason").first
    says(reason).to_be_visible()
    page.mouse.move(0, 0)
    assert reason.evaluate(CUT) == "nowrap"
    page.locator("#after .entry.new").first.hover()
    assert reason.evaluate(CUT) == "normal"
    assert page.inner_text("#command") == f"recprism why {shelf / 'rule'} --user 12"
    title = page.locator("#after .entry.new button.title").first
    title.click()
    more = page.locator("#after .entry.new .more").first
    says(more).to_contain_text("by relevance alone")
    assert "--item" in page.inner_text("#command")
    assert title.get_attribute("aria-expanded") == "true"
    title.click()
    says(more).to_have_count(0)
    page.click("#anyone")
    says(page.locator("#user-title")).not_to_have_text("User 12")
    page.fill("#find-user input", "no such user")
    page.press("#find-user input", "Enter")
    says(page.locator("#find-user .hits")).to_contain_text("Nothing matches")


def test_sliders_rank_again_and_reset(page: Any, shelf: Path) -> None:
    choose(page, "rule")
    find_user(page, 12)
    before = ranks(page, "after")
    drag(page, '#dials input[data-dial="Horror"]', 0.5)
    says(page.locator("#dials-effect")).to_contain_text("Re-ranked in")
    run = Run.open(shelf / "rule")
    titles = titles_of(run.items())
    wanted = [titles[it] for it in steer_run(run, 12, {"Horror": 0.5}).after]
    assert ranks(page, "after") == wanted != before
    assert "--set Horror=+0.5" in page.inner_text("#command")
    page.click("#reset")
    assert ranks(page, "after") == before
    assert page.input_value('#dials input[data-dial="Horror"]') == "0"


def test_the_list_of_a_user_is_live_or_judged(page: Any, shelf: Path) -> None:
    run = Run.open(shelf / "rule")
    titles = dict(zip(run.items()["item_id"].to_list(), titles_of(run.items()), strict=True))
    found = run.load_result()
    differs = (found.ranked()[0] != found.ranked(live=False)[0]).any(1)
    user = int(run.factors().user_ids[differs][0])
    live, judged = ([titles[it] for it in found.lists(user, live=it)["item_id"]] for it in (True, False))
    choose(page, "rule")
    find_user(page, user)
    assert ranks(page, "after") == live
    says(page.locator("#after-title")).to_contain_text("(live list)")
    assert "--judged" not in page.inner_text("#command")
    page.get_by_role("checkbox", name="Judged lists").check()
    says(page.locator("#after-title")).to_contain_text("(judged list)")
    assert ranks(page, "after") == judged
    assert page.inner_text("#command") == f"recprism why {run.path} --user {user} --judged"
    page.locator("#after button.title").first.click()
    says(page.locator("#after .more .actions")).to_be_visible()
    assert "--judged" in page.inner_text("#command")
    page.get_by_role("checkbox", name="Judged lists").uncheck()
    says(page.locator("#after-title")).to_contain_text("(live list)")
    assert ranks(page, "after") == live


def test_why_not_and_what_if(page: Any) -> None:
    choose(page, "rule")
    find_user(page, 12)
    page.fill("#find-why-not input", "titanic")
    says(page.locator("#find-why-not .hits button").first).to_be_visible()
    page.press("#find-why-not input", "Enter")
    says(page.locator("#why-not-answer")).to_contain_text("Titanic")
    says(page.locator("#find-why-not input")).to_be_focused()
    assert "--why-not" in page.inner_text("#command") or "--item" in page.inner_text("#command")
    page.locator("#history .forget").first.click()
    says(page.locator("#what-if-sentence")).to_contain_text("left out of the history")
    says(page.locator("#what-if-list .entry")).to_have_count(10)
    page.click("#back")
    assert not page.is_visible("#what-if")
    says(page.locator("#history .forget").first).to_be_focused()
    page.locator("#after .entry.stayed button.title").first.click()
    page.get_by_role("button", name="What if it is removed?").click()
    says(page.locator("#what-if-sentence")).to_contain_text("Without")
    assert "--what-if without=" in page.inner_text("#command")


def test_an_answer_about_one_user_never_appears_under_another(page: Any) -> None:
    """The first answer waits until the page has turned to another user."""
    choose(page, "rule")
    find_user(page, 12)
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/why?*", hold)
    page.fill("#find-why-not input", "titanic")
    says(page.locator("#find-why-not .hits button").first).to_be_visible()
    page.press("#find-why-not input", "Enter")
    find_user(page, 15)
    command = page.inner_text("#command")
    with page.expect_response("**/why?*"):
        held[0].continue_()
    page.fill("#find-why-not input", "toy story")
    says(page.locator("#find-why-not .hits")).to_contain_text("Toy Story")  # a later answer has been shown
    assert page.inner_text("#why-not-answer") == ""
    assert page.inner_text("#command") == command


def test_two_questions_are_both_answered(page: Any) -> None:
    choose(page, "rule")
    find_user(page, 12)
    titles = page.locator("#after button.title")
    for place in (0, 1):
        titles.nth(place).click()
    says(page.locator("#after .more .actions")).to_have_count(2)


def test_the_keyboard_alone_is_enough(page: Any) -> None:
    choose(page, "rule")

    def tab_to(what: str) -> None:
        for _ in range(400):
            page.keyboard.press("Tab")
            if page.evaluate("(what) => document.activeElement.matches(what)", what):
                return
        raise AssertionError(f"{what} is not reached")

    page.focus("#run")
    tab_to("#find-user input")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    says(page.locator("#user-title")).to_have_text("User 12")
    tab_to("#after button.title")
    page.keyboard.press("Enter")
    says(page.locator("#after .more .actions")).to_be_visible()
    tab_to("#dials input")
    page.keyboard.press("ArrowRight")
    says(page.locator("#dials-effect")).to_contain_text("Re-ranked in")
    tab_to("#reset")
    page.keyboard.press("Enter")
    says(page.locator("#dials-effect")).to_have_text("")
    tab_to("#history .forget")
    page.keyboard.press("Enter")
    says(page.locator("#what-if-sentence")).to_contain_text("left out of the history")
    says(page.locator("#back")).to_be_focused()


UNNAMED = """() => [...document.querySelectorAll("button, input, select, progress, [role=img], a")]
  .filter((it) => !(it.getAttribute("aria-label") || it.textContent.trim() || it.labels?.length || it.closest("label")))
  .map((it) => it.outerHTML)"""


def test_everything_that_can_be_used_has_a_name(page: Any) -> None:
    choose(page, "rule")
    for view in ("everyone", "item", "results", "user"):
        turn_to(page, view)
        page.wait_for_selector(SHOWN[view])
        assert page.evaluate(UNNAMED) == []


# -- all users --------------------------------------------------------------------------------------------------------


def test_the_budget_moves_figures_and_the_front(page: Any, shelf: Path) -> None:
    choose(page, "plain")
    turn_to(page, "everyone")
    path = stored_path(Run.open(shelf / "plain"), "subtopic_coverage")
    page.uncheck("#certified")
    drag(page, "#budget", 10)
    reached = path.reach(0.1, certified=False)
    page.locator("#everyone-view summary").first.click()
    says(page.locator("#stops tr.here td").first).to_have_text(str(reached))
    gained = f"+{100 * (path.change('subtopic_coverage@10', reached) or 0):.1f} %"
    lost = f"{100 * (path.change('ndcg@10', reached) or 0):.1f} %".replace("-", "\u2212")
    for where in ("#verdict", "#metrics"):
        assert gained in page.inner_text(where), "headline and table have the same figures"
        assert lost in page.inner_text(where)
    assert "Not certified" in page.inner_text("#verdict")
    says(page.locator("#pays")).to_contain_text("Who pays")
    says(page.locator("#command-bar")).to_be_hidden()
    page.check("#certified")
    says(page.locator("#stops tr.here td").first).to_have_text(str(path.reach(0.1)))
    if path.reach(0.1):
        says(page.locator("#command")).to_contain_text("--budget 10% --name subtopic_coverage-10")


def test_the_slider_works_at_once_for_a_result(page: Any) -> None:
    """Trying a budget leaves the result; the screen says which lists it shows."""
    choose(page, "rule")
    says(page.locator("#which")).to_contain_text("Live lists (all known history) of this run's result")
    says(page.locator("#which")).to_contain_text("An export of this result serves these lists")
    turn_to(page, "everyone")
    says(page.locator("#of-result")).to_be_checked()
    says(page.locator("#which")).to_contain_text("Judged lists (history before the held-out part) of this run's result")
    page.uncheck("#certified")
    drag(page, "#budget", 10)
    says(page.locator("#of-result")).not_to_be_checked()
    says(page.locator("#which")).to_contain_text("of stop")
    turn_to(page, "user")
    says(page.locator("#which")).to_contain_text("A preview: they are not served")
    for view in ("item", "results"):
        turn_to(page, view)
        says(page.locator("#which")).to_contain_text("Judged lists")


def test_a_mix_has_weights_progress_and_a_way_back(page: Any) -> None:
    choose(page, "plain")
    turn_to(page, "everyone")
    says(page.locator("#metrics tbody tr").first).to_be_visible()
    figures = page.inner_text("#metrics")
    page.locator("#goals input[value=ilad]").check()
    page.get_by_label("Weight of distance within lists (vectors)").fill("3")
    page.keyboard.press("Tab")
    says(page.locator("#old-note")).to_contain_text("Old figures, of categories covered")
    assert page.inner_text("#metrics") == figures
    says(page.locator("#progress")).to_be_visible()
    says(page.locator("#working")).to_contain_text("In this studio: computing the path towards")
    says(page.locator("#working")).to_contain_text("left")
    while page.is_visible("#work"):  # the mix with equal weights may be computed, too
        page.locator("#cancel").click()
        page.wait_for_timeout(500)
    says(page.locator("#old-note")).to_be_hidden()
    says(page.locator("#working")).to_have_text("")
    says(page.locator("#goals input[value=ilad]")).not_to_be_checked()
    assert page.inner_text("#metrics") == figures


def test_a_group_leads_to_its_users(page: Any) -> None:
    choose(page, "rule")
    turn_to(page, "everyone")
    page.get_by_role("button", name="light", exact=True).click()
    says(page.locator("#segment-users h3")).to_contain_text("light:")
    first = page.locator("#segment-users button").first
    user = first.inner_text().split()[1]
    first.click()
    says(page.locator("#user-title")).to_have_text(f"User {user}")


def test_a_mix_of_goals_is_made_while_one_waits(page: Any) -> None:
    choose(page, "plain")
    turn_to(page, "everyone")
    page.uncheck("#certified")
    drag(page, "#budget", 10)
    page.get_by_role("checkbox", name="distance within lists", exact=True).check()
    says(page.locator("#verdict")).to_contain_text("Working on this mix")
    says(page.locator("#verdict")).to_contain_text("accuracy.")
    turn_to(page, "user")
    says(page.locator("#after-title")).to_contain_text("towards subtopic_coverage+ilad_subtopics")


def test_a_new_path_opens_at_its_own_stop(page: Any, shelf: Path) -> None:
    choose(page, "plain")
    turn_to(page, "everyone")
    page.uncheck("#certified")
    drag(page, "#budget", 10)
    page.get_by_role("checkbox", name="share of the catalogue shown", exact=True).check()
    says(page.locator("#verdict")).to_contain_text("Working on this mix")
    turn_to(page, "user")
    goal = "subtopic_coverage+catalogue_coverage"
    says(page.locator("#after-title")).to_contain_text(f"towards {goal}")
    reached = stored_path(Run.open(shelf / "plain"), goal).reach(0.1, certified=False)
    assert f"stop {reached} of" in page.inner_text("#after-title")
    says(page.locator("#after .entry")).to_have_count(10)


def test_a_refused_mix_leaves_the_view_as_it_is(browser: Any, studio: str) -> None:
    for page in opened(browser, studio, but_for="status of 404"):
        choose(page, "plain")
        turn_to(page, "everyone")
        says(page.locator("#metrics tbody tr").first).to_be_visible()
        both = [page.locator(f"#goals input[value={goal}]") for goal in ("ilad", "ilad_subtopics")]
        both[0].evaluate("(it) => { it.checked = true; }")  # both at once, so that no path to the first is started
        both[1].click()
        says(page.locator("#notice")).to_contain_text("two ways to measure one goal")
        says(both[1]).not_to_be_checked()
        assert page.locator("#metrics tbody tr").count() > 0


def test_figures_lists_vectors_and_the_report_are_downloads(page: Any) -> None:
    choose(page, "changed")
    turn_to(page, "everyone")
    page.wait_for_selector("#metrics tr")
    for link, name in (
        ("#get-lists", "lists-"),
        ("#get-vectors", "vectors-"),
        ("#get-report", "report.html"),
        ("[data-csv=metrics]", "metrics.csv"),
    ):
        with page.expect_download() as started:
            page.click(link)
        assert started.value.suggested_filename.startswith(name)
        assert Path(started.value.path()).stat().st_size > 0


# -- items and results ------------------------------------------------------------------------------------------------


def test_an_item_page_says_who_sees_it_and_why(page: Any) -> None:
    choose(page, "rule")
    turn_to(page, "item")
    page.fill("#find-item input", "toy story")
    page.press("#find-item input", "Enter")
    says(page.locator("#item-title")).to_contain_text("Toy Story")
    says(page.locator("#item-facts")).to_contain_text("before")
    says(page.locator("#item-reasons tbody tr").first).to_be_visible()
    page.locator("#item-users button").first.click()
    says(page.locator("#user-view")).to_be_visible()


def test_results_are_sorted_and_compared(page: Any) -> None:
    choose(page, "rule")
    turn_to(page, "results")
    says(page.locator("#results tbody tr")).to_have_count(6)
    heading = page.locator("#results th").first
    assert heading.get_attribute("aria-sort") == "ascending"
    names = page.locator("#results tbody td:first-child").all_inner_texts()
    heading.get_by_role("button").click()
    assert page.locator("#results tbody td:first-child").all_inner_texts() == names[::-1]
    page.select_option("#second", "changed")
    says(page.locator("#comparable")).to_contain_text("Figures can be compared")
    says(page.locator("#theirs-title")).to_contain_text("changed for user")
    assert len(ranks(page, "mine")) == len(ranks(page, "theirs")) == 10
    page.select_option("#second", "unlabelled")
    says(page.locator("#comparable")).to_contain_text("Figures cannot be compared")
    page.get_by_role("button", name="plain", exact=True).click()
    says(page.locator("#user-view")).to_be_visible()
    assert page.input_value("#run") == "plain"


def test_a_reader_sees_everything_and_starts_nothing(browser: Any, shelf: Path) -> None:
    server, link = start(str(shelf / "rule"), "--reader-token", "look")
    try:
        reading = re.sub(r"token=.*", "token=look", link)
        for page in opened(browser, reading):
            says(page.locator("#after .entry")).to_have_count(10)
            assert page.is_visible("#reader")
            turn_to(page, "everyone")
            says(page.get_by_role("checkbox", name="categories covered", exact=True)).to_be_enabled()
            says(page.get_by_role("checkbox", name="distance within lists", exact=True)).to_be_disabled()
            says(page.locator("#metrics tbody tr").first).to_be_visible()
    finally:
        end(server)


# -- runs in every state ----------------------------------------------------------------------------------------------


def test_nothing_of_a_run_appears_under_the_name_of_another(page: Any) -> None:
    """Answers are delayed, so that the test can examine the page meanwhile."""
    choose(page, "rule")
    page.route("**/api/runs/**", lambda _route: None)
    page.select_option("#run", "plain")
    for where in ("before", "after", "history", "dials", "metrics", "item-users"):
        assert page.locator(f"#{where} > *").count() == 0


def test_a_run_without_labels_moves_by_stops(page: Any) -> None:
    choose(page, "unlabelled")
    turn_to(page, "everyone")
    says(page.locator("#front")).to_contain_text("the accuracy that each stop costs is not known")
    assert not page.is_visible("#certified")
    drag(page, "#budget", 4)
    says(page.locator("#budget-value")).to_have_text("stop 4 of 32")
    assert "not known" in page.inner_text("#verdict")


def test_an_empty_and_a_broken_run_say_so_and_leave_the_others_alone(page: Any) -> None:
    page.select_option("#run", "empty")
    says(page.locator("#notice")).to_contain_text("no trained model yet")
    assert not page.is_visible("#user-view")
    page.select_option("#run", "broken")
    says(page.locator("#notice")).to_contain_text("not factors written by recprism")
    assert not page.is_visible("#user-view")
    choose(page, "plain")
    assert not page.is_visible("#notice")


def test_the_link_restores_the_page(browser: Any, page: Any) -> None:
    choose(page, "plain")
    find_user(page, 12)
    turn_to(page, "everyone")
    drag(page, "#budget", 7.5)
    says(page).to_have_url(re.compile("user=12.*budget=7.5"))
    for other in opened(browser, page.url):
        says(other.locator("#budget-value")).to_have_text("7.5 %")
        turn_to(other, "user")
        says(other.locator("#user-title")).to_have_text("User 12")


def test_the_link_restores_result_lists_and_question(browser: Any, page: Any) -> None:
    choose(page, "rule")
    find_user(page, 12)
    page.get_by_role("checkbox", name="Judged lists").check()
    says(page.locator("#after-title")).to_contain_text("(judged list)")
    page.locator("#history .forget").first.click()
    says(page.locator("#what-if-sentence")).to_contain_text("left out of the history")
    shown = {where: page.inner_text(where) for where in ("#what-if-sentence", "#which", "#command", "#after-title")}
    assert ranks(page, "what-if-list")
    for other in opened(browser, page.url):
        says(other.locator("#what-if-list .entry")).to_have_count(10)
        says(other.locator("#command")).to_have_text(shown["#command"])
        assert {where: other.inner_text(where) for where in shown} == shown
        assert ranks(other, "what-if-list") == ranks(page, "what-if-list")
    turn_to(page, "everyone")
    page.uncheck("#certified")
    drag(page, "#budget", 10)
    says(page.locator("#which")).to_contain_text("of stop")
    turn_to(page, "user")
    says(page.locator("#after-title")).to_contain_text("stop")
    for other in opened(browser, page.url):
        says(other.locator("#after-title")).to_have_text(page.inner_text("#after-title"))


def test_the_interface_page_lists_every_request(browser: Any, studio: str) -> None:
    for page in opened(browser, studio + "api"):
        page.wait_for_selector("section code")
        assert "GET /api/runs/{run}/user" in page.locator("h2 code").all_inner_texts()


@pytest.fixture(scope="module")
def bare_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 items without titles and without categories."""
    folder = tmp_path_factory.mktemp("bare")
    rows = [(user, item) for user in range(40) for item in range(user, 10_000, 40)]
    rows += [(user, (7 * user + 13 * step) % 10_000) for user in range(40) for step in range(10)]
    table = pl.DataFrame(sorted(set(rows)), schema=["user_id", "item_id"], orient="row")
    table.write_csv(folder / "taken.csv")
    data = load_files(folder / "taken.csv")
    split = data.split(seed=0)
    run = Run.create(folder / "bare", RunConfig())
    run.save_data(data, split)
    run.save_factors(BPRMF(epochs=1, dim=8).fit(split, seed=0, device="cpu"))
    return run.path


def test_ten_thousand_items_without_titles_and_categories(browser: Any, bare_run: Path) -> None:
    server, link = start(str(bare_run))
    try:
        for page in opened(browser, link):
            says(page.locator("#after .entry")).to_have_count(10)
            says(page.locator("#about-run")).to_contain_text("10,000 items")
            assert "There are no sliders here" in page.inner_text("#dials-note")
            page.fill("#find-why-not input", "99")
            says(page.locator("#find-why-not .hits button").first).to_be_visible()
            turn_to(page, "everyone")
            page.wait_for_selector("#front svg")
            assert page.locator("#goals input[type=checkbox]").count() == 2
            turn_to(page, "results")
            says(page.locator("#results tbody tr")).to_have_count(1)
    finally:
        end(server)


HOSTILE = (
    "<script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    "<svg onload=window.owned=1>",
    "\"><iframe srcdoc='<script>parent.owned=1</script>'>",
    "javascript:window.owned=1",
    "{{constructor.constructor('window.owned=1')()}}",
    "${window.owned=1}",
    "</title><body onload=window.owned=1>",
    "<a href=javascript:window.owned=1>x</a>",
    "\u202eelbisivni\u202c & < > ' \" ` \\ \n",
)


def test_nothing_that_is_data_becomes_markup(browser: Any, shelf: Path, tmp_path: Path) -> None:
    """Titles, categories, the name of the run, typed text and the link."""
    folder = tmp_path / HOSTILE[1]
    shutil.copytree(shelf / "plain", folder)
    run = Run.open(folder)
    vectors = run.factors()
    corpus = pl.Series([HOSTILE[at % len(HOSTILE)] for at in range(len(run.items()))])
    run.items().with_columns(title=corpus).write_parquet(run.path / "items.parquet")
    categories = pl.read_parquet(run.path / "categories.parquet")
    categories.with_columns(category=pl.col("category") + HOSTILE[0]).write_parquet(run.path / "categories.parquet")
    run.save_factors(vectors)  # they record the files of the data
    server, link = start(str(run.path))
    try:
        for page in opened(browser, link + "#run=<img src=x onerror=window.owned=1>&user=1&budget=<script>"):
            page.wait_for_selector("#after .entry")
            for words in HOSTILE:
                page.fill("#find-why-not input", words[:40])
                says(page.locator("#find-why-not .hits > *").first).to_be_visible()
            page.press("#find-why-not input", "Enter")
            for view in ("everyone", "item", "results", "user"):
                turn_to(page, view)
                page.wait_for_selector(SHOWN[view])
            assert page.locator("#main img, #main iframe, #main script").count() == 0
            assert page.evaluate("window.owned") is None
            assert HOSTILE[0] in page.inner_text("#after")
    finally:
        end(server)


def test_a_run_that_is_still_going_is_watched_and_then_opened(browser: Any, shelf: Path, tmp_path: Path) -> None:
    """Nothing is trained at first, epochs arrive, the vectors appear, and the page opens them."""
    run = Run.create(tmp_path / "going", RunConfig())
    server, link = start(str(run.path))
    try:
        for page in opened(browser, link):
            says(page.locator("#notice")).to_contain_text("no trained model yet")
            for epoch in (1, 2, 3):
                run.event("epoch", done=epoch, total=10, loss=0.5, validation=0.1)
                time.sleep(0.3)
            says(page.locator("#standing")).to_contain_text("Training step 3 of 10")
            assert "left" in page.inner_text("#standing")
            for name in ("items.parquet", "categories.parquet", "split.parquet", "factors.json", "factors.safetensors"):
                shutil.copy(shelf / "plain" / name, tmp_path / name)
                (tmp_path / name).rename(run.path / name)
            run.event("trained", model="bprmf")
            says(page.locator("#notice")).to_contain_text("Getting ready")
            says(page.locator("#after .entry")).to_have_count(10)
            assert "Nothing is being trained" in page.inner_text("#standing")
            says(page.locator("#event-count")).to_have_text("5")  # its path asked the labels
    finally:
        end(server)


def served_log(rule: RuleFile, folder: Path) -> tuple[Path, Path]:
    """Write a rule, and a log of two days; on the second, nothing is gained."""
    rule.write(folder / "rule")
    facts = {"segment": None, "price": 0.3, "holdout": False, "fallback": None, "unmet": 0, "milliseconds": 2.0}
    lists = {"rule": list("01234"), "base": ["0", "10", "20", "30"]}
    rows = [
        {
            "time": datetime(2026, 2, 1, tzinfo=UTC) + timedelta(minutes=2 * at),
            "request": str(at),
            "user": str(at),
            "shown": "rule" if at < 720 else "base",
            **facts,
            **lists,
        }
        for at in range(1440)
    ]
    governed(folder / "log")
    pl.DataFrame(rows, schema=dict(SERVED_LOG_COLUMNS)).write_parquet(folder / "log" / "served.parquet")
    return folder / "rule", folder / "log"


def governed(log: Path) -> None:
    """Write the events of a governor that raised the price once."""
    plan = GovernorPlan(prices=(0.0, 0.07, 0.14), share=0.1, budgets={"clicks": "5%"}, outcomes="outcomes.csv")
    kept = LiveAnswer("clicks", 0.05, "certified", 0.204, 0.2, -0.02, -0.061, 0.032, 54_000, 5_400, None, None, None)
    asked = replace(kept, answer="undecided", rule=0.198, loss=0.012, low=-0.05, high=0.071, needed=21_000, days=3)
    rows = [{"price": price, **asdict(it), "sentence": it.sentence()} for price, it in ((0.07, kept), (0.14, asked))]
    governor = Governor(plan, log, "export")
    for what in ("raise", "keep"):
        notes = ["6,000 clusters wait: the log or the outcomes end in their window (days: 1)"]
        governor._note(what, rows, notes, place=1)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_a_served_log_has_a_page_with_alarms_a_chart_and_its_tables(
    browser: Any, small_rule: RuleFile, tmp_path: Path, width: int, scheme: str
) -> None:
    export, log = served_log(small_rule, tmp_path)
    run = Run.create(tmp_path / "waiting", RunConfig())
    server, link = start(str(run.path), "--served", str(log), "--export", str(export))
    try:
        for page in opened(browser, link, width, scheme):
            says(page.locator("#served-tab")).to_be_visible()
            page.locator("#served-tab").focus()
            page.keyboard.press("Enter")
            says(page.locator("#served-verdict")).to_contain_text("FAILS: gain kept")
            assert page.locator("#served-alarms li").all_inner_texts()[0].startswith("FIRES: gain kept: 50%")
            says(page.locator("#governor-verdict")).to_contain_text("The price is 0.07, raised at")
            assert page.locator("#governor-prices tr.here").inner_text().startswith("0.07 (present)")
            assert page.locator("#governor-changes tbody tr").count() == 2
            page.wait_for_selector("#served-chart svg")
            days = [row.split("\t")[:2] for row in page.locator("#served-days tbody tr").all_inner_texts()]
            assert days == [["2026-02-01", "720"], ["2026-02-02", "720"], ["all days", "1,440"]]
            assert page.locator("#served-service tbody tr").count() == 3
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert "view=served" in page.url
            page.reload()
            says(page.locator("#served-view")).to_be_visible()
    finally:
        end(server)
