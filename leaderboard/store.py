"""The board's folder: one folder per submission, never changed once written.

DATA/submissions/<slug>/submission.toml  summary.json  verify.json  [signature.json]  bundle/manifest.json  bundle/…
DATA/keys       public keys that may sign, where a board asks for signatures
DATA/rounds/    a TOML file for each round
DATA/tiers.toml tiers above T1, where maintainers gave them
"""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leaderboard import bundle, canonical, signature
from leaderboard.about import FILE, About
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord, SealedRecord, parse
from leaderboard.row import Row
from leaderboard.signature import Signature
from leaderboard.verify.report import Report

SUMMARY = "summary.json"
KEYS = "keys"
ROUNDS = "rounds"
TIERS_FILE = "tiers.toml"
VERIFY = "verify.json"
MAX_SUMMARY_BYTES = 4 * 2**20


class Promotion(BaseModel):
    """A tier above T1 and what it rests on: the maintainers' word, in tiers.toml under the submission's slug."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    tier: Literal["T0", "T2", "T3"]
    merkle_root: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    evidence: Annotated[str, Field(min_length=1, max_length=400)]


@dataclass(frozen=True, slots=True)
class Store:
    """A board's folder."""

    root: Path

    @property
    def submissions(self) -> Path:
        """Where the submissions are."""
        return self.root / "submissions"

    def rows(self) -> list[Row]:
        """Returns all rows, in order of their slugs.

        Raises:
          RecordError: a summary.json that can't be read.
        """
        if not self.submissions.is_dir():
            return []
        folders = sorted(path for path in self.submissions.iterdir() if not path.name.startswith("."))
        return [self._row(folder / SUMMARY) for folder in folders if folder.is_dir()]

    def find(self, merkle_root: str) -> Row | None:
        """Returns the row with this content, if it was submitted before."""
        return next((row for row in self.rows() if row.merkle_root == merkle_root), None)

    def signature(self, row: Row) -> Signature:
        """Reads what a row is signed with.

        Raises:
          RecordError: E113, there is none, or it is no signature.
        """
        path = self.submissions / row.slug / signature.FILE
        place = f"{row.slug}/{signature.FILE}"
        if not path.is_file() or path.stat().st_size > MAX_SUMMARY_BYTES:
            raise RecordError("E113", place, "missing", "sign the submission")
        try:
            return Signature.model_validate(parse(path.read_bytes(), place))
        except ValidationError as refused:
            raise RecordError("E113", place, "no signature of this schema") from refused

    def bundle(self, row: Row) -> Path:
        """The folder of a row's bundle."""
        return self.submissions / row.slug / "bundle"

    def record(self, row: Row) -> RunRecord:
        """Opens the bundle of a row, whose seal must have been checked."""
        return SealedRecord.open(self.bundle(row))

    def round_files(self) -> list[Path]:
        """The rounds of this board, a file each."""
        return sorted((self.root / ROUNDS).glob("*.toml"))

    def promotions(self) -> dict[str, Promotion]:
        """Tiers that the maintainers gave, by slug. Raises RecordError: E103, tiers.toml can't be read."""
        path = self.root / TIERS_FILE
        if not path.is_file():
            return {}
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
            return {slug: Promotion.model_validate(value) for slug, value in values.items()}
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValidationError) as refused:
            said = str(refused).splitlines()[0][:120]
            hint = "[SLUG] with tier, merkle_root and evidence"
            raise RecordError("E103", TIERS_FILE, f"can't be read: {said}", hint) from refused

    def keys(self) -> frozenset[str]:
        """Public keys that this board knows, a line each in DATA/keys; empty where it registers none."""
        path = self.root / KEYS
        if not path.is_file():
            return frozenset()
        lines = path.read_text(encoding="utf-8").splitlines()
        return frozenset(" ".join(line.split()[:2]) for line in lines if line.strip() and line[0] != "#")

    def add(
        self, run_directory: Path, row: Row, about: About, report: Report, signed: Signature | None = None
    ) -> Path:
        """Copies a sealed run into the store; appears whole or not at all."""
        self.submissions.mkdir(parents=True, exist_ok=True)
        target = self.submissions / row.slug
        if target.exists():
            raise RecordError(
                "E101", str(target), "the slug is taken by other content", "choose another name"
            )
        staging = Path(tempfile.mkdtemp(prefix=".incoming-", dir=self.submissions))
        try:
            for relative in [*bundle.files(run_directory), bundle.MANIFEST]:
                copied = staging / "bundle" / relative
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(run_directory / relative, copied, follow_symlinks=False)
            (staging / FILE).write_text(about.to_toml(), encoding="utf-8")
            summary = canonical.dumps(row.model_dump(mode="json", by_alias=True))
            (staging / SUMMARY).write_text(summary + "\n", encoding="utf-8")
            if signed is not None:
                document = canonical.dumps(signed.model_dump(mode="json", by_alias=True))
                (staging / signature.FILE).write_text(document + "\n", encoding="utf-8")
            (staging / VERIFY).write_text(canonical.dumps(report.to_dict()) + "\n", encoding="utf-8")
            staging.chmod(0o755)
            staging.rename(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return target

    def _row(self, path: Path) -> Row:
        place = f"{path.parent.name}/{path.name}"
        if not path.is_file() or path.stat().st_size > MAX_SUMMARY_BYTES:
            raise RecordError(
                "E103", place, "missing or too large", "remove the folder, or submit the run again"
            )
        try:
            return Row.model_validate(parse(path.read_bytes(), place))
        except ValidationError as refused:
            first = refused.errors(include_url=False, include_input=False)[0]
            raise RecordError("E103", place, f"{first['loc']}: {first['msg']}") from refused
