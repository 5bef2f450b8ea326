"""A tiny model with its tokenizer, tenants and shapes for it, and the real trainer over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np

from tunix_core.environment import EnvFactory
from tunix_core.learner.stage import PackedUpdate
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.model.decoder import Decoder
from tunix_core.model.load import BaseModel
from tunix_core.model.lora import factors_sha256
from tunix_core.runspec import TrainerSpec
from tunix_core.sampler.base import SamplerFactory, SamplerSpec
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.schedule import ScheduleSpec, arm
from tunix_core.telemetry import Observer
from tunix_core.tokens import Renderer
from tunix_core.trainer import Trainer
from tunix_core.types import AdapterVersion, Bucket, LoraSpec, OptimizerSpec, SamplingSpec, TenantSpec


class LetterTokenizer:
    """Eight ids: the letters a, b, c and five controls, two of which end a turn: random turns are short.

    Any other character reads as one of the three letters: lossy, but never out of vocabulary. Arrays are
    filled with 0, the letter a, or with what ends a turn (`pad_id=7`): inferring padding from ids would fail.
    """

    vocab_size = 8
    bos_id, user_id, assistant_id = 4, 5, 6

    def __init__(self, pad_id: int = 0, stop_ids: tuple[int, ...] = (3, 7)) -> None:
        self.pad_id, self.stop_ids = pad_id, stop_ids

    def encode(self, text: str) -> np.ndarray:
        """Ids int32 [n], one a character."""
        return np.asarray([(ord(c) - ord("a")) % 3 for c in text], np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The letters among the ids."""
        return "".join("abc"[i] for i in np.asarray(ids, np.int64).tolist() if 0 <= i < 3)

    def token_text(self, token_id: int) -> str:
        """One id for human eyes."""
        return ("a", "b", "c", "<stop>", "<bos>", "<user>", "<assistant>", "<end>")[token_id]


@cache
def tiny_base(*, layers: int = 1, seed: int = 0, vocab_size: int = LetterTokenizer.vocab_size) -> BaseModel:
    """A random float32 model of width 16 whose next-token distributions are far from uniform."""
    config = ModelConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        intermediate_size=24,
        max_position_embeddings=64,
    )
    ids = np.zeros((1, 2), np.int32)
    positions, segments = np.asarray([[0, 1]], np.int32), np.ones((1, 2), np.int32)
    params = Decoder(config).init(jax.random.key(seed), ids, positions, segments)["params"]
    params = jax.tree.map(lambda x: np.array(x), params)
    # the initial scale of 0.02 gives all tokens nearly equal odds, and hides most mistakes
    params["embed_tokens"] *= 15.0
    return BaseModel(name="tiny", config=config, params=params, sha256="")


def tiny_tenant(tenant_id: str = "t0", **changes: Any) -> TenantSpec:
    """A tenant with two groups of four an update, three updates, a step size large enough to be seen."""
    spec = TenantSpec(
        tenant_id=tenant_id,
        env_ids=("scripted",),
        seed=7,
        group_size=4,
        groups_per_update=2,
        updates=3,
        lora=LoraSpec(rank=2, alpha=4.0),
        optimizer=OptimizerSpec(learning_rate=0.05),
        sampling=SamplingSpec(max_new_tokens=6),
    )
    return replace(spec, **changes)


def random_adapter(
    tenant_id: str = "t0", *, version: int = 1, seed: int = 0, rank: int = 2, base: BaseModel | None = None
) -> AdapterVersion:
    """An adapter with both factors random, strong enough to change the model's mind."""
    config = (base or tiny_base()).config
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.3, (config.num_hidden_layers, *shape)).astype(np.float32)

    targets = lora_targets(config)
    factors = {name: (normal(n, rank), normal(rank, m)) for name, (n, m) in targets.items()}
    return AdapterVersion(
        tenant_id=tenant_id, version=version, factors=factors, sha256=factors_sha256(factors), t_ns=0
    )


TINY_SAMPLER = SamplerSpec(
    slots=6,
    part_slots=4,
    prefill_lanes=2,
    prefill_lengths=(8, 24),
    max_new_tokens=6,
    decode_steps=2,
    workers=2,
)
TINY_SPEC = TrainerSpec(
    sampler=TINY_SAMPLER, buckets=(Bucket(rows=4, length=32),), runtime="inline", env_workers=4
)


def tiny_trainer(
    tenants: Sequence[TenantSpec],
    schedule: ScheduleSpec | str,
    env_factory: EnvFactory,
    *,
    spec: TrainerSpec = TINY_SPEC,
    base: BaseModel | None = None,
    tokenizer: LetterTokenizer | None = None,
    observer: Observer | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    sampler: SamplerFactory = SamplerEngine,
    on_packed: Callable[[PackedUpdate], None] = lambda packed: None,
) -> Trainer:
    """The real trainer on the tiny model; `schedule` may be the name of an arm."""
    base = base or tiny_base()
    return Trainer(
        base,
        base.params,
        tenants,
        arm(schedule) if isinstance(schedule, str) else schedule,
        env_factory,
        Renderer(tokenizer or LetterTokenizer()),
        spec,
        observer=observer,
        should_stop=should_stop,
        sampler=sampler,
        on_packed=on_packed,
    )
