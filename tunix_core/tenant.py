"""A tenant's draws and its books: which item is group k, and what became of every rollout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunix_core.errors import ConfigError
from tunix_core.streams import Stream, generator
from tunix_core.types import EpisodeTicket, Fate, TenantSpec

FINAL_FATES = tuple(fate for fate in Fate if fate is not Fate.OPEN)
UNITS = ("groups", "rollouts", "tokens")


def draw(spec: TenantSpec, ordinal: int) -> tuple[str, int, int]:
    """(env_id, env_seed, item_index) of a tenant's group; pure, so every arm draws the same.

    The task mix is dealt in blocks: every len(env_ids) groups hold each entry once, shuffled by
    (seed, block). The k-th group of one environment gets item k, so no item comes twice. An id listed
    twice is drawn twice as often.
    """
    if ordinal < 0:
        raise ValueError(f"Ordinal {ordinal} of tenant {spec.tenant_id!r} is negative.")
    if not spec.env_ids:
        raise ConfigError(f"Tenant {spec.tenant_id!r} has no environment. Give at least one task id.")
    block, place = divmod(ordinal, len(spec.env_ids))
    order = generator(Stream.DATA, spec.seed, block).permutation(len(spec.env_ids))
    dealt = [spec.env_ids[i] for i in order]
    env_id = dealt[place]
    item_index = block * spec.env_ids.count(env_id) + dealt[:place].count(env_id)
    return env_id, spec.seed, item_index


def tickets(
    spec: TenantSpec, ordinal: int, admitted_version: int, split: str = "train"
) -> tuple[EpisodeTicket, ...]:
    """The group_size tickets of one group: one item, sample_index 0..G-1."""
    env_id, env_seed, item_index = draw(spec, ordinal)
    return tuple(
        EpisodeTicket(
            tenant_id=spec.tenant_id,
            ordinal=ordinal,
            sample_index=sample_index,
            env_id=env_id,
            split=split,
            env_seed=env_seed,
            item_index=item_index,
            admitted_version=admitted_version,
        )
        for sample_index in range(spec.group_size)
    )


@dataclass(slots=True)
class _OpenGroup:
    size: int
    tokens: dict[int, int] = field(default_factory=dict)  # by sample_index of the rollouts that arrived


def _zeros() -> dict[str, int]:
    return dict.fromkeys(UNITS, 0)


class Ledger:
    """One tenant's books: generated = consumed + stale + filtered + errored + surplus (+ open on the way).

    A group is admitted, its rollouts arrive with their sampled tokens, and it is settled once. Rollouts
    and tokens are booked one by one, so an errored member of a consumed group isn't called consumed.
    """

    def __init__(self, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self._open: dict[int, _OpenGroup] = {}
        self._settled: dict[int, Fate] = {}
        self._generated = _zeros()
        self._final = {fate: _zeros() for fate in FINAL_FATES}

    def admit(self, ordinal: int, group_size: int) -> None:
        """Opens a group of group_size rollouts; a group opens once."""
        if ordinal in self._open or ordinal in self._settled:
            raise ValueError(f"{self._name(ordinal)} is admitted already.")
        self._open[ordinal] = _OpenGroup(size=group_size)
        self._generated["groups"] += 1
        self._generated["rollouts"] += group_size

    def arrive(self, ordinal: int, sample_index: int, tokens: int) -> None:
        """Books a finished rollout with its sampled tokens."""
        group = self._group(ordinal)
        if not 0 <= sample_index < group.size:
            raise ValueError(f"{self._name(ordinal)} has {group.size} rollouts; there is no {sample_index}.")
        if sample_index in group.tokens:
            raise ValueError(f"Rollout {sample_index} of {self._name(ordinal)} arrived already.")
        group.tokens[sample_index] = tokens
        self._generated["tokens"] += tokens

    def settle(self, ordinal: int, fate: Fate, exceptions: Mapping[int, Fate] | None = None) -> None:
        """Gives a group its one final fate; `exceptions` names rollouts that ended otherwise."""
        group = self._group(ordinal)
        fates = [(exceptions or {}).get(i, fate) for i in range(group.size)]
        if Fate.OPEN in (fate, *fates):
            raise ValueError(f"{self._name(ordinal)}: 'open' is no final fate.")
        if unknown := sorted(set(exceptions or {}) - set(range(group.size))):
            raise ValueError(f"{self._name(ordinal)} has no rollout {unknown[0]}.")
        for i, rollout_fate in enumerate(fates):
            if rollout_fate is Fate.CONSUMED and i not in group.tokens:
                raise ValueError(f"Rollout {i} of {self._name(ordinal)} can't be consumed: it never arrived.")
        del self._open[ordinal]
        self._settled[ordinal] = fate
        self._final[fate]["groups"] += 1
        for i, rollout_fate in enumerate(fates):
            self._final[rollout_fate]["rollouts"] += 1
            self._final[rollout_fate]["tokens"] += group.tokens.get(i, 0)

    def fate(self, ordinal: int) -> Fate:
        """The group's fate, OPEN until settled; KeyError for a group never admitted."""
        return Fate.OPEN if ordinal in self._open else self._settled[ordinal]

    def settled(self, ordinal: int) -> bool:
        """Whether a group has its final fate."""
        return ordinal in self._settled

    def closes(self) -> bool:
        """Whether every generated group, rollout and token has its final fate."""
        return all(self._generated[unit] == sum(self._final[f][unit] for f in FINAL_FATES) for unit in UNITS)

    def snapshot(self) -> dict[str, dict[str, int]]:
        """{'generated' or fate: {'groups', 'rollouts', 'tokens'}}, a copy; the fates sum to 'generated'."""
        still_open = {
            "groups": len(self._open),
            "rollouts": sum(g.size for g in self._open.values()),
            "tokens": sum(sum(g.tokens.values()) for g in self._open.values()),
        }
        finals = {fate.value: dict(self._final[fate]) for fate in FINAL_FATES}
        return {"generated": dict(self._generated), "open": still_open, **finals}

    def to_json(self) -> dict[str, Any]:
        """What is settled, as plain JSON. Open groups are left out: whoever resumes draws them again."""
        by_fate = {fate: [k for k, f in self._settled.items() if f is fate] for fate in FINAL_FATES}
        return {
            "groups": {fate.value: to_runs(ordinals) for fate, ordinals in by_fate.items() if ordinals},
            "final": {fate.value: dict(self._final[fate]) for fate in FINAL_FATES},
        }

    @classmethod
    def from_json(cls, tenant_id: str, value: Mapping[str, Any]) -> Ledger:
        """The books as they were, without open groups."""
        ledger = cls(tenant_id)
        for fate in FINAL_FATES:
            for ordinal in from_runs(value["groups"].get(fate.value, ())):
                ledger._settled[ordinal] = fate
            ledger._final[fate] = {unit: int(value["final"][fate.value][unit]) for unit in UNITS}
        ledger._generated = {unit: sum(ledger._final[f][unit] for f in FINAL_FATES) for unit in UNITS}
        return ledger

    def _group(self, ordinal: int) -> _OpenGroup:
        if ordinal in self._settled:
            raise ValueError(f"{self._name(ordinal)} has its final fate: {self._settled[ordinal]}.")
        if ordinal not in self._open:
            raise ValueError(f"{self._name(ordinal)} was never admitted.")
        return self._open[ordinal]

    def _name(self, ordinal: int) -> str:
        return f"Group {ordinal} of tenant {self.tenant_id!r}"


def to_runs(numbers: Iterable[int]) -> list[list[int]]:
    """Ascending whole numbers as [first, last] runs: a long run's books stay short."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return runs


def from_runs(runs: Sequence[Sequence[int]]) -> list[int]:
    """The numbers back."""
    return [n for first, last in runs for n in range(first, last + 1)]
