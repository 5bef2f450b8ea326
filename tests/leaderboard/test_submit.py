"""A run that passes is written whole, once; one that doesn't is refused with its reasons."""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from leaderboard import rounds
from leaderboard.about import make
from leaderboard.errors import RecordError
from leaderboard.rounds import Round
from leaderboard.store import Store
from leaderboard.submit import Terms, patch, slugify, submit
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


def test_a_copy_under_another_name_is_refused(run: Path, golden_run: Path, tmp_path: Path) -> None:
    first = submit(golden_run, tmp_path / "data", about=ABOUT)
    golden.edit_header(run, lambda h: h.update(run_id="01JD0000000000000000000001", created_utc="2026-02-02"))
    golden.recompute(run)
    copied = submit(run, tmp_path / "data", about={"name": "Mine alone", "authors": ["Eve"]})
    assert (copied.status, copied.report.codes) == ("refused", ("E165",))
    # its own author may correct it, with a reason; what was there stays
    assert first.row is not None and first.path is not None
    why = {"supersedes": first.row.slug, "supersedes_reason": "a wrong date"}
    corrected = submit(run, tmp_path / "data", about=ABOUT | why)
    assert corrected.status == "written" and corrected.row is not None
    assert (corrected.row.supersedes, corrected.row.supersedes_reason) == (first.row.slug, "a wrong date")
    assert first.path.is_dir()


@pytest.mark.parametrize(
    "change",
    [
        {"supersedes": "nothing-there", "supersedes_reason": "x"},
        {"supersedes": "x"},
        {"supersedes_reason": "x"},
    ],
)
def test_what_supersedes_names_a_submission_and_a_reason(
    golden_run: Path, tmp_path: Path, change: dict[str, str]
) -> None:
    assert submit(golden_run, tmp_path, about=ABOUT | change).report.codes == ("E181",)


def test_a_public_board_asks_for_the_whole_form(golden_run: Path, tmp_path: Path) -> None:
    refused = submit(golden_run, tmp_path, about=ABOUT, terms=Terms(public=True))
    assert refused.report.codes == ("E181",)
    assert "contact, code_url, commit, hardware_owner, description" in str(refused.report.errors[0])
    form = {
        "contact": "ada@example.org", "code_url": "https://example.org/x", "commit": "0" * 40,
        "hardware_owner": "Ada", "description": "Ours.",
    }  # fmt: skip
    assert submit(golden_run, tmp_path, about=ABOUT | form, terms=Terms(public=True)).status == "written"


ROUND = Round(name="r1", nonce="0123456789abcdef")


def of_round(run: Path) -> Path:
    golden.edit_header(
        run,
        lambda h: (h["config"].update(seed=ROUND.seed), h.update(seeds=[0], order=[["S1", 0], ["A1", 0]])),
    )
    for name in ("events", "spans", "rollouts", "updates", "evals"):
        path = run / f"{name}.jsonl"
        path.write_text(path.read_text().replace('"seed":7,', '"seed":0,'))
    golden.edit_header(run, lambda h: [r.update(seed=0) for r in h["runs"]])
    for path in (run / "adapters").iterdir():
        path.rename(path.with_name(path.name.replace(".s7.", ".s0.")))
    golden.recompute(run)
    return run


def test_seeds_follow_from_the_nonce_of_the_round(run: Path, golden_run: Path, tmp_path: Path) -> None:
    refused = submit(golden_run, tmp_path / "data", about=ABOUT, terms=Terms(round=ROUND))
    assert refused.report.codes == ("E123",)
    outcome = submit(of_round(run), tmp_path / "data", about=ABOUT, terms=Terms(round=ROUND))
    assert outcome.row is not None and (outcome.row.round, outcome.row.attempt) == ("r1", 1)
    # the leading 31 bits of the nonce's hash
    assert ROUND.seed == int(hashlib.sha256(b"0123456789abcdef").hexdigest()[:8], 16) & 0x7FFFFFFF


def test_a_run_from_before_the_round_is_refused(run: Path, tmp_path: Path) -> None:
    late = ROUND.model_copy(update={"opened_utc": datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)})
    assert submit(of_round(run), tmp_path / "data", about=ABOUT, terms=Terms(round=late)).report.codes == (
        "E123",
    )


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"attempt": 3, "attempts": [{"number": 1, "outcome": "diverged"}]}, "refused"),
        ({"attempt": 2, "attempts": [{"number": 2, "outcome": "this one"}]}, "refused"),
        (
            {"attempt": 2, "attempts": [{"number": 1, "outcome": "a"}, {"number": 1, "outcome": "b"}]},
            "refused",
        ),
        ({"attempt": 2, "attempts": [{"number": 1, "outcome": "slower: wrong pool size"}]}, "previewed"),
    ],
)
def test_attempts_are_told_without_a_gap(
    run: Path, tmp_path: Path, told: dict[str, object], status: str
) -> None:
    outcome = submit(
        of_round(run), tmp_path / "data", about=ABOUT | told, terms=Terms(round=ROUND), dry_run=True
    )
    assert outcome.status == status
    assert outcome.report.codes == (("E124",) if status == "refused" else ())


@pytest.mark.parametrize("text", ['name = "r"', 'name = "A B"\nnonce = "12345678"', "name = ", "x = 1"])
def test_a_file_that_is_no_round_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(RecordError, match="E123"):
        rounds.read(str(tmp_path / "r.toml"))


def test_a_patch_brings_a_submission_to_another_repository(golden_run: Path, tmp_path: Path) -> None:
    outcome = submit(golden_run, tmp_path / "data", about=ABOUT)
    assert outcome.path is not None
    patch(outcome.path, tmp_path / "x.patch")
    board = tmp_path / "board"
    board.mkdir()
    for command in (["git", "init", "-q"], ["git", "apply", str(tmp_path / "x.patch")]):
        subprocess.run(command, cwd=board, check=True)
    assert verify(board / "submissions" / outcome.path.name / "bundle").ok
