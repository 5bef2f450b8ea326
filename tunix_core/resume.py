"""A run's state to a checkpoint and back: who sits where, every tenant's books, snapshots, trained arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from tunix_core.buffer.groups import TenantBuffer
from tunix_core.checkpoint import Checkpoints, Saved
from tunix_core.errors import CheckpointError
from tunix_core.learner.stage import Learner
from tunix_core.runspec import Snapshot
from tunix_core.types import AdapterVersion, TenantSpec

_spec = TypeAdapter(TenantSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What `load` found; the learner has taken up its share already."""

    step: int
    buffers: dict[str, TenantBuffer]
    snapshots: list[Snapshot]
    redrawn: dict[str, tuple[int, ...]]
    """By tenant: ordinals that were in flight, to be admitted again."""


def save(
    checkpoints: Checkpoints,
    step: int,
    learner: Learner,
    buffers: Mapping[str, TenantBuffer],
    snapshots: Sequence[Snapshot],
    identity: Mapping[str, Any],
) -> None:
    """Writes a checkpoint between two updates; `identity` is what a resuming run must have in common."""
    books = {
        **identity,
        "slots": [t.tenant_id if t else None for t in learner.slots],
        "versions": dict(learner.versions),
        "tenants": {n: {"spec": spec_to_json(b.spec), "books": b.to_json()} for n, b in buffers.items()},
        "snapshots": [s.line for s in snapshots],
    }
    checkpoints.save(
        Saved(step=step, arrays=_arrays(learner), snapshots=snapshot_trees(snapshots), books=books)
    )


def load(
    checkpoints: Checkpoints, learner: Learner, given: Mapping[str, TenantSpec], identity: Mapping[str, Any]
) -> Resumed:
    """Reads the newest checkpoint into the learner, and the rest into what is returned.

    Raises CheckpointError where there is none, or where it belongs to another run than that of the `given`
    tenants and `identity`: the message names every difference.
    """
    saved = checkpoints.restore(_arrays(learner))
    books = saved.books
    specs = {name: spec_from_json(tenant["spec"]) for name, tenant in books["tenants"].items()}
    wrong = [f"{k} {books[k]!r}, here {v!r}" for k, v in identity.items() if books[k] != v]
    for name, spec in given.items():
        if name not in specs:
            wrong.append(f"no tenant {name!r}")
        elif names := differing(specs[name], spec):
            wrong.append(f"tenant {name!r} with another {', '.join(names)}")
    if wrong:
        raise CheckpointError(
            f"{checkpoints.directory} holds another run: {'; '.join(wrong)}. Use the settings it was made "
            "with, or a new folder."
        )
    learner.load(saved.arrays, [specs.get(name) for name in books["slots"]], books["versions"])
    buffers = {n: TenantBuffer.from_json(specs[n], t["books"]) for n, t in books["tenants"].items()}
    return Resumed(
        step=saved.step,
        buffers=buffers,
        snapshots=snapshots_from(books["snapshots"], saved.snapshots),
        redrawn={
            name: tuple(tenant["books"]["open"])
            for name, tenant in books["tenants"].items()
            if not buffers[name].view.finished
        },
    )


def _arrays(learner: Learner) -> dict[str, Any]:
    """What is kept of the learner; gradient sums are empty between two updates."""
    state = learner.state
    return {"adapters": state.adapters, "adam": state.adam, "updates": state.updates}


def snapshot_trees(snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """Their factors as one tree; the n-th under str(n)."""
    return {
        str(i): {name: {"a": a, "b": b} for name, (a, b) in s.adapter.factors.items()}
        for i, s in enumerate(snapshots)
    }


def snapshots_from(lines: Sequence[Mapping[str, Any]], trees: Mapping[str, Any]) -> list[Snapshot]:
    """Snapshots back from their lines and their factors."""
    return [
        Snapshot(
            adapter=AdapterVersion(
                tenant_id=line["tenant"],
                version=line["version"],
                factors={name: (ab["a"], ab["b"]) for name, ab in trees[str(i)].items()},
                sha256=line["sha256"],
                t_ns=line["t_ns"],
            ),
            samples=line["samples"],
            t_ns=line["t_ns"],
        )
        for i, line in enumerate(lines)
    ]


def spec_to_json(spec: TenantSpec) -> dict[str, Any]:
    """A tenant's settings as plain JSON."""
    return _spec.dump_python(spec, mode="json")


def spec_from_json(value: Mapping[str, Any]) -> TenantSpec:
    """The settings back; raises pydantic's ValidationError for others."""
    return _spec.validate_python(value)


def differing(a: TenantSpec, b: TenantSpec) -> list[str]:
    """Names of the settings in which two specs differ, dotted."""
    first, second = spec_to_json(a), spec_to_json(b)
    names = []
    for name in first:
        if isinstance(first[name], dict):
            names += [f"{name}.{k}" for k in first[name] if first[name][k] != second[name][k]]
        elif first[name] != second[name]:
            names.append(name)
    return names
