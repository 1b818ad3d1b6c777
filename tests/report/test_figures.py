"""Charts are pure functions of plain values: a specification, a caption and the same as a table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from recprism.report import figures, figures_explained, words
from recprism.report.charts import Figure
from recprism.report.content import Content, Explained, FrontPoint


def all_figures(content: Content, explained: Explained) -> list[Figure]:
    found = [
        figures.front(content),
        figures.changes(content),
        figures.payers(content),
        figures_explained.controls(explained),
        figures_explained.features(explained),
        *figures_explained.erasure(explained),
        figures_explained.heat(explained),
    ]
    return [figure for figure in found if figure is not None]


def test_every_figure_has_a_specification_a_caption_and_a_table(content: Content, explained: Explained) -> None:
    found = all_figures(content, explained)
    assert len(found) == 8
    assert len({figure.name for figure in found}) == 8
    for figure in found:
        assert figure.caption.endswith(".")
        assert figure.spec["width"] == "container"
        assert figure.spec["description"]
        assert "http" not in json.dumps(figure.spec, allow_nan=False)
        assert figure.table.rows
        assert {len(row) for row in figure.table.rows} == {len(figure.table.columns)}


def test_the_same_content_gives_the_same_figures(content: Content, explained: Explained) -> None:
    first, second = (json.dumps([it.spec for it in all_figures(content, explained)]) for _ in range(2))
    assert first == second


def test_the_front_distinguishes_points_within_the_budget_from_larger_ones(content: Content) -> None:
    figure = figures.front(content)
    assert figure is not None
    drawn = json.dumps(figure.spec)
    for state in ("certified: at most 1 %", "certified for more", "not certified", "this run"):
        assert f'"state": "{state}"' in drawn
    assert figure.table.rows[-1] == ("this run", "+0.5 %", "+10.0 %", "1 %")
    assert [row[-1] for row in figure.table.rows[:3]] == ["1 %", "5 %", ""]


def test_a_change_that_may_be_chance_is_neither_better_nor_worse(content: Content) -> None:
    unsure, sure = replace(content.changes[0], low=-0.01), replace(content.changes[1], high=-0.001)
    figure = figures.changes(replace(content, changes=(unsure, sure)))
    assert figure is not None
    drawn = json.dumps(figure.spec)
    assert '"kind": "not clear"' in drawn
    assert '"kind": "worse"' in drawn
    assert '"kind": "better"' not in drawn


def test_without_labels_there_is_no_front(content: Content) -> None:
    assert figures.front(replace(content, front=())) is None


def test_the_erasure_curve_is_drawn_with_its_controls(explained: Explained) -> None:
    individual, shared = figures_explained.erasure(explained)
    assert individual.table.columns == ("erased", "the largest first", "at random, same sum", "at random, same squares")
    assert individual.table.rows[1] == ("2", "50 %", "50 %", "50 %")
    assert shared.caption == explained.erasure_sentences[1]


def test_without_data_there_is_no_figure(explained: Explained) -> None:
    empty = replace(explained, controls=(), features=(), erased=(), heat=())
    assert figures_explained.controls(empty) is None
    assert figures_explained.features(empty) is None
    assert figures_explained.heat(empty) is None
    assert figures_explained.erasure(empty) == []


def test_the_heat_map_explains_its_cells(explained: Explained) -> None:
    moved = figures_explained.heat(explained)
    stayed = figures_explained.heat(replace(explained, heat_side="user", holds=False))
    assert moved is not None
    assert stayed is not None
    assert "added to the item's vector" in moved.caption
    assert "Only user vectors moved" in stayed.caption
    assert "arithmetic" in stayed.caption


def test_a_change_that_lost_is_drawn_with_its_controls(explained: Explained) -> None:
    controls = tuple(replace(it, share=None) for it in explained.controls)
    figure = figures_explained.controls(replace(explained, gain=-0.02, controls=controls))
    assert figure is not None
    assert figure.table.rows[0] == ("this change", "-0.0200", "", "")
    assert '"gain": -0.02' in json.dumps(figure.spec)


def test_without_a_claim_no_factor_has_a_name(explained: Explained) -> None:
    named, plain = (figures_explained.features(replace(explained, holds=holds)) for holds in (True, False))
    assert named is not None
    assert plain is not None
    assert "Comedy" in json.dumps(named.spec)
    assert "Comedy" not in json.dumps([plain.spec, plain.table.rows])
    assert plain.title != named.title == "What each factor is worth"
    assert plain.caption.endswith(figures_explained.ARITHMETIC)


def test_bars_of_equal_length_are_called_equal(explained: Explained) -> None:
    """Among those shown, and only if the verdict holds."""

    def told(*bars: float, holds: bool = True) -> str:
        features = tuple(replace(explained.features[0], taken_back=back) for back in bars)
        found = replace(explained, features=features, holds=holds)
        return words.alike(found)

    assert told(0.7, 0.75) == " The factors shown are about equally strong."
    for others in ([0.6, 0.2], [0.7], []):
        assert not told(*others)
    assert not told(0.7, 0.75, holds=False)


def test_the_front_shades_the_certified_budget_only(content: Content) -> None:
    assert content.chosen is not None
    certified = json.dumps(figures.front(content).spec)  # type: ignore[union-attr]
    assert '"type": "rect"' in certified
    assert certified_area(figures.front(content).spec)["end"] == 100 * content.budget  # type: ignore[union-attr]
    bare = replace(
        content,
        chosen=replace(content.chosen, budget=None),
        front=tuple(replace(it, certified_for=None) for it in content.front),
    )
    figure = figures.front(bare)
    assert figure is not None
    assert '"type": "rect"' not in json.dumps(figure.spec)
    assert "No point is certified." in figure.caption
    assert '"certified: at most 1 %"' not in json.dumps(figure.spec), "no entry without a point"


def drawn(spec: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    """Return the values of all layers with a mark."""
    layers = [it["data"] for it in spec["layer"] if it["mark"].get("type") == mark]
    return [one for data in layers for one in data.get("values") or spec["datasets"][data["name"]]]


def certified_area(spec: dict[str, Any]) -> dict[str, Any]:
    (area,) = drawn(spec, "rect")
    return area


def test_certified_points_are_inside_the_certified_area_and_others_outside(content: Content) -> None:
    """Labels of another part place the points: a certified one may gain accuracy, or lose more than the budget."""
    front = (
        FrontPoint(0.1, -0.003, 0.05, 0.01),
        FrontPoint(0.2, 0.012, 0.1, 0.01),
        FrontPoint(0.3, 0.009, 0.2, None),
        FrontPoint(0.4, 0.008, 0.3, 0.05),
    )
    assert content.chosen is not None
    figure = figures.front(replace(content, front=front, chosen=replace(content.chosen, loss=0.011, gain=0.12)))
    assert figure is not None
    area = certified_area(figure.spec)
    points = drawn(figure.spec, "point")
    assert len(points) == 5
    for point in points:
        inside = area["loss"] <= point["loss"] <= area["end"] and area["gain"] <= point["gain"] <= area["top"]
        assert inside == (point["state"] in ("certified: at most 1 %", "this run"))
