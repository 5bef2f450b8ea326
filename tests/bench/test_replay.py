"""A replay finds what a record alone can't show: another adapter, other log-probabilities, another reward."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.compose import load_model
from bench.replay import replay
from leaderboard import bundle
from leaderboard.verify import verify
from tests.leaderboard import golden
from tunix_core.model.config import lora_targets
from tunix_core.scoring import score_sequences
from tunix_core.types import AdapterVersion, LoraSpec, SamplingSpec

LORA = LoraSpec(rank=2, alpha=4.0)


def adapter(tenant: str, version: int) -> AdapterVersion:
    """Random factors of a tenant, large enough to change what it says."""
    base, _ = load_model("embedded")
    rng = np.random.default_rng([sum(tenant.encode()), version])
    layers = base.config.num_hidden_layers
    factors = {
        name: (
            rng.normal(0, 0.2, (layers, width, LORA.rank)).astype(np.float32),
            rng.normal(0, 0.2, (layers, LORA.rank, out)).astype(np.float32),
        )
        for name, (width, out) in lora_targets(base.config).items()
    }
    return AdapterVersion(tenant_id=tenant, version=version, factors=factors, sha256="", t_ns=0)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden run with adapters of the real model, and the log-probabilities that they give."""
    from safetensors.numpy import save_file

    run = golden.build(tmp_path_factory.mktemp("replay") / "run")
    base, params = load_model("embedded")
    for path in (run / "adapters").iterdir():
        _, _, tenant, name, _ = path.name.split(".")
        made = adapter(tenant, 0 if name == "initial" else golden.UPDATES)
        save_file(
            {f"{k}.lora_{p}": x for k, ab in made.factors.items() for p, x in zip("ab", ab, strict=True)},
            path,
        )
    golden.edit_header(
        run, lambda h: [t["settings"].update(lora={"rank": 2, "alpha": 4.0}) for t in h["tenants"]]
    )
    for name in ("rollouts", "evals"):
        path = run / f"{name}.jsonl"
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        for tenant in golden.TENANTS:
            for version in range(golden.UPDATES + 1):
                own = [
                    x
                    for x in lines
                    if x["tenant"] == tenant and x["turns"][1]["policy_version"][0] == version
                ]
                ids = [[i for turn in x["turns"] for i in turn["token_ids"]] for x in own]
                scored = score_sequences(
                    base.config,
                    params,
                    ids,
                    adapter=adapter(tenant, version),
                    lora=LORA,
                    sampling=SamplingSpec(),
                )
                for line, logprobs in zip(own, scored, strict=True):
                    at = 0
                    for turn in line["turns"]:
                        n = len(turn["token_ids"])
                        if turn["role"] == "policy":
                            turn["behavior_logprobs"] = [round(float(x), 6) for x in logprobs[at : at + n]]
                        at += n
        path.write_text("".join(golden.canonical.dumps(x) + "\n" for x in lines))
    bundle.seal(run)
    return run


def swap_adapters(run: Path) -> None:
    first, second = (run / "adapters" / f"A1.s7.{tenant}.final.safetensors" for tenant in ("math", "code"))
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)


def shift(run: Path) -> None:
    for name in ("rollouts", "evals"):
        path = run / f"{name}.jsonl"
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        for turn in (turn for line in lines for turn in line["turns"]):
            turn["behavior_logprobs"] = [x - 0.05 for x in turn["behavior_logprobs"]]
        path.write_text("".join(golden.canonical.dumps(x) + "\n" for x in lines))


def flip(run: Path) -> None:
    for number in range(48):
        golden.edit_line(run, "evals.jsonl", number, lambda x: x.update(reward=1.0 - x["reward"]))


def test_what_the_adapters_played_is_replayed(played: Path) -> None:
    report = replay(played, items=3, nonce="n")
    assert report.ok, report.findings
    assert report.checked["rollouts_scored"] > 0 and report.checked["evals_played"] > 0


@pytest.mark.parametrize(
    ("cheat", "code"),
    [(swap_adapters, "E191"), (shift, "E191"), (flip, "E161")],
    ids=["another tenant's adapter", "log-probabilities shifted by 0.05", "rewards flipped"],
)
def test_a_cheat_is_found(played: Path, tmp_path: Path, cheat: Callable[[Path], Any], code: str) -> None:
    run = Path(shutil.copytree(played, tmp_path / "run"))
    cheat(run)
    assert code in replay(run, items=3, nonce="n").codes
    if code == "E161":
        assert code in verify(run, sealed=False).codes


def test_the_nonce_chooses_the_lines(played: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(played, tmp_path / "run"))
    golden.edit_line(run, "evals.jsonl", 0, lambda x: x["turns"][1].update(behavior_logprobs=[-9.0] * 19))
    found = {nonce: replay(run, items=1, nonce=nonce).ok for nonce in ("a", "b", "c", "d", "e", "f")}
    assert set(found.values()) == {True, False}
