"""`bench doctor --deep`: the first update of a small job on the embedded model, token by token."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench import cli, selfcheck
from bench.commands import doctor
from bench.errors import Exit

pytestmark = pytest.mark.slow

Doctor = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def healthy() -> selfcheck.DeepCheck:
    return selfcheck.deep_check()


@pytest.fixture
def bench_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Runs the command with one trivial finding of the machine before the trainer's."""
    fine = doctor.Finding(what="python", status="ok", found="3.11.0")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter([fine]),))

    def call(*argv: str) -> tuple[int, str]:
        code = cli.invoke(["doctor", *argv])
        return code, capsys.readouterr().out

    return call


def test_the_embedded_model_is_on_policy_at_its_first_update(healthy: selfcheck.DeepCheck) -> None:
    check = healthy.check
    assert check.failure is None
    assert (check.ratio_min, check.ratio_max) == pytest.approx((1, 1), abs=1e-3)
    assert check.loss_tokens == check.sampled_tokens > 0
    assert len(check.sequences) == selfcheck.SMALL["group_size"] * selfcheck.SMALL["groups_per_update"]
    first = check.sequences[0]
    lines = healthy.table.splitlines()
    assert lines[0] == "tenant math, group 0, sample 0"
    assert len(lines) == 2 + len(first.token_ids)
    assert lines[2].split() == ["0", "<bos>", str(first.token_ids[0]), "0"]
    assert lines[-1].split()[1] == "<end>"


def test_doctor_says_whether_it_passed_and_prints_the_table(
    bench_doctor: Doctor, healthy: selfcheck.DeepCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selfcheck, "deep_check", lambda: healthy)
    code, out = bench_doctor("--deep")
    assert code == Exit.OK
    assert f"ok    trainer   {healthy.summary}" in out
    assert out.rstrip().endswith(healthy.table.rstrip())
    document = json.loads(bench_doctor("--deep", "--json")[1])
    assert [f["what"] for f in document["findings"]] == ["python", "trainer"]
    assert "\n".join(document["token_table"]) == healthy.table
    assert "trainer" not in bench_doctor()[1]


def test_doctor_fails_with_the_reason_where_the_two_sides_disagree(
    bench_doctor: Doctor, healthy: selfcheck.DeepCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(healthy, check=replace(healthy.check, mean_gap=0.5, first_outside=(0, 1, 12)))
    monkeypatch.setattr(selfcheck, "deep_check", lambda: wrong)
    code, out = bench_doctor("--deep")
    assert code == Exit.FAILED
    assert "fail  trainer   sampler and learner differ by 5.00e-01" in out
    assert "first at position 12 (group 0, sample 1)" in out
