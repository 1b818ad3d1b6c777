"""Coverage-guided fuzzing of the readers with atheris: what reaches new code is kept and mutated further.

python tools/faults/coverage_guided.py --reader csv -atheris_runs=20000

Needs the package atheris (Linux, CPython 3.11 or 3.12), which is in no extra: the random mutations of fuzz.py run in
the tests, this runs by hand. An answer or one sentence is good; anything else ends the run with the input.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

MODULES = (
    "recprism.data",
    "recprism.cmb.text.feature_files",
    "recprism.cmb.text.reviews",
    "recprism.models.adapters.arrays",
    "recprism.runs.jobs.list_files",
    "recprism.runs.config",
    "recprism.forms.rule_file",
    "recprism.forms.vectors",
    "recprism.runs.run",
)


def instrumented() -> Any:
    """atheris, with every reader imported under its eyes."""
    import atheris

    sys.path.insert(0, str(Path(__file__).parent))
    with atheris.instrument_imports(include=["recprism"]):
        for name in MODULES:
            importlib.import_module(name)
    return atheris


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--reader", required=True, help="a name of fuzz.readers; any other lists them")
    given, rest = options.parse_known_args()
    atheris, fuzz = instrumented(), importlib.import_module("fuzz")
    refusal = importlib.import_module("recprism.errors").RecprismError
    folder = Path(tempfile.mkdtemp(prefix="recprism-atheris-"))
    known = {reader.name: reader for reader in fuzz.readers(fuzz.valid_run(folder / "made"))}
    if given.reader not in known:
        sys.exit(f"readers are {', '.join(known)}")
    reader, place, corpus = known[given.reader], folder / "read", folder / "corpus"
    for path in (place, corpus):
        path.mkdir()
    (corpus / "valid").write_bytes(reader.files[reader.harmed])
    for name, content in reader.files.items():
        (place / name).write_bytes(content)

    def one(content: bytes) -> None:
        (place / reader.harmed).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                reader.read(place)
            except refusal as refused:
                assert "\n" not in str(refused).strip(), refused

    limits = ("-timeout=2", "-rss_limit_mb=2048", "-max_len=65536", "-print_final_stats=1")
    atheris.Setup([sys.argv[0], *limits, *rest, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
