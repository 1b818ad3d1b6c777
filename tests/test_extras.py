"""What is said where a package of an extra is missing; tests/light says it in an installation without extras."""

from __future__ import annotations

import sys

import pytest

import recprism
from recprism.__main__ import main
from recprism.common import extras as _extras
from recprism.common.extras import EXTRAS, extra_of, needing, require
from recprism.errors import MissingDependencyError


@pytest.fixture
def incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra full has a package that is not installed; serve is complete."""
    monkeypatch.setitem(EXTRAS, "full", ("no_such_package", "json"))
    monkeypatch.setattr(_extras, "_found", set())


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("recprism.common.version", None),
        ("recprism.serving.rule", None),
        ("recprism.service.client", None),
        ("recprism.service.app", "serve"),
        ("recprism.service.clients", "serve"),
        ("recprism.operate.export", "full"),
        ("recprism.servings", "full"),
        ("recprism.cli", "full"),
    ],
)
def test_the_extra_of_a_module(module: str, extra: str | None) -> None:
    assert extra_of(module) == extra


@pytest.mark.usefixtures("incomplete")
def test_a_name_that_was_not_loaded_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(recprism), "BPRMF", raising=False)
    with pytest.raises(MissingDependencyError) as said:
        recprism.BPRMF  # noqa: B018
    sentence = "needs no_such_package, which is not installed; run: pip install 'recprism[full]'"
    assert str(said.value) == f"recprism.BPRMF {sentence}"
    with pytest.raises(ImportError, match="no_such_package"):
        from recprism import BPRMF  # noqa: F401
    EXTRAS["full"] = ("json", "no_such_package")  # its first package was installed meanwhile
    assert recprism.BPRMF is not None


def test_what_was_found_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    require("this test", "full")
    monkeypatch.setattr(_extras, "find_spec", lambda _: None)
    require("this test", "full")


def test_a_failed_import_names_the_package() -> None:
    with (
        pytest.raises(MissingDependencyError, match=r"^a part needs no_such, which .*'recprism\[ray\]'$"),
        needing("a part", "ray"),
    ):
        import no_such.inner  # type: ignore[import-not-found]  # noqa: F401
    with (
        pytest.raises(MissingDependencyError, match=r"^a part cannot import its packages \(no symbol\); see recprism"),
        needing("a part", "ray"),
    ):
        raise ImportError("no symbol")


@pytest.mark.usefixtures("incomplete")
@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["train", "--json"], 2, "", "error: recprism train needs no_such_package, which is not installed; run: pip"),
        (["--version"], 0, "recprism ", ""),
        (["--help"], 0, "Usage: recprism COMMAND", ""),
        ([], 2, "Usage: recprism COMMAND", ""),
        (["--verbose", "serve", "--help"], 0, "recprism serve [OPTIONS]", ""),
    ],
)
def test_the_command_line_without_the_extra(
    words: list[str],
    code: int,
    out: str,
    err: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["recprism", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == code
    assert out in printed.out
    assert printed.err.startswith(err)
    assert bool(printed.out) == bool(out)
