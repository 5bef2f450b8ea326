"""`bench warmstart`: rebuilds the embedded base model from the tasks' own train splits.

The corpus mixes two demonstrators, as any real corpus does: a careful one (the task's oracle) and a careless one
(the task's systematic slip). The model learns both; which one it follows is left to reinforcement learning.
Dev and test items never enter: content decides the split, and only `train` is drawn from here.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import tasks
from tasks.env import TextEnv
from tasks.spec import TaskSpec
from tunix_core.model.config import ModelConfig
from tunix_core.model.decoder import Decoder
from tunix_core.model.load import ASSETS, save_base
from tunix_core.tokens import ByteTokenizer, Renderer

EMBEDDED = ModelConfig(
    vocab_size=ByteTokenizer.vocab_size,
    hidden_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    intermediate_size=384,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Reproduces the embedded model: about an hour on two cores."""

    steps: int = 3600
    rows: int = 24
    length: int = 128
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    careless_share: float = 0.55
    seed: int = 20261201
    mix: tuple[tuple[str, int, float], ...] = (
        ("Math/Add-v0", 2, 0.45),
        ("Math/Add-v0", 1, 0.08),
        ("Math/ModChain-v0", 2, 0.05),
        ("Code/Predict-v0", 2, 0.27),
        ("Search/Lookup-v0", 2, 0.15),
    )
    """(task, level, share of sequences)."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """One demonstration, flat: ids int32 [n], mask bool [n] (true on the demonstrator's tokens)."""

    ids: np.ndarray
    mask: np.ndarray


def demonstrate(env: TextEnv, seed: int, index: int, careless: bool, rng: random.Random) -> Sequence:
    """Plays one train item through the real environment with a scripted demonstrator."""
    renderer = Renderer(ByteTokenizer())
    observation, _ = env.reset(seed=seed, options={"split": "train", "index": index})
    spec: TaskSpec = env.task
    turns = spec.careless(env.item, rng) if careless else spec.oracle(env.item)
    context = renderer.open(observation)
    masks = [np.zeros(len(context), bool)]
    for k, text in enumerate(turns):
        said = np.append(renderer.tokenizer.encode(text), renderer.stop_ids[0]).astype(np.int32)
        masks.append(np.ones(len(said), bool))
        observation, *_ = env.step(text)
        if k == len(turns) - 1:
            context = np.concatenate([context, said])
        else:
            before = len(context) + len(said)
            context = renderer.extend(context, said, observation)
            masks.append(np.zeros(len(context) - before, bool))
    return Sequence(context, np.concatenate(masks))


def corpus(recipe: Recipe) -> Iterator[Sequence]:
    """An endless stream of demonstrations."""
    rng = random.Random(recipe.seed)
    envs = [(TextEnv(tasks.get(name), level=level), share) for name, level, share in recipe.mix]
    shares = [share for _, share in envs]
    for index in range(sys.maxsize):
        (env, _), *_ = rng.choices(envs, shares)
        yield demonstrate(env, recipe.seed, index, rng.random() < recipe.careless_share, rng)


def batches(recipe: Recipe) -> Iterator[dict[str, np.ndarray]]:
    """Packs demonstrations, in order of arrival, into rows [B, L] with segment ids."""
    stream = corpus(recipe)
    pending: Sequence | None = None
    while True:
        shape = (recipe.rows, recipe.length)
        out = {k: np.zeros(shape, np.int32) for k in ("ids", "segments", "positions")}
        out["mask"] = np.zeros(shape, bool)
        for row in range(recipe.rows):
            at, segment = 0, 0
            while True:
                pending = pending or next(stream)
                n = len(pending.ids)
                if n > recipe.length:
                    raise ValueError(f"a demonstration of {n} tokens exceeds the row length {recipe.length}")
                if at + n > recipe.length:
                    break
                segment += 1
                out["ids"][row, at : at + n] = pending.ids
                out["segments"][row, at : at + n] = segment
                out["positions"][row, at : at + n] = np.arange(n)
                out["mask"][row, at : at + n] = pending.mask
                at, pending = at + n, None
        yield out


def train(recipe: Recipe, out: Path, config: ModelConfig = EMBEDDED, log: Any = print) -> str:
    """Trains from scratch and writes the model into `out`; returns its sha256."""
    model = Decoder(config)
    stream = batches(recipe)
    batch = next(stream)
    params = model.init(jax.random.key(recipe.seed), batch["ids"], batch["positions"], batch["segments"])[
        "params"
    ]
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, recipe.learning_rate, recipe.warmup_steps, recipe.steps, recipe.learning_rate * 0.02
    )
    tx = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(schedule, b1=0.9, b2=0.98, weight_decay=0.01)
    )

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, state: Any, batch: Any) -> tuple[Any, Any, jax.Array]:
        def loss_of(params: Any) -> jax.Array:
            hidden, _ = nn.apply(Decoder.__call__, model)(
                {"params": params}, batch["ids"], batch["positions"], batch["segments"]
            )
            logits = nn.apply(Decoder.logits, model)({"params": params}, hidden[:, :-1])
            nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch["ids"][:, 1:])
            mask = batch["mask"][:, 1:]
            return jnp.sum(jnp.where(mask, nll, 0)) / jnp.sum(mask)

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    digest = ""
    state, recent, started = tx.init(params), [], time.perf_counter()
    for k in range(recipe.steps):
        params, state, loss = step(params, state, batch)
        batch = next(stream)  # drawn while the device works on the step just dispatched
        recent.append(loss)
        if (k + 1) % 100 == 0 or k + 1 == recipe.steps:
            log(f"step {k + 1} loss {float(np.mean(recent)):.4f} {time.perf_counter() - started:.0f} s")
            recent = []
        if (k + 1) % 500 == 0 or k + 1 == recipe.steps:
            digest = save_base(
                jax.device_get(params),
                config,
                out,
                "embedded",
                tokenizer="byte-v1",
                recipe={"steps": k + 1, "seed": recipe.seed, "careless_share": recipe.careless_share},
            )
    return digest


if __name__ == "__main__":
    train(Recipe(), Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS)
