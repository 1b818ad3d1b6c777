"""Run `make demo` offline on odd machines: python tools/check_demo.py

It clones the checkout to a path with spaces and non-ASCII letters and installs it there with the Makefile. Packages
come from the environment that runs this script. Then it runs `make demo` without network: with the usual home, with a
missing and a read-only one, as an ordinary user, and as a user who may not write to the checkout. The last one must say
in one sentence what it needs; in all others the demo must work. Cases that this machine cannot try are named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOT_USER, ORDINARY_USER = 0, 65534
IS_ROOT = os.geteuid() == ROOT_USER


@dataclass(frozen=True)
class Case:
    """One odd machine; ``refused`` is what standard error must contain, None where the demo must work."""

    name: str
    home: str
    user: int | None = None
    refused: str | None = None


def copied(folder: Path) -> Path:
    """The checkout as git knows it, and an environment in it that sees the packages of this one."""
    target = folder / "döner kebab" / "x y"
    target.parent.mkdir(parents=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    subprocess.run([sys.executable, "-m", "venv", target / ".venv"], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = target / ".venv" / "lib" / version / "site-packages"
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    subprocess.run(["make", "--silent", ".venv/.core"], check=True, cwd=target)
    return target


def offline() -> list[str]:
    """Words in front of a command that take its network away; none where this user may not."""
    words = ["unshare", "--net", "--map-root-user"] if not IS_ROOT else ["unshare", "--net"]
    if shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
        return words
    print("no `unshare --net` here: the demo runs with the network it has")
    return []


def run(case: Case, checkout: Path, prefix: list[str]) -> str | None:
    """None, or what went wrong."""
    shutil.rmtree(checkout / "runs", ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "OMP_NUM_THREADS")}
    done = subprocess.run(
        [*prefix, *(become(case.user) if case.user else []), "make", "--silent", "demo"],
        cwd=checkout,
        env={**kept, "HOME": case.home},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    if case.refused is not None:
        fine = done.returncode != 0 and case.refused in said and "Traceback" not in said
    else:
        fine = done.returncode == 0 and (checkout / "runs" / "demo" / "report.html").exists()
    return None if fine else said[-2000:]


def main() -> int:
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        home = folder / "home"
        home.mkdir(mode=0o555)
        checkout, prefix = copied(folder), offline()
        cases = [Case("usual home", os.environ.get("HOME", "/")), Case("missing home", "/nonexistent")]
        if ordinary_user_can_run(checkout):
            cases += [
                Case("checkout of another user", "/nonexistent", ORDINARY_USER, refused="permission denied"),
                Case("ordinary user, missing home", "/nonexistent", ORDINARY_USER),
                Case("ordinary user, read-only home", str(home), ORDINARY_USER),
            ]
        elif not IS_ROOT:
            cases.append(Case("read-only home", str(home)))
        for case in cases:
            if case.user and case.refused is None:
                subprocess.run(["chown", "-R", str(case.user), checkout], check=True)
            failed |= report(case, checkout, prefix)
    return int(failed)


def ordinary_user_can_run(checkout: Path) -> bool:
    """Only root can become another user, who must be allowed to read Python and its packages."""
    if not IS_ROOT:
        print("not root: the demo runs as this user only")
        return False
    # Through a shell: the program that setpriv itself starts is still found with the rights of root.
    command = [*become(ORDINARY_USER), "sh", "-c", ".venv/bin/python -c 'import torch'"]
    if subprocess.run(command, cwd=checkout, capture_output=True, check=False).returncode:
        print(f"an ordinary user may not read the packages of {sys.prefix}: the demo runs as root only")
        return False
    return True


def become(user: int) -> list[str]:
    """Words in front of a command that run it as a user with fewer rights."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def report(case: Case, checkout: Path, prefix: list[str]) -> bool:
    started = time.monotonic()
    problem = run(case, checkout, prefix)
    print(f"make demo, {case.name}: {problem or 'as it should be'} ({time.monotonic() - started:.0f} s)", flush=True)
    return problem is not None


if __name__ == "__main__":
    sys.exit(main())
