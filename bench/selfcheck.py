"""The first-step self-check on the embedded model: one small update, and whether both sides agree on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench.config import resolve

if TYPE_CHECKING:
    from tunix_core.learner.stage import PackedUpdate
    from tunix_core.selfcheck import SelfCheck

SMALL: Mapping[str, Any] = {
    "tasks": "math",
    "updates": 1,
    "group_size": 4,
    "groups_per_update": 2,
    "slots": 8,
    "runtime": "inline",
}
"""Enough for several lengths of prompt and turn; compiling it is most of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepCheck:
    """What the first update of a small job shows."""

    check: SelfCheck
    table: str
    """One sequence, a token a line."""

    @property
    def summary(self) -> str:
        """One line."""
        c = self.check
        return (
            f"ratio {c.ratio_min:.6f} / {c.ratio_mean:.6f} / {c.ratio_max:.6f} (min / mean / max), mean gap "
            f"{c.mean_gap:.1e}, {c.loss_tokens} loss tokens of {c.sampled_tokens} sampled"
        )


def deep_check() -> DeepCheck:
    """Samples and prepares one update of one tenant, as a run would, and compares the two sides.

    Raises what a run raises for a missing model file, task or device.
    """
    from bench.compose import env_factory, load_model, prepare, tenants_of, trainer_spec
    from tunix_core.schedule import arm
    from tunix_core.selfcheck import self_check, token_table
    from tunix_core.trainer import Trainer

    small = resolve(None, {}, [], SMALL).config
    prepared = prepare(small)
    base, params = load_model(small.model)
    renderer = prepared.renderer
    checks: list[SelfCheck] = []

    def keep(packed: PackedUpdate) -> None:
        logprobs = trainer.learner.score(packed.batches)
        checks.extend(self_check(packed, logprobs, name) for name in packed.groups)

    trainer: Any = Trainer(
        base,
        params,
        tenants_of(prepared, 0),
        arm("S1"),
        env_factory(prepared, simulate=False),
        renderer,
        # its own check would end the run before the table is there
        replace(trainer_spec(prepared), self_check=False),
        on_packed=keep,
    )
    trainer.run()
    check = checks[0]
    return DeepCheck(check=check, table=token_table(check, renderer.tokenizer.token_text))
