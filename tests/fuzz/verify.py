"""Coverage-guided fuzzing of `bench verify`, by atheris (libFuzzer).

    pip install 'atheris>=3'
    python -m tests.fuzz.verify --seconds 600 [--corpus DIR]

Every input changes a small honest record (bytes of a file, a JSON value, an archive), sealed again or not, and verifies
it. A fault is a traceback, a finding without a known code, a verification of over a minute, more than 1 GB of memory,
or anything written outside the record; libFuzzer then leaves the input in ./crash-… and ends with another code than 0.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris  # pyright: ignore[reportMissingImports] not among the packages of development

with atheris.instrument_imports(include=["leaderboard"]):
    from leaderboard import archive, bundle
    from leaderboard.verify import EXPLAIN, verify

from tests.leaderboard import golden
from tests.leaderboard.verify.test_fuzz import NASTY, places

HANG_S, MEMORY_MB = 60, 1024
SEEDS = 64


class Target:
    """Changes a copy of the honest record by an input's bytes, and verifies it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        honest = golden.build(folder / "honest")
        self.honest = {
            path.relative_to(honest).as_posix(): path.read_bytes()
            for path in honest.rglob("*")
            if path.is_file()
        }
        shutil.rmtree(honest)
        self.names = sorted(self.honest)
        self.lines = [name for name in self.names if name.endswith(".jsonl")] + ["run.json"]
        self.executed = self.refused = 0

    def __call__(self, data: bytes) -> None:
        given = atheris.FuzzedDataProvider(data)
        run = self.folder / "run"
        for name, content in self.honest.items():
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(content)
        changes: tuple[Callable[[Any, Path], None], ...] = (self._bytes, self._value, self._value, self._file)
        for _ in range(given.ConsumeIntInRange(1, 3)):
            changes[given.ConsumeIntInRange(0, len(changes) - 1)](given, run)
        if given.ConsumeProbability() < 0.7:
            bundle.seal(run)
        place = run
        if given.ConsumeProbability() < 0.1:
            place = self._archive(given, run)
        self._verify(place)
        shutil.rmtree(run)
        (self.folder / "run.tar.gz").unlink(missing_ok=True)

    def _verify(self, place: Path) -> None:
        before = sorted(self.folder.rglob("*"))
        report = verify(place)
        assert sorted(self.folder.rglob("*")) == before, "verification left or took a file"
        assert report.counts.keys() <= EXPLAIN.keys(), report.counts
        json.dumps(report.to_dict())
        self.executed += 1
        self.refused += not report.ok

    def _bytes(self, given: Any, run: Path) -> None:
        """Puts bytes in the place of others."""
        path = run / self.names[given.ConsumeIntInRange(0, len(self.names) - 1)]
        content = path.read_bytes() if path.is_file() else b""
        at = given.ConsumeIntInRange(0, len(content))
        path.write_bytes(
            content[:at]
            + given.ConsumeBytes(given.ConsumeIntInRange(0, 64))
            + content[at + given.ConsumeIntInRange(0, 64) :]
        )

    def _value(self, given: Any, run: Path) -> None:
        """Replaces, removes or wraps one value of one line."""
        path = run / self.lines[given.ConsumeIntInRange(0, len(self.lines) - 1)]
        lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
        if not lines:
            return
        number = given.ConsumeIntInRange(0, len(lines) - 1)
        try:
            value = json.loads(lines[number])
        except ValueError:
            return
        found = places(value)
        if not found:
            return
        container, key = found[given.ConsumeIntInRange(0, len(found) - 1)]
        what = given.ConsumeIntInRange(0, 5)
        if what == 0:
            del container[key]
        elif what == 1:
            container[key] = [container[key]]
        elif what == 2:
            container[key] = given.ConsumeUnicode(32)
        elif what == 3:
            container[key] = given.ConsumeInt(9)
        elif what == 4:
            container[key] = given.ConsumeFloat()
        else:
            container[key] = NASTY[given.ConsumeIntInRange(0, len(NASTY) - 1)]
        lines[number] = json.dumps(value).encode()
        path.write_bytes(b"".join(line + b"\n" for line in lines))

    def _file(self, given: Any, run: Path) -> None:
        """Takes a file away, empties or doubles it, or puts another in its place."""
        path = run / self.names[given.ConsumeIntInRange(0, len(self.names) - 1)]
        other = self.honest[self.names[given.ConsumeIntInRange(0, len(self.names) - 1)]]
        what = given.ConsumeIntInRange(0, 3)
        if what == 0:
            path.unlink(missing_ok=True)
        else:
            content = path.read_bytes() if path.is_file() else b""
            path.write_bytes((b"", content * 2, other)[what - 1])

    def _archive(self, given: Any, run: Path) -> Path:
        if not (run / bundle.MANIFEST).is_file():
            bundle.seal(run)
        packed = archive.pack(run, self.folder / "run.tar.gz")
        content = packed.read_bytes()
        at = given.ConsumeIntInRange(0, len(content))
        packed.write_bytes(
            content[:at] + given.ConsumeBytes(16) + content[at + given.ConsumeIntInRange(0, 16) :]
        )
        return packed


def _begin(corpus: Path, seed: int) -> None:
    """Inputs long enough to decide everything; from nothing, libFuzzer would grow them byte by byte."""
    corpus.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    for number in range(SEEDS):
        (corpus / f"seed-{seed}-{number}").write_bytes(rng.randbytes(256))


def main() -> None:
    """Fuzzes for so many seconds; ends with 0 if nothing was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", help="A folder where inputs that reach new code are kept.")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        target = Target(Path(name) / "work")
        corpus = Path(given.corpus) if given.corpus else Path(name) / "corpus"
        _begin(corpus, given.seed)
        flags = [f"-max_total_time={given.seconds}", f"-timeout={HANG_S}", f"-rss_limit_mb={MEMORY_MB}"]
        flags += [f"-seed={given.seed}", "-max_len=4096", "-len_control=0", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *flags, str(corpus)], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
