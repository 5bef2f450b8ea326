"""An embedded, decoupled, multi-tenant LoRA RL trainer: actors, buffer, learner, and the timetable between them.

The names below are the parts that are useful on their own: pure functions of numpy or jax arrays, each with its
shapes and the source of its formula in its docstring. They are loaded when first asked for: `import tunix_core`
alone loads no jax.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tunix_core.advantages import ADVANTAGES, group_advantages, invalid_count, soft_overlong_penalty
    from tunix_core.evaluation import mean_pass_at_k, pass_at_k, wilson
    from tunix_core.kl import KL_ESTIMATORS, kl_penalty
    from tunix_core.losses import (
        AGGREGATIONS,
        POLICY_LOSSES,
        LossConfig,
        PolicyLoss,
        effective_sample_size,
        policy_loss,
        sequence_log_ratio,
        sequence_token_weights,
    )
    from tunix_core.packing import PackPlan, PackStats, pack, plan, unpack
    from tunix_core.schedule import staleness
    from tunix_core.scoring import score_sequences

__all__ = [
    "ADVANTAGES",
    "AGGREGATIONS",
    "KL_ESTIMATORS",
    "POLICY_LOSSES",
    "LossConfig",
    "PackPlan",
    "PackStats",
    "PolicyLoss",
    "effective_sample_size",
    "group_advantages",
    "invalid_count",
    "kl_penalty",
    "mean_pass_at_k",
    "pack",
    "pass_at_k",
    "plan",
    "policy_loss",
    "score_sequences",
    "sequence_log_ratio",
    "sequence_token_weights",
    "soft_overlong_penalty",
    "staleness",
    "unpack",
    "wilson",
]

_HOMES = ("advantages", "evaluation", "packing", "schedule", "kl", "losses", "scoring")
"""Where the names live, those without jax first."""


def __getattr__(name: str) -> Any:
    """Looks a public name up in its module, once."""
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"tunix_core.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
