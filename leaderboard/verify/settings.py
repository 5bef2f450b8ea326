"""E122, E156: run.json says what was configured, the lines were made with it, and the adapters are the run's."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from leaderboard.records import RunRecord
from leaderboard.schema import AdapterHashes, ArmInfo, RunHeader
from leaderboard.verify.report import Finding, error
from tasks import latency

KNOWN = {
    "embedded": ("b106d3f4b8a841509b9d11d838fad113b77007376899a8fb5f26bc7c1917ba65", "", 625536),
    "smollm2-135m": (
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "58db15e81860f2bdf261e748c0e7c3eb84475eb8fc2df964cba67be9f618c700",
        134_515_008,
    ),
    "gemma3-270m": (
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "4225b14538860f2f802cb3902409b6cf2dd2ade65e4c9ade41874cfba0395f59",
        268_098_176,
    ),
}
"""By name, sha256 of the weights and of the vocabulary, and parameter count of the models this suite knows."""
CLASSES = {"cpu": "cpu-sim"}
"""Device classes that follow from a device's platform; ratios on a CPU are no accelerator's."""


def configuration(record: RunRecord) -> Iterator[Finding]:
    """E122: what run.json says of the run follows from its configuration."""
    header = record.header
    config, model = header.config, header.model
    for what, said, follows in _claims(header, config):
        if said != follows:
            yield error(
                "E122",
                "run.json",
                f"{what} is {_short(said)}, its configuration and devices give {_short(follows)}",
            )
    if header.official:
        yield error("E122", "run.json", "official, but this version of the suite has no official runs")
    try:
        datetime.datetime.fromisoformat(header.created_utc)
    except ValueError:
        yield error("E122", "run.json", f"created_utc {_short(header.created_utc)} is no time")
    known = KNOWN.get(model.name)
    vocabulary = model.tokenizer_sha256 if model.name != "embedded" else ""
    if known is not None and (model.sha256, vocabulary, model.parameters) != known:
        yield error(
            "E122", "run.json", f"model {model.name!r} is not the one that this suite knows by that name"
        )
    for run in header.runs:
        if run.init_s < 0 or run.compile_s < 0:
            yield error("E122", "run.json", f"{run.arm}, seed {run.seed}: time before the start is negative")
    missing = {"python", "jax", "numpy"} - header.software.keys()
    if missing:
        yield error("E122", "run.json", f"software lacks {', '.join(sorted(missing))}")
    yield from _rates(record, config)
    yield from _caps(record)


def adapters(record: RunRecord) -> Iterator[Finding]:
    """E156: adapter files are whole, and hash to what run.json and the last publication say."""
    for view in record.views:
        published: dict[str, str] = {}
        for event in view.events:
            if event.key == "adapter.published":
                published[str(event.value.get("tenant"))] = str(event.value.get("sha256"))
        run = next((r for r in record.header.runs if (r.arm, r.seed) == (view.arm, view.seed)), None)
        if run is None or run.status != "success":
            continue  # E123 says so; what it had trained until then need not be there
        declared = run.adapters
        for tenant in sorted({t.tenant for t in record.header.tenants}):
            place = f"{view.arm}, seed {view.seed}, tenant {tenant}"
            said = _hashes(declared.get(tenant))
            if said is None:
                yield error("E156", "run.json", f"{place}: no adapters")
                continue
            last = published.get(tenant, said["initial"])
            if said["final"] != last:
                yield error(
                    "E156",
                    "run.json",
                    f"{place}: final adapter {said['final'][:12]}…, last published {last[:12]}…",
                )
            for name in ("initial", "final"):
                file = f"adapters/{view.arm}.s{view.seed}.{tenant}.{name}.safetensors"
                found = _content(record.directory / file)
                if found != said[name]:
                    what = "missing or no safetensors" if found is None else f"hashes to {found[:12]}…"
                    yield error("E156", file, f"{what}, run.json says {said[name][:12]}…")


def _claims(header: RunHeader, config: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(what, as it stands in run.json, as it follows)."""
    yield "limit_applied", header.limit_applied, config.get("limit") is not None
    profile = config.get("latency")
    yield "latency", header.latency.profile, profile
    try:
        simulated = latency.parse(str(profile)).simulated
    except latency.LatencyError:
        simulated = None
    yield "latency.simulated", header.latency.simulated, simulated
    yield "model", header.model.name, _name_of_model(str(config.get("model")))
    for device in header.devices:
        platform = device.id.partition(":")[0]
        yield "device_class", header.device_class, CLASSES.get(platform, platform)
    yield (
        "the arms",
        sorted(a.arm for a in header.arms if a.repeats is None),
        _names(config.get("arms")),
    )
    timetables = {arm.arm: _timetable(arm) for arm in header.arms}
    for arm in header.arms:
        limit = config.get("max_staleness") if arm.arm == "A1" else 0
        yield f"max_staleness of {arm.arm}", arm.max_staleness, limit
        if arm.repeats is not None:
            yield f"the timetable of {arm.arm}", timetables[arm.arm], timetables.get(arm.repeats)
    for tenant in header.tenants:
        for key in ("group_size", "groups_per_update", "updates"):
            yield f"{key} of {tenant.tenant}", getattr(tenant, key), config.get(key)
    train, evaluation = header.sampling.get("train", {}), header.sampling.get("eval", {})
    yield "temperature", train.get("temperature"), config.get("temperature")
    yield "temperature of evaluation", evaluation.get("temperature"), 0.0
    yield "items of an evaluation", evaluation.get("items"), config.get("eval_items")


def _names(value: Any) -> list[str]:
    return sorted(map(str, value)) if isinstance(value, list) else []


def _timetable(arm: ArmInfo) -> dict[str, Any]:
    return arm.model_dump(exclude={"arm", "repeats"})


def _name_of_model(given: str) -> str:
    """A model that was named by its path goes by the last part of it."""
    return given if given.startswith("hf:") else PurePath(given).name


def _rates(record: RunRecord, config: Mapping[str, Any]) -> Iterator[Finding]:
    wanted, warmup = config.get("learning_rate"), config.get("warmup_updates") or 0
    if not isinstance(wanted, int | float):
        return
    for number, update in enumerate(record.updates, start=1):
        ramp = min(1.0, (update.version_before + 1) / max(warmup, 1))
        rate = update.learning_rate
        # float32 on the device; a skipped step may stand earlier on the ramp
        if rate is None or rate > wanted * ramp * (1 + 1e-5) or (not warmup and rate < wanted * (1 - 1e-5)):
            said = f"learning rate {rate}, configured is {wanted * ramp:g}"
            yield error("E122", f"updates.jsonl:{number}", said)


def _caps(record: RunRecord) -> Iterator[Finding]:
    sampling = record.header.sampling
    for kind, settings, file, lines in (
        ("train", sampling.get("train", {}), "rollouts", record.rollouts),
        ("eval", sampling.get("eval", {}), "evals", record.evals),
    ):
        cap = settings.get("max_new_tokens")
        if not isinstance(cap, int):
            yield error("E122", "run.json", f"sampling.{kind} has no max_new_tokens")
            continue
        for number, line in enumerate(lines, start=1):
            longest = max((len(t.token_ids) for t in line.turns if t.role == "policy"), default=0)
            if longest > cap:
                yield error("E122", f"{file}.jsonl:{number}", f"a turn of {longest} tokens, the cap is {cap}")


def _hashes(declared: AdapterHashes | None) -> dict[str, str] | None:
    return declared and {"initial": declared.initial_sha256, "final": declared.final_sha256}


def _content(path: Path) -> str | None:
    """The hash that a trainer publishes: names, shapes, dtypes and bytes, in name order, a before b."""
    if not path.is_file():
        return None
    try:
        arrays = load_file(path)
    except (SafetensorError, OSError, ValueError):
        return None
    digest = hashlib.sha256()
    for key in sorted({name.rpartition(".lora_")[0] for name in arrays}):
        for part in "ab":
            array = arrays.get(f"{key}.lora_{part}")
            if array is None:
                return None
            array = np.ascontiguousarray(array)
            digest.update(f"{key}.{part}:{array.shape}:{array.dtype}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
