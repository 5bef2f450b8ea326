"""What a board holds its rows to, whoever wrote them: `bench submit` asks before it writes, `bench leaderboard build`
and `check` ask again of what came by a pull request.

A row follows from its bundle and its submission.toml (E172). Keys (E113), rounds (E123, E124), corrections and copies
(E165, E181) are questions to the whole board. A tier above T1 is the maintainers' word, in a file of theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leaderboard import about as about_file
from leaderboard import rounds, signature
from leaderboard.about import FILE, About
from leaderboard.bundle import MANIFEST
from leaderboard.errors import RecordError
from leaderboard.records import RunRecord, read_model
from leaderboard.rounds import Round
from leaderboard.row import COPY, Row, build_row, resemblance
from leaderboard.schema import EvalLine, Manifest, RolloutLine
from leaderboard.signature import Signature
from leaderboard.store import SUMMARY, Promotion, Store
from leaderboard.verify import Report, sealed, verify
from leaderboard.verify.figures import differences
from leaderboard.verify.scores import never_began


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A board's own files, which no submission may touch."""

    keys: frozenset[str] = frozenset()
    rounds: Mapping[str, Round] = field(default_factory=dict)
    promotions: Mapping[str, Promotion] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store) -> Rules:
        """Reads them. Raises RecordError for one that can't be read."""
        found = [rounds.read(str(path)) for path in store.round_files()]
        return cls(keys=store.keys(), rounds={r.name: r for r in found}, promotions=store.promotions())


def shown(row: Row, rules: Rules) -> Row:
    """A row with the tier that the maintainers gave it. Raises RecordError: theirs is of another bundle."""
    promotion = rules.promotions.get(row.slug)
    if promotion is None:
        return row
    if promotion.merkle_root != row.merkle_root:
        raise RecordError("E172", f"tiers.toml: {row.slug}", "its Merkle root is not the bundle's")
    return row.model_copy(update={"tier": promotion.tier})


def check(store: Store, slug: str, *, data: str | None = None) -> Report:
    """Verifies one submission of a board in full: its bundle, its row to the last field, and its place on the board.

    Raises RecordError: what no finding of its bundle tells.
    """
    rows = store.rows()
    row = next((row for row in rows if row.slug == slug), None)
    if row is None:
        raise RecordError("E103", slug, "no such submission", f"the board has {len(rows)}")
    report = verify(store.bundle(row), data=data)
    if report.ok:
        rules = Rules.of(store)
        among(rows, only=slug)
        held(store, row, rules, rows, report)
    return report


def held(
    store: Store, row: Row, rules: Rules, rows: Iterable[Row] = (), report: Report | None = None
) -> RunRecord:
    """The record of a row, if the row follows from it, its signature and its round hold.

    Args:
      rows: all rows of the board: attempts of a round are counted over them.
      report: of a full verification; without one the seal is checked, and warnings are the row's own.
    Raises:
      RecordError: E111 for a bundle that was changed, E172 for a row that doesn't follow, E113, E123, E124.
    """
    folder = store.bundle(row)
    seal = sealed(folder)
    if not seal.ok:
        first = seal.errors[0]
        place = f"{row.slug}/bundle/{first.place}"
        raise RecordError(first.code, place, first.reason, "submit the run again")
    record = store.record(row)
    manifest = read_model(Manifest, (folder / MANIFEST).read_bytes(), MANIFEST)
    about = about_file.make(about_file.read(folder.parent / FILE))
    signed = store.signature(row) if row.signed_by is not None or rules.keys else None
    if signed is not None:
        signature.check(signed, manifest.merkle_root, rules.keys)
    rebuilt = build_row(
        record,
        report or Report(findings=(), counts={}, checked=_counted(record)),
        slug=row.slug,
        merkle_root=manifest.merkle_root,
        about=about.model_dump(),
        round_name=row.round,
        signed_by=None if signed is None else signed.key,
    )
    # without a report nothing tells the warnings; rows older than parity have none
    left_out = set() if report else {"warnings"}
    left_out |= set() if row.parity else {"parity"}
    ours, theirs = (r.model_dump(mode="json", exclude=left_out) for r in (rebuilt, row))
    found = next(differences(ours, theirs), None)
    if found is not None:
        what, own, told = found
        reason = f"{what} is {told!r}, its bundle gives {own!r}"
        raise RecordError("E172", f"{row.slug}/{SUMMARY}", reason, "submit the run again")
    if row.round is not None:
        _of_round(row, about, record, rules, rows)
    return record


def among(rows: Iterable[Row], *, only: str | None = None) -> None:
    """Returns if no row is a copy of another's or corrects one of others.

    Args:
      only: the slug of the row that is asked about; None: all of them.
    Raises:
      RecordError: E165 or E181, with the row that is at fault.
    """
    by_slug = {row.slug: row for row in rows}
    for row in by_slug.values():
        if only in (None, row.slug):
            corrects(row, by_slug)
    holders: dict[str, list[str]] = defaultdict(list)
    for row in by_slug.values():
        for print_ in row.sketch:
            holders[print_].append(row.slug)
    pairs = {(a, b) for slugs in holders.values() if len(slugs) > 1 for a in slugs for b in slugs if a < b}
    for a, b in sorted(pairs):
        one, other = by_slug[a], by_slug[b]
        if only in (None, a, b) and copied(one, other, by_slug):
            later, earlier = sorted((one, other), key=lambda row: row.created_utc, reverse=True)
            raise RecordError(
                "E165",
                later.slug,
                f"it holds rollouts of {earlier.slug}",
                "one of them must go, or correct the other",
            )


def copied(one: Row, other: Row, rows: Mapping[str, Row]) -> bool:
    """Whether two rows hold the same rollouts and neither corrects the other, in however many steps."""
    if one.merkle_root != other.merkle_root and resemblance(one.sketch, other.sketch) <= COPY:
        return False
    return _origin(one, rows) != _origin(other, rows)


def corrects(row: Row, rows: Mapping[str, Row]) -> None:
    """Returns if a row supersedes nothing, or an entry of the same signer, or unsigned of the same authors.

    Raises RecordError: E181.
    """
    if row.supersedes is None:
        return
    old = rows.get(row.supersedes)
    if old is None:
        reason = f"supersedes {row.supersedes!r}, which isn't on the board"
        raise RecordError("E181", FILE, reason, "give its slug")
    same = row.signed_by == old.signed_by if old.signed_by is not None else row.authors == old.authors
    if not same:
        by = "signed by another key" if old.signed_by is not None else f"of {', '.join(old.authors)}"
        raise RecordError(
            "E181", FILE, f"supersedes {old.slug}, which is {by}", "correct entries of your own"
        )


def known_key(signed: Signature | None, root: str, rules: Rules) -> None:
    """Returns if the board asks for no signature or has a good one. Raises RecordError: E113."""
    if rules.keys and signed is None:
        raise RecordError("E113", signature.FILE, "this board takes signed submissions", "give --sign KEY")
    if signed is not None:
        signature.check(signed, root, rules.keys)


def _of_round(row: Row, about: About, record: RunRecord, rules: Rules, rows: Iterable[Row]) -> None:
    round_ = rules.rounds.get(str(row.round))
    if round_ is None:
        reason = f"its round {row.round!r} is none of this board's"
        raise RecordError("E123", f"{row.slug}/{SUMMARY}", reason, "rounds/NAME.toml opens one")
    earlier = [
        other
        for other in rows
        if other.slug != row.slug and (other.round, other.authors) == (row.round, row.authors)
    ]
    rounds.check(record.header, about, round_, earlier)


def _origin(row: Row, rows: Mapping[str, Row]) -> str:
    """The first entry of a chain of corrections."""
    seen = {row.slug}
    while row.supersedes in rows and row.supersedes not in seen:
        row = rows[str(row.supersedes)]
        seen.add(row.slug)
    return row.slug


def _counted(record: RunRecord) -> dict[str, int]:
    """What a full verification counts, from the lines."""
    files: dict[str, list[RolloutLine] | list[EvalLine]] = {
        "rollouts": record.rollouts,
        "evals": record.evals,
    }
    counts: dict[str, int] = {}
    for name, lines in files.items():
        errored = sum(line.error is not None for line in lines)
        counts[f"{name}_regraded"] = sum(line.error is None and not never_began(line) for line in lines)
        counts[f"{name}_errored"] = errored
    return counts
