"""Render the content as one HTML file with all scripts, styles and charts; it loads nothing."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from typing import Any

from recprism.report import figures, figures_explained, words
from recprism.report.charts import Figure
from recprism.report.content import Content

SCRIPTS = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def render(content: Content) -> str:
    """Render the page; a browser needs no other file and no network.

    Args:
        content: What the page says.

    Returns:
        The HTML text.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("recprism.report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inline_json"] = lambda value: Markup(inline_json(value))
    environment.filters["signed"] = words.signed_percent
    environment.filters["told"] = lambda changes: Markup(spoken(words.told(changes, content.sizes)))
    environment.filters["spoken"] = lambda text: Markup(spoken(text))
    scripts = "\n".join(f"<script>{_static(name)}</script>" for name in SCRIPTS)
    return environment.get_template("report.html.j2").render(
        page=content,
        drawn=_drawn(content),
        now=figures.now_table(content.changes),
        shown=figures.exposure_table(content.exposure),
        verdict=words.verdict_of(content.rule),
        accuracy_is_judged=any(row.name == content.cost and row.before is not None for row in content.changes),
        scripts=Markup(scripts),
        style=Markup(_template("report.css")),
        behaviour=Markup(_template("report.js")),
    )


def _drawn(content: Content) -> dict[str, Any]:
    """Return name -> figure; None if there is nothing to draw."""
    explained = content.explained
    found: dict[str, Figure | list[Figure] | None] = {
        "front": figures.front(content),
        "changes": figures.changes(content) if content.diversified else None,
        "payers": figures.payers(content),
    }
    if explained is not None:
        found |= {
            "controls": figures_explained.controls(explained),
            "features": figures_explained.features(explained),
            "erasure": figures_explained.erasure(explained),
            "heat": figures_explained.heat(explained),
        }
    if content.rule is not None:
        found["categories"] = figures_explained.categories(content.rule)
    return {"categories": None, "controls": None, "features": None, "erasure": [], "heat": None, **found}


def inline_json(value: Any) -> str:
    r"""Return JSON that is safe inside a script element: nothing in it can end the element.

    >>> inline_json({"title": "</script>"})
    '{"title": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def spoken(text: str) -> str:
    r"""Return a sentence as HTML: commands between backticks become code, hyphens before numbers minus signs.

    Arrows become one letter, and no line breaks before a percent sign.

    >>> spoken("9.6 -> 12.8, lost -3.4 %: `recprism audit <run>`")
    '9.6 → 12.8, lost −3.4\xa0%: <code>recprism audit &lt;run&gt;</code>'
    """
    signed = re.sub(r"(?<![\w`-])-(?=\d)", "−", html.escape(text, quote=False))
    whole = re.sub(r"(?<=\d) %", "\u00a0%", signed).replace("-&gt;", "→")
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", whole)


def _static(name: str) -> str:
    return files("recprism.report").joinpath("static", name).read_text(encoding="utf-8")


def _template(name: str) -> str:
    return files("recprism.report").joinpath("templates", name).read_text(encoding="utf-8")
