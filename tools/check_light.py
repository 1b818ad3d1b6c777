"""Install the wheel without extras into an empty environment and test it there: python tools/check_light.py

`make test-light` builds the wheel first. The environment is .venv-light; the versions are those of constraints.txt. The
script prints the packages and their megabytes, refuses any that is not expected, adds pytest and hypothesis, and runs
tests/light. It needs nothing but Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-light"
PYTHON = FOLDER / "bin" / "python"
EXPECTED = {"recprism", "numpy", "numba", "llvmlite"}
INSTALLERS = {"pip", "setuptools"}


def run(*words: str | Path) -> int:
    """Run Python in the environment, without the packages that this process sees."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run([PYTHON, *words], check=False, cwd=ROOT, env=kept).returncode


def install(*packages: str | Path) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
    if run("-m", "pip", "install", *quiet, "-c", ROOT / "constraints.txt", *packages):
        raise SystemExit(f"cannot install {' '.join(map(str, packages))}")


def megabytes(package: Distribution) -> float:
    """Size of the files of a package as they were installed."""
    files = [Path(str(package.locate_file(file))) for file in package.files or []]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def main() -> int:
    started = time.monotonic()
    wheels = sorted((ROOT / "dist").glob("recprism-*.whl"), key=lambda file: file.stat().st_mtime)
    if not wheels:
        raise SystemExit("there is no wheel in dist; run `make wheel` first")
    venv.create(FOLDER, clear=True, with_pip=True)
    install(wheels[-1])
    (packages,) = (FOLDER / "lib").glob("python*/site-packages")
    sizes = {it.metadata["Name"]: megabytes(it) for it in distributions(path=[str(packages)])}
    sizes = {name: size for name, size in sorted(sizes.items()) if name not in INSTALLERS}
    for name, size in sizes.items():
        print(f"{name:<12}{size:>7.1f} MB")
    seconds = time.monotonic() - started
    print(f"{len(sizes)} packages, {sum(sizes.values()):.0f} MB; installed in {seconds:.0f} s", flush=True)
    if sizes.keys() != EXPECTED:
        raise SystemExit(f"expected exactly {', '.join(sorted(EXPECTED))}")
    install("pytest", "hypothesis")
    return run("-m", "pytest", "--confcutdir=tests/light", "tests/light")


if __name__ == "__main__":
    sys.exit(main())
