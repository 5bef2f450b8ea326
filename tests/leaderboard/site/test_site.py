"""The built page holds every submission, nothing of theirs as markup, and asks nothing of a network."""

from __future__ import annotations

import csv
import html.parser
import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from leaderboard import canonical
from leaderboard.errors import RecordError
from leaderboard.metrics.scores import differences
from leaderboard.records import RunRecord
from leaderboard.row import Row
from leaderboard.site import board, build, downloads
from leaderboard.site.html import tag, text
from leaderboard.stats import parity
from leaderboard.submit import submit
from tests.leaderboard import golden

NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'&"


class Tags(html.parser.HTMLParser):
    """Collects start tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(page)
    return parser.found


@pytest.fixture(scope="module")
def site(golden_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("board")
    submit(golden_run, root / "data", about={"name": NASTY, "authors": [NASTY], "description": NASTY})
    submit(golden.build(root / "run2", seeds=(1, 2)), root / "data", about={"name": "=1+1", "authors": ["B"]})
    build(root / "data", root / "site")
    return root / "site"


@pytest.fixture
def row(site: Path) -> Row:
    return Row.model_validate(json.loads((site / "board.json").read_text())[0])


def test_every_submission_has_a_row_and_a_page(site: Path) -> None:
    page = (site / "index.html").read_text()
    links = [a["href"] for name, a in tags(page) if name == "a" and str(a["href"]).startswith("submissions/")]
    assert len(links) == 2
    assert all((site / str(link)).is_file() for link in links)


def test_submitted_markup_is_shown_not_run(site: Path) -> None:
    for path in site.rglob("*.html"):
        found = tags(path.read_text())
        assert not [name for name, _ in found if name in ("img", "iframe", "object", "link", "base", "form")]
        assert len([name for name, _ in found if name == "script"]) == (path.name == "index.html")
        assert not [a for _, attributes in found for a in attributes if a.startswith("on") or a == "style"]


def test_nothing_points_outside(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text()
        for _, attributes in tags(page):
            for key in ("href", "src", "action"):
                assert not re.match(r"\w+:|//", attributes.get(key) or "")


def test_the_policy_allows_only_what_the_page_holds(site: Path) -> None:
    page = (site / "index.html").read_text()
    policy = next(str(a["content"]) for name, a in tags(page) if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2


def test_labels_say_what_is_simulated_and_on_which_hardware(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert "cpu-sim, 1×" in page
    assert page.count(">simulated<") == 2
    assert "T1 re-scored" in page
    assert "don&#x27;t carry over to accelerators" in page


def test_only_an_entry_with_an_interval_is_ranked(site: Path) -> None:
    rows = [Row.model_validate(value) for value in json.loads((site / "board.json").read_text())]
    ranked = board.rank_ranges(rows)
    assert [row.seeds for row in rows if row.slug in ranked] == [2]


def test_overlapping_intervals_share_their_ranks(row: Row) -> None:
    assert row.headline is not None

    def entry(slug: str, low: float, high: float, **changes: object) -> Row:
        head = row.headline.model_copy(update={"low": low, "high": high})  # type: ignore[union-attr]
        return row.model_copy(update={"slug": slug, "headline": head, **changes})

    rows = [
        entry("a", 2.0, 3.0),
        entry("b", 1.5, 2.5),
        entry("c", 1.0, 1.2),
        entry("other-hardware", 9.0, 9.1, device_class="gpu"),
        entry("limited", 9.0, 9.1, limit_applied=True),
    ]
    assert board.rank_ranges(rows) == {"a": (1, 2), "b": (1, 2), "c": (3, 3), "other-hardware": (1, 1)}


def test_csv_cells_are_never_formulas(site: Path) -> None:
    rows = list(csv.DictReader((site / "board.csv").read_text().splitlines()))
    assert "'=1+1" in {row["name"] for row in rows}
    texts = [row[name] for row in rows for name, kind in downloads.COLUMNS.items() if kind == downloads.TEXT]
    assert not [cell for cell in texts if cell.startswith(("=", "+", "-", "@"))]


def test_parquet_and_sqlite_hold_what_csv_holds(site: Path) -> None:
    plain = list(csv.DictReader((site / "board.csv").read_text().splitlines()))
    table = parquet.read_table(site / "board.parquet").to_pylist()
    with closing(sqlite3.connect(f"file:{site / 'board.sqlite'}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        stored = [dict(row) for row in database.execute("SELECT * FROM board ORDER BY rowid")]
    assert table == stored and len(table) == len(plain) == 2
    for row, cells in zip(table, plain, strict=True):
        assert {k: "" if v is None else str(v).removeprefix("=") for k, v in row.items()} == {
            k: v.removeprefix("'=") for k, v in cells.items()
        }


def test_a_row_says_whether_accuracy_held_as_the_comparison_does(site: Path, row: Row) -> None:
    """Rows that lost accuracy are shown and not ranked."""
    assert row.parity is not None and row.headline is not None
    record = RunRecord.open(site.parent / "data" / "submissions" / row.slug / "bundle")
    judged = parity(differences(record.views, row.headline.baseline, row.headline.arm), row.parity.margin)
    assert (row.parity.verdict, row.parity.difference, row.parity.low) == (
        judged.verdict,
        judged.difference,
        judged.low,
    )
    assert f">{row.parity.verdict} " in (site / "index.html").read_text()
    assert (
        f"one-sided 95 % bound {100 * row.parity.low:+.1f}"
        in (site / "submissions" / f"{row.slug}.html").read_text()
    )
    known = row.model_copy(
        update={"headline": row.headline.model_copy(update={"low": 1.4, "high": 1.6}), "tier": "T1"}
    )
    failed = known.model_copy(
        update={"slug": "b", "parity": row.parity.model_copy(update={"verdict": "fail"})}
    )
    assert board.rank_ranges([known, failed]) == {known.slug: (1, 1)}


def test_an_empty_board_builds(tmp_path: Path) -> None:
    page = build(tmp_path / "none", tmp_path / "site").read_text()
    assert "<tbody></tbody>" in page


def test_building_twice_gives_the_same_bytes(site: Path, tmp_path: Path) -> None:
    again = build(site.parent / "data", tmp_path)
    assert again.read_bytes() == (site / "index.html").read_bytes()


def test_a_thousand_rows_render_small_and_soon(row: Row) -> None:
    rows = [row.model_copy(update={"slug": f"run-{i}"}) for i in range(1000)]
    started = time.process_time()
    page = board.render(rows)
    assert time.process_time() - started < 10
    assert page.count("<tr") == 1001


def test_text_that_could_disguise_itself_is_shown_as_a_box() -> None:
    assert text("a\u202eb\x1b[31m") == "a\ufffdb\ufffd[31m"
    assert tag("b", "<", title='"') == '<b title="&quot;">&lt;</b>'


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda row: row["headline"].update(speedup=99.3), "E172 .*headline.speedup is 99.3"),
        (lambda row: row["parity"].update(verdict="pass", low=0.0), "E172 .*parity"),
        (lambda row: row.update(device_class="gpu"), "E172 .*device_class is 'gpu'"),
        (lambda row: row.update(limit_applied=False, latency_simulated=False), "E172 .*latency_simulated"),
        (lambda row: row["arms"]["A1"].update(util_busy=1.0), "E172 .*arms.A1.util_busy"),
    ],
)
def test_a_row_that_no_longer_follows_from_its_bundle_is_not_shown(
    golden_run: Path, tmp_path: Path, edit: Any, said: str
) -> None:
    outcome = submit(golden_run, tmp_path / "data", about={"name": "Mine", "authors": ["Me"]})
    assert outcome.path is not None
    build(tmp_path / "data", tmp_path / "site")
    summary = outcome.path / "summary.json"
    row = json.loads(summary.read_text())
    edit(row)
    summary.write_text(canonical.dumps(row))
    with pytest.raises(RecordError, match=said):
        build(tmp_path / "data", tmp_path / "site")


def test_a_bundle_that_was_changed_after_submission_is_not_shown(golden_run: Path, tmp_path: Path) -> None:
    outcome = submit(golden_run, tmp_path / "data", about={"name": "Mine", "authors": ["Me"]})
    assert outcome.path is not None
    path = outcome.path / "bundle" / "updates.jsonl"
    path.write_text(path.read_text().replace("0.003", "0.004"))
    with pytest.raises(RecordError, match=r"E111 mine-.*updates\.jsonl"):
        build(tmp_path / "data", tmp_path / "site")
