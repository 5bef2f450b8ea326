"""A run that passes is written whole, once; one that doesn't is refused with its reasons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leaderboard.about import make
from leaderboard.errors import RecordError
from leaderboard.store import Store
from leaderboard.submit import slugify, submit
from leaderboard.verify import verify
from tests.leaderboard import golden

ABOUT = {"name": "My run", "authors": ["Ada"]}


def test_a_submission_holds_its_bundle_summary_and_description(golden_run: Path, tmp_path: Path) -> None:
    outcome = submit(golden_run, tmp_path, about=ABOUT)
    assert outcome.status == "written"
    assert outcome.path is not None and outcome.row is not None
    assert outcome.path.parent == tmp_path / "submissions"
    assert sorted(p.name for p in outcome.path.iterdir()) == [
        "bundle",
        "submission.toml",
        "summary.json",
        "verify.json",
    ]
    assert verify(outcome.path / "bundle").ok
    assert Store(tmp_path).rows() == [outcome.row]
    assert json.loads((outcome.path / "verify.json").read_text())["ok"] is True


def test_the_row_is_recomputed_and_marked_re_scored(golden_run: Path, tmp_path: Path) -> None:
    row = submit(golden_run, tmp_path, about=ABOUT).row
    assert row is not None and row.headline is not None
    assert (row.tier, row.latency_simulated, row.device_class) == ("T1", True, "cpu-sim")
    assert (row.headline.arm, row.headline.baseline) == ("A1", "S1")
    assert row.headline.speedup == pytest.approx(0.591 / 0.391)
    assert row.arms["A1"].accuracy["code"].after == 1.0


def test_the_same_content_again_changes_nothing(golden_run: Path, tmp_path: Path) -> None:
    first = submit(golden_run, tmp_path, about=ABOUT)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    again = submit(golden_run, tmp_path, about=ABOUT | {"name": "Another name"})
    assert (again.status, again.path) == ("unchanged", first.path)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_a_dry_run_shows_the_row_and_writes_nothing(golden_run: Path, tmp_path: Path) -> None:
    outcome = submit(golden_run, tmp_path / "data", about=ABOUT, dry_run=True)
    assert outcome.status == "previewed"
    assert outcome.row is not None
    assert not (tmp_path / "data").exists()


def test_a_flipped_reward_is_refused_and_nothing_is_written(run: Path, tmp_path: Path) -> None:
    golden.edit_line(run, "rollouts.jsonl", 0, lambda line: line.update(reward=0.0))
    golden.recompute(run)
    outcome = submit(run, tmp_path / "data", about=ABOUT)
    assert outcome.status == "refused"
    assert outcome.report.codes == ("E161",)
    assert not (tmp_path / "data").exists()


def test_a_board_of_ones_own_asks_for_no_form(golden_run: Path, tmp_path: Path) -> None:
    row = submit(golden_run, tmp_path).row
    assert row is not None
    assert row.name == "Run 000000"


def test_a_submission_toml_beside_the_run_is_read(run: Path, tmp_path: Path) -> None:
    (run / "submission.toml").write_text('name = "From file"\nauthors = ["Ada"]\n', encoding="utf-8")
    golden.recompute(run)
    row = submit(run, tmp_path / "data", about={"authors": ["Grace"]}).row
    assert row is not None
    assert (row.name, row.authors) == ("From file", ["Grace"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": ""}, "at least 1 character"),
        ({"name": "a\u202eb"}, r"U\+202E"),
        ({"name": "a\x1b[31mb"}, r"U\+001B"),
        ({"authors": []}, "at least 1 item"),
        ({"code_url": "javascript:alert(1)"}, "pattern"),
        ({"prize": "all"}, "not permitted"),
    ],
)
def test_a_bad_description_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(RecordError, match=f"E181 submission.toml: .*{reason}"):
        make(ABOUT | change)


def test_a_refused_description_refuses_the_submission(golden_run: Path, tmp_path: Path) -> None:
    outcome = submit(golden_run, tmp_path / "data", about=ABOUT | {"name": "\u200b"})
    assert (outcome.status, outcome.report.codes) == ("refused", ("E181",))


def test_no_run_directory_is_refused_by_name(tmp_path: Path) -> None:
    outcome = submit(tmp_path / "nowhere", tmp_path / "data")
    assert outcome.status == "refused"
    assert "E101" in outcome.report.codes


def test_descriptions_round_trip_through_toml(golden_run: Path, tmp_path: Path) -> None:
    about = ABOUT | {"description": 'He said "hi",\nthen \\ left. é'}
    outcome = submit(golden_run, tmp_path, about=about)
    assert outcome.path is not None
    from leaderboard.about import read

    assert read(outcome.path / "submission.toml")["description"] == about["description"]


@pytest.mark.parametrize(
    ("name", "slug"),
    [("My Run!", "my-run"), ("é漢", "e"), ("///", "run"), ("../../etc", "etc"), ("x" * 99, "x" * 60)],
)
def test_slugs_are_plain(name: str, slug: str) -> None:
    assert slugify(name) == slug
