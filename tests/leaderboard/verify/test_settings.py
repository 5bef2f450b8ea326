"""What a run says of itself follows from its configuration, and its adapters are its own: edited, sealed, refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leaderboard.verify import verify
from leaderboard.verify.settings import KNOWN
from leaderboard.verify.spellings import EMBEDDED
from tests.leaderboard import golden
from tunix_core.tokens import ByteTokenizer

Edit = Callable[[dict[str, Any]], object]

HEADER: dict[str, tuple[Edit, str]] = {
    "cut short, and said to be whole": (lambda h: h["config"].update(limit=2), "limit_applied"),
    "official": (lambda h: h.update(official=True), "official"),
    "an accelerator": (lambda h: h.update(device_class="gpu"), "device_class"),
    "no simulated latency": (
        lambda h: h["latency"].update(profile="none", simulated=False),
        "latency",
    ),
    "simulated called real": (lambda h: h["latency"].update(simulated=False), "latency.simulated"),
    "another model": (lambda h: h["model"].update(name="Llama-70B", sha256="f" * 64), "model"),
    "other weights": (lambda h: h["model"].update(sha256="f" * 64), "model 'embedded'"),
    "another learning rate": (lambda h: h["config"].update(learning_rate=9.0), "learning rate"),
    "more updates": (lambda h: h["config"].update(updates=200), "updates of"),
    "no configuration": (lambda h: h.update(config={}), "configuration"),
    "another staleness": (
        lambda h: [a.update(max_staleness=50) for a in h["arms"] if a["arm"] == "A1"],
        "max_staleness of A1",
    ),
    "a stale baseline": (
        lambda h: [a.update(max_staleness=2) for a in h["arms"] if a["arm"] == "S1"],
        "max_staleness of S1",
    ),
    "no sampling": (lambda h: h.update(sampling={}), "max_new_tokens"),
    "a lower cap": (lambda h: h["sampling"]["train"].update(max_new_tokens=1), "the cap is 1"),
    "evaluation at another temperature": (
        lambda h: h["sampling"]["eval"].update(temperature=1.0),
        "temperature of evaluation",
    ),
    "fewer items": (lambda h: h["sampling"]["eval"].update(items=2), "items of an evaluation"),
    "time before the start": (lambda h: h["runs"][0].update(compile_s=-5.0), "negative"),
    "no time": (lambda h: h.update(created_utc="yesterday"), "created_utc"),
    "no software": (lambda h: h.update(software={"jax": "99"}), "software lacks numpy, python"),
    "another arm": (lambda h: h["config"].update(arms=["S1"]), "the arms"),
}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return golden.build(tmp_path / "run")


def reasons(run_dir: Path, code: str) -> str:
    return "\n".join(str(f) for f in verify(run_dir).errors if f.code == code)


@pytest.mark.parametrize("what", HEADER)
def test_a_header_that_does_not_follow_from_its_configuration_is_refused(run_dir: Path, what: str) -> None:
    edit, said = HEADER[what]
    golden.edit_header(run_dir, edit)
    golden.recompute(run_dir)
    assert said in reasons(run_dir, "E122")


def test_a_learning_rate_of_another_size_in_one_line_is_refused(run_dir: Path) -> None:
    for number in range(len((run_dir / "updates.jsonl").read_text().splitlines())):
        golden.edit_line(run_dir, "updates.jsonl", number, lambda u: u.update(learning_rate=0.004))
    golden.recompute(run_dir)
    assert "learning rate 0.004, configured is 0.003" in reasons(run_dir, "E122")


def test_a_warm_up_is_no_lie(run_dir: Path) -> None:
    golden.edit_header(run_dir, lambda h: h["config"].update(warmup_updates=4))
    for number, line in enumerate((run_dir / "updates.jsonl").read_text().splitlines()):
        rate = 0.003 * (json.loads(line)["version_before"] + 1) / 4
        golden.edit_line(run_dir, "updates.jsonl", number, lambda u, r=rate: u.update(learning_rate=r))
    golden.recompute(run_dir)
    assert verify(run_dir).codes == ()


FINAL = "adapters/A1.s7.math.final.safetensors"


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(bytes(raw))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        flip,
        lambda path: path.write_bytes(path.read_bytes()[:-3]),
        lambda path: path.write_bytes(path.with_name(path.name.replace("final", "initial")).read_bytes()),
        lambda path: path.write_bytes(b"\x02\0\0\0\0\0\0\0{}"),
    ],
    ids=["gone", "a flipped bit", "cut", "the initial one", "empty"],
)
def test_adapter_files_are_held_to_their_hashes(run_dir: Path, spoil: Callable[[Path], object]) -> None:
    spoil(run_dir / FINAL)
    golden.recompute(run_dir)
    assert reasons(run_dir, "E156").startswith(f"E156 {FINAL}")


def test_the_final_adapter_is_the_one_published_last(run_dir: Path) -> None:
    golden.edit_header(run_dir, lambda h: h["runs"][1]["adapters"]["math"].update(final_sha256="0" * 64))
    golden.recompute(run_dir)
    assert "last published" in reasons(run_dir, "E156")


def test_a_run_without_adapters_is_refused(run_dir: Path) -> None:
    golden.edit_header(run_dir, lambda h: [r.update(adapters={}) for r in h["runs"]])
    golden.recompute(run_dir)
    assert "S1, seed 7, tenant code: no adapters" in reasons(run_dir, "E156")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda r: r.update(prompt_tokens=1), "prompt_tokens is 1"),
        (lambda r: r.update(env_ns=10**15), "more than it lasted"),
        (lambda r: r["turns"][1]["behavior_logprobs"].__setitem__(0, 0.5), "a log-probability above 0"),
        (lambda r: r["turns"][1]["behavior_logprobs"].__setitem__(0, -1e300), "of no float32"),
        (lambda r: r["turns"][1]["token_ids"].__setitem__(0, -5), "a token id outside 0..271"),
        (lambda r: r["turns"][1]["token_ids"].__setitem__(0, 272), "a token id outside 0..271"),
        (lambda r: r["turns"][1]["token_ids"].__setitem__(0, 120), "its token ids spell 'x"),
        (lambda r: r["turns"][0]["token_ids"].__setitem__(0, 120), "its token ids spell 'x"),
    ],
)
def test_counts_of_a_rollout_recompute(run_dir: Path, edit: Edit, said: str) -> None:
    golden.edit_line(run_dir, "rollouts.jsonl", 0, edit)
    golden.recompute(run_dir)
    report = verify(run_dir)
    assert set(report.codes) & {"E163", "E102"} and said in "\n".join(map(str, report.errors))


def test_the_embedded_model_is_the_one_in_the_package() -> None:
    card = json.loads((Path(__file__).parents[3] / "tunix_core/assets/embedded.json").read_text())
    assert (card["sha256"], "", card["parameters"]) == KNOWN[card["name"]]
    spelt = [ByteTokenizer().decode([i]).encode() or None for i in range(ByteTokenizer.vocab_size)]
    assert [None if i >= 128 and i < 256 else s for i, s in enumerate(spelt)] == [
        None if i >= 128 and i < 256 else s for i, s in enumerate(EMBEDDED)
    ]


def test_an_episode_that_was_stopped_before_its_first_observation_is_no_fault(run_dir: Path) -> None:
    path = run_dir / "rollouts.jsonl"
    line = json.loads(path.read_text().splitlines()[-1])
    line.update(ordinal=99, rollout_id="late", fate="surplus", turns=[], item_uid="", reward=0.0)
    line.update(
        consumed_in=None, staleness=None, prompt_tokens=0, completion_tokens=0, env_ns=0, stop="error"
    )
    line.update(grade_status="")
    path.write_text(path.read_text() + golden.canonical.dumps(line) + "\n")

    def book(header: dict[str, Any]) -> None:
        (run,) = [r for r in header["runs"] if r["arm"] == line["arm"]]
        for fate in ("generated", "surplus"):
            run["ledger"][line["tenant"]]["rollouts"][fate] += 1

    golden.edit_header(run_dir, book)
    golden.recompute(run_dir)
    assert verify(run_dir).codes == ()
    # with a reward, or said to have been learnt from, it is one
    number = len(path.read_text().splitlines()) - 1
    golden.edit_line(run_dir, "rollouts.jsonl", number, lambda r: r.update(fate="consumed"))
    golden.recompute(run_dir)
    assert verify(run_dir).codes != ()
