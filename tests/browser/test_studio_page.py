"""The studio in a real browser with the real command: every input, and runs in every state."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recprism.runs.config import RunConfig
from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path

LONG = (
    180_000  # milliseconds that something may take on a busy machine, code to be compiled for the first time included
)


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
def studio(browser: Any, shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    names = ("changed", "plain", "unlabelled", "empty", "broken")
    server, link = start(*(str(shelf / name) for name in names))
    yield link
    end(server)


@pytest.fixture
def page(browser: Any, studio: str) -> Iterator[Any]:
    yield from opened(browser, studio)


def opened(
    browser: Any, link: str, width: int = 1200, scheme: str = "light", but_for: str | None = None
) -> Iterator[Any]:
    """A page without console messages except the given ones; violations of the policy are console messages."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(LONG)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(link)
    yield page
    page.close()
    assert [words for words in complaints if but_for is None or but_for not in words] == []


def choose(page: Any, run: str) -> None:
    page.select_option("#run", run)
    says(page.locator("#budget-section")).to_be_visible()
    says(page.locator("#after .entry")).to_have_count(10)


def says(what: Any) -> Any:
    """Wait until an expectation holds; without eval in the page, which its policy forbids."""
    from playwright.sync_api import expect

    expect.set_options(timeout=LONG)
    return expect(what)


def ranks(page: Any, where: str) -> list[str]:
    return page.locator(f"#{where} .entry .title").all_inner_texts()


def drag(page: Any, slider: str, value: float) -> None:
    page.locator(f"#{slider}").fill(str(value))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1400])
def test_it_fits_without_errors(browser: Any, studio: str, width: int, scheme: str) -> None:
    for page in opened(browser, studio, width, scheme):
        choose(page, "changed")
        page.wait_for_selector("#front svg")
        page.locator("#features button").first.click()
        page.wait_for_selector("#turned-list .entry")
        page.locator("#explained summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out at the side"


def test_the_budget_moves_lists_figures_and_the_front(page: Any, shelf: Path) -> None:
    choose(page, "plain")
    path = stored_path(Run.open(shelf / "plain"), "subtopic_coverage")
    drag(page, "budget", 0)
    page.uncheck("#certified")
    drag(page, "budget", 10)
    reached = path.reach(0.1, certified=False)
    says(page.locator("#stops tr.here td").first).to_have_text(str(reached))
    gained = f"+{100 * (path.change('subtopic_coverage@10', reached) or 0):.1f} %"
    assert gained in page.inner_text("#sentence")
    assert "not certified" in page.inner_text("#sentence")
    page.wait_for_selector("#after .entry.new")
    assert ranks(page, "before") != ranks(page, "after")
    says(page.locator("#pays")).to_contain_text("Who pays")
    says(page.locator("#payers tbody tr")).to_have_count(7)
    page.check("#certified")
    drag(page, "budget", 10)
    says(page.locator("#stops tr.here td").first).to_have_text(str(path.reach(0.1)))
    drag(page, "budget", 0)
    says(page.locator("#stops tr.here td").first).to_have_text(str(path.reach(0.0)))


def test_a_user_is_found_by_id_and_an_item_by_title(page: Any) -> None:
    choose(page, "plain")
    page.fill("#search", "12")
    page.get_by_role("button", name="user 12", exact=True).click()
    says(page.locator("#people-title")).to_contain_text("User 12,")
    page.fill("#search", "toy story")
    page.get_by_role("button", name=re.compile("^Toy Story")).first.click()
    says(page.locator("#found")).to_contain_text("lists now")
    page.fill("#search", "no such thing at all")
    says(page.locator("#found")).to_contain_text("no title holds it")
    page.fill("#search", "")
    page.click("#anyone")
    says(page.locator("#people-title")).not_to_contain_text("User 12,")


def test_another_goal_is_made_while_one_waits(page: Any) -> None:
    choose(page, "plain")
    page.uncheck("#certified")
    drag(page, "budget", 10)
    page.select_option("#goal", "ilad_subtopics")
    says(page.locator("#sentence")).to_contain_text("distance within lists")


def test_a_factor_is_scaled(page: Any) -> None:
    choose(page, "changed")
    page.locator("#features button").first.click()
    cell = "#turned tbody tr:first-child td:nth-child({})"
    page.wait_for_selector(cell.format(4))
    assert page.inner_text(cell.format(4)) == page.inner_text(cell.format(3)), "unchanged"
    drag(page, "scale", 0)
    says(page.locator(cell.format(4))).not_to_have_text(page.inner_text(cell.format(3)))
    assert page.locator("#feature-high li").count() == 5
    assert "No controls have been run" in page.inner_text("#factors-verdict")


def test_two_runs_are_compared(page: Any) -> None:
    choose(page, "changed")
    page.select_option("#other", "plain")
    says(page.locator("#theirs-title")).to_have_text("plain serves user 1")
    assert "plain serves the trained model's own lists" in page.inner_text("#compare-note")
    assert ranks(page, "theirs") == ranks(page, "before")
    assert ranks(page, "mine") != ranks(page, "before")


def test_nothing_of_a_run_appears_under_the_name_of_another(page: Any) -> None:
    """Answers are delayed, so that the test can examine the page meanwhile."""
    choose(page, "changed")
    says(page.locator("#theirs-title")).to_have_text("plain serves user 1")
    page.route("**/api/runs/**", lambda _route: None)
    page.select_option("#run", "plain")
    for where in ("before", "after", "mine", "theirs", "turned-list", "features"):
        assert page.locator(f"#{where} > *").count() == 0


def find(page: Any, user: int) -> None:
    page.fill("#search", str(user))
    page.get_by_role("button", name=f"user {user}", exact=True).click()
    says(page.locator("#people-title")).to_contain_text(f"User {user},")


def test_a_comparison_is_replaced_as_a_whole(page: Any) -> None:
    choose(page, "changed")
    title = page.locator("#theirs-title")
    says(title).to_have_text("plain serves user 1")
    held: dict[str, list[Any]] = {}

    def hold(route: Any) -> None:
        held.setdefault(route.request.url.partition("user=")[2], []).append(route)

    page.route("**/served?*", hold)
    find(page, 12)
    find(page, 13)
    says(title).to_have_text("plain serves user 1")
    for user in ("12", "13"):
        assert page.locator("#theirs .entry").count() == 10, "old lists stay until all new ones have arrived"
        for route in held[user]:
            with page.expect_response("**/served?*"):
                route.continue_()
        assert user == "13" or title.inner_text() == "plain serves user 1", "user 12 was left before the answers came"
    says(title).to_have_text("plain serves user 13")


def test_a_late_refusal_is_not_shown(browser: Any, studio: str) -> None:
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    for page in opened(browser, studio, but_for="status of 422"):
        choose(page, "changed")
        says(page.locator("#theirs-title")).to_have_text("plain serves user 1")
        page.route("**/api/runs/unlabelled?*", hold)
        page.select_option("#other", "unlabelled")
        page.select_option("#other", "plain")
        says(page.locator("#theirs-title")).to_have_text("plain serves user 1")
        with page.expect_response("**/api/runs/unlabelled?*"):
            held[0].fulfill(status=422, json={"detail": "unlabelled is damaged"})
        page.wait_for_timeout(200)
        assert "damaged" not in page.inner_text("#compare-note")
        assert page.locator("#theirs .entry").count() == 10


def test_a_goal_that_is_chosen_early_opens_the_whole_page(page: Any) -> None:
    choose(page, "plain")
    page.uncheck("#certified")  # few users: a small budget certifies nothing
    page.select_option("#goal", "ilad_subtopics")
    says(page.locator("#sentence")).to_contain_text("distance within lists")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/paths/subtopic_coverage?*", hold)
    page.select_option("#run", "plain")
    says(page.locator("#budget-section")).to_be_visible()
    page.select_option("#goal", "ilad_subtopics")
    says(page.locator("#sentence")).to_contain_text("distance within lists")
    for route in held:
        route.continue_()
    says(page.locator("#after .entry")).to_have_count(10)
    says(page.locator("#compare-section")).to_be_visible()
    says(page.locator("#factors-section")).to_be_visible()


def test_vectors_lists_and_the_report_are_downloads(page: Any) -> None:
    choose(page, "changed")
    for link, name in (
        ("get-lists", "lists-subtopic_coverage-"),
        ("get-vectors", "vectors-subtopic_coverage-"),
        ("get-report", "report.html"),
    ):
        with page.expect_download() as started:
            page.click(f"#{link}")
        assert started.value.suggested_filename.startswith(name)
        assert Path(started.value.path()).stat().st_size > 0


def test_a_run_without_labels_moves_by_stops(page: Any) -> None:
    choose(page, "unlabelled")
    says(page.locator("#front")).to_contain_text("the accuracy that each stop costs is not known")
    assert not page.is_visible("#certified")
    drag(page, "budget", 4)
    says(page.locator("#budget-value")).to_have_text("stop 4 of 32")
    assert "not known" in page.inner_text("#sentence")


def test_an_empty_and_a_broken_run_say_so_and_leave_the_others_alone(page: Any) -> None:
    page.select_option("#run", "empty")
    says(page.locator("#notice")).to_contain_text("no trained model yet")
    assert not page.is_visible("#budget-section")
    page.select_option("#run", "broken")
    says(page.locator("#notice")).to_contain_text("not factors written by recprism")
    assert not page.is_visible("#budget-section")
    choose(page, "plain")
    assert not page.is_visible("#notice")


def test_the_link_restores_the_page(browser: Any, page: Any) -> None:
    choose(page, "plain")
    page.fill("#search", "12")
    page.get_by_role("button", name="user 12", exact=True).click()
    drag(page, "budget", 7.5)
    says(page).to_have_url(re.compile("budget=7.5.*user=12"))
    for other in opened(browser, page.url):
        says(other.locator("#people-title")).to_contain_text("User 12,")
        assert other.inner_text("#budget-value") == "7.5 %"


def test_the_interface_page_lists_every_request(browser: Any, studio: str) -> None:
    for page in opened(browser, studio + "api"):
        page.wait_for_selector("section code")
        assert "GET /api/runs/{run}/lists" in page.locator("h2 code").all_inner_texts()


def test_the_keyboard_alone_moves_the_budget(page: Any) -> None:
    choose(page, "plain")
    page.focus("#budget")
    before = page.inner_text("#budget-value")
    page.keyboard.press("ArrowRight")
    says(page.locator("#budget-value")).not_to_have_text(before)


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
    """Titles, subtopics, the name of the run, typed text and the link."""
    folder = tmp_path / HOSTILE[1]
    shutil.copytree(shelf / "plain", folder)
    run = Run.open(folder)
    vectors = run.factors()
    corpus = pl.Series([HOSTILE[at % len(HOSTILE)] for at in range(len(run.items()))])
    run.items().with_columns(title=corpus).write_parquet(run.path / "items.parquet")
    topics = pl.read_parquet(run.path / "subtopics.parquet")
    topics.with_columns(subtopic=pl.col("subtopic") + HOSTILE[0]).write_parquet(run.path / "subtopics.parquet")
    run.save_factors(vectors)  # they record the files of the data
    server, link = start(str(run.path))
    try:
        for page in opened(browser, link + "#run=<img src=x onerror=window.owned=1>&user=1&budget=<script>"):
            page.wait_for_selector("#after .entry")
            for words in HOSTILE:
                page.fill("#search", words[:40])
                says(page.locator("#found > *")).to_have_count(1)
            assert page.locator("#main img, #main iframe, #main script, #main svg svg").count() == 0
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
            for name in ("items.parquet", "subtopics.parquet", "split.parquet", "factors.json", "factors.safetensors"):
                shutil.copy(shelf / "plain" / name, tmp_path / name)
                (tmp_path / name).rename(run.path / name)
            run.event("trained", model="bprmf")
            says(page.locator("#notice")).to_contain_text("Getting ready")
            says(page.locator("#after .entry")).to_have_count(10)
            assert "Nothing is being trained" in page.inner_text("#standing")
            says(page.locator("#event-count")).to_have_text("4")
    finally:
        end(server)
