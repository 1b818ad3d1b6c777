"""Check that all that the tests install has a wheel, on three systems and three Pythons: python tools/check_wheels.py

Run it in an environment with the extra [test]. That environment was filled with ``--only-binary :all:``, so this system
needs no more checking. A wheel that says ``none-any`` fits every system, and its metadata says which Pythons. For all
other packages pip is asked, by exact version, with ``--dry-run --report --only-binary :all: --platform ...
--python-version ...``. Nothing is installed, and of a wheel only its metadata is downloaded (``fast-deps``).

pip evaluates markers for the running interpreter, whatever ``--platform`` says. So this script follows dependencies
itself, with the markers of the other system, and asks pip with ``--no-deps``. What a package needs only on the other
system is asked for as well, but not what that one needs in turn: its metadata is not here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
INSTALL = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--only-binary", ":all:"]
PIP = "pip>=24"  # older ones download whole wheels even for a dry run


def manylinux(machine: str) -> list[str]:
    """pip takes a tag by its name only: glibc 2.28 also runs wheels for every older one."""
    old = ["manylinux2010_x86_64", "manylinux1_x86_64"] if machine == "x86_64" else []
    oldest = 5 if machine == "x86_64" else 17
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(28, oldest - 1, -1)]
    return [*tags, f"manylinux2014_{machine}", *old]


MACOS = [f"macosx_{major}_0_{kind}" for major in (14, 13, 12, 11) for kind in ("arm64", "universal2")]
MACOS += [f"macosx_10_{minor}_universal2" for minor in range(16, 8, -1)]
SYSTEMS: dict[str, tuple[list[str], dict[str, str]]] = {
    "Linux x86-64": (
        manylinux("x86_64"),
        {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    ),
    "Linux ARM64": (
        manylinux("aarch64"),
        {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "aarch64"},
    ),
    "macOS ARM64": (MACOS, {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"}),
}
"""Tags that pip may take, and what markers say there."""


def needed(root: Requirement, environment: dict[str, str]) -> dict[str, str]:
    """Everything below a requirement: name -> ``name==version``, or its requirement where it is not installed."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()

    def follow(wanted: Requirement) -> None:
        name = canonicalize_name(wanted.name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            found[name] = f"{name}{wanted.specifier}"
            return
        found[name] = f"{name}=={Version(package.version).public}"
        for extra in {"", *wanted.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for line in package.requires or []:
                below = Requirement(line)
                if below.marker is None or below.marker.evaluate({**environment, "extra": extra}):
                    follow(below)

    follow(root)
    del found[canonicalize_name(root.name)]  # built from this checkout, by hatchling alone
    return found


def fits_everywhere(name: str, python: str) -> bool:
    """Whether the installed wheel is for every system, and for that Python."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return False
    pythons = SpecifierSet(package.metadata.get("Requires-Python") or "")
    return "-none-any" in (package.read_text("WHEEL") or "") and pythons.contains(f"{python}.9")


def ask_pip(pip: Path, packages: list[str], tags: list[str], python: str) -> tuple[int, str]:
    """How many wheels pip would install, and what it said if it refused."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "packages.txt").write_text("\n".join(packages) + "\n", encoding="utf-8")
        command = [*INSTALL, "--dry-run", "--report", str(folder / "report.json")]
        command += ["--target", str(folder / "target"), "--no-deps", "--use-feature=fast-deps"]
        command += ["--implementation", "cp", "--python-version", python]
        command += [word for tag in tags for word in ("--platform", tag)]
        command += ["-c", str(ROOT / "constraints.txt"), "-r", str(folder / "packages.txt")]
        environment = {**os.environ, "PYTHONPATH": str(pip), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            refused = [line for line in done.stderr.splitlines() if line.startswith("ERROR: No matching")]
            return 0, refused[-1] if refused else done.stderr[-500:]
        planned = json.loads((folder / "report.json").read_text(encoding="utf-8"))["install"]
        return sum(one["download_info"]["url"].endswith(".whl") for one in planned), ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extra", default="test", help="the extra of recprism to check")
    root = Requirement(f"recprism[{parser.parse_args().extra}]")
    started = time.monotonic()
    asked = [(system, python) for system in SYSTEMS for python in PYTHONS]
    with tempfile.TemporaryDirectory() as name:
        pip = Path(name)
        subprocess.run([*INSTALL, "--target", str(pip), PIP], check=True)

        def check(one: tuple[str, str]) -> tuple[int, int, int, str]:
            tags, environment = SYSTEMS[one[0]]
            packages = needed(root, {**environment, "python_version": one[1], "python_full_version": f"{one[1]}.9"})
            own = sorted(wanted for name, wanted in packages.items() if not fits_everywhere(name, one[1]))
            return len(packages), len(own), *ask_pip(pip, own, tags, one[1])

        with ThreadPoolExecutor(max_workers=len(asked)) as pool:
            results = list(pool.map(check, asked))
    print(f"{root}; below what is not installed here, markers are those of the running interpreter")
    print(f"{'system':<14}{'Python':<8}{'packages':>9}{'asked for':>11}  wheels only")
    for (system, python), (packages, own, wheels, problem) in zip(asked, results, strict=True):
        verdict = "yes" if wheels == own else f"no: {problem}"
        print(f"{system:<14}{python:<8}{packages:>9}{own:>11}  {verdict}")
    print(f"asked pip in {time.monotonic() - started:.0f} s")
    return int(any(wheels != own for _, own, wheels, _ in results))


if __name__ == "__main__":
    sys.exit(main())
