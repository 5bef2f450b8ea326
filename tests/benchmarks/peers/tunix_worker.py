"""The worker of google-tunix: its GRPOLearner with a qwix LoRA and its own sampler. Started by `peers_speed`.

    python -m tests.benchmarks.peers.tunix_worker FOLDER

Actor and sampler share one mesh of one device, so weights are shared and not copied; nothing is offloaded, logged or
computed twice (no reference model, one pass over a batch, the whole batch at once).
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from tests.benchmarks.peers.common import (
    BOS,
    MODEL,
    NEVER,
    Gate,
    Job,
    check_logits,
    lines_to_parent,
    load_job,
    prompt_ids,
    reward,
)

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
UNUSED = NEVER - 1
"""Pads; like NEVER an id that no training text has, so that no sampled token is taken for padding."""


class Tokenizer:
    """The project's ids for a prompt; says the lengths of what was sampled."""

    def __init__(self, job: Job, gate: Gate) -> None:
        self.job, self.gate = job, gate

    def encode(self, text: str, **_: Any) -> list[int]:
        """A prompt's context."""
        return prompt_ids(text)

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        """A character an id."""
        if len(ids) != self.job.new_tokens:
            self.gate.problems.append(f"a completion has {len(ids)} tokens, not {self.job.new_tokens}")
        return "".join(chr(i) for i in ids)

    def bos_id(self) -> int:
        """Opens a context."""
        return BOS

    def eos_id(self) -> int:
        """Ends an answer, if it were ever sampled."""
        return NEVER

    def pad_id(self) -> int:
        """Fills arrays."""
        return UNUSED


def base_model(folder: Path, mesh: Any) -> Any:
    """The exported weights as tunix's Llama."""
    llama: Any = importlib.import_module("tunix.models.llama3.model")
    params = importlib.import_module("tunix.models.llama3.params")
    config = json.loads((folder / MODEL / "config.json").read_text())
    # tunix 0.1.7 has a rope_theta in its configuration and never passes it on: a constant, which costs no time
    llama.apply_rope = functools.partial(llama.apply_rope, rope_theta=config["rope_theta"])
    wanted = llama.ModelConfig(
        num_layers=config["num_hidden_layers"],
        vocab_size=config["vocab_size"],
        embed_dim=config["hidden_size"],
        hidden_dim=config["intermediate_size"],
        num_heads=config["num_attention_heads"],
        head_dim=config["head_dim"],
        num_kv_heads=config["num_key_value_heads"],
        rope_theta=config["rope_theta"],
        norm_eps=config["rms_norm_eps"],
        weight_tying=config["tie_word_embeddings"],
    )
    return params.create_model_from_safe_tensors(str(folder / MODEL), wanted, mesh, dtype=jnp.float32)


def logits_of(model: Any, job: Job) -> np.ndarray:
    """Logits of the job's prompts."""
    ids = jnp.asarray([prompt_ids(text) for text in job.prompts], jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
    mask = jnp.broadcast_to(jnp.tril(jnp.ones((ids.shape[1],) * 2, bool)), (*ids.shape, ids.shape[1]))
    return np.asarray(model(ids, positions, None, mask)[0])


def with_lora(model: Any, job: Job, mesh: Any) -> Any:
    """The model with an adapter on every matrix of a block."""
    tools = importlib.import_module("tunix.cli.utils.model")
    path = "|".join(f".*{name}" for name in TARGETS)
    return tools.apply_lora_to_model(model, mesh, {"module_path": path, "rank": job.rank, "alpha": job.alpha})


def cluster(model: Any, job: Job, tokenizer: Tokenizer, mesh: Any) -> Any:
    """Actor and sampler on one mesh."""
    rl = importlib.import_module("tunix.rl.rl_cluster")
    rollout = importlib.import_module("tunix.rl.rollout.base_rollout")
    context = len(prompt_ids(job.prompts[0]))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(job.learning_rate))
    config = rl.ClusterConfig(
        role_to_mesh={role: mesh for role in (rl.Role.ACTOR, rl.Role.REFERENCE, rl.Role.ROLLOUT)},
        rollout_engine="vanilla",
        offload_to_cpu=False,
        training_config=rl.RLTrainingConfig(
            actor_optimizer=optimizer, eval_every_n_steps=10**9, max_steps=100_000
        ),
        rollout_config=rollout.RolloutConfig(
            max_tokens_to_generate=job.new_tokens,
            max_prompt_length=context,
            kv_cache_size=context + job.new_tokens,
            temperature=1.0,
            top_p=1.0,
            top_k=None,
            eos_tokens=[NEVER],
        ),
    )
    return rl.RLCluster(actor=model, tokenizer=tokenizer, cluster_config=config)


def batches(job: Job, gate: Gate, actor: Any) -> Iterator[dict[str, Any]]:
    """An update's prompts, handed out once the parent has asked for the update and the one before is done."""
    for i in itertools.count():
        if i:
            jax.block_until_ready(nnx.state(actor, nnx.LoRAParam))
            if not gate.passed():
                return
        chosen = range(i * job.groups_per_update, (i + 1) * job.groups_per_update)
        yield {"prompts": np.asarray([job.prompts[k % len(job.prompts)] for k in chosen])}


def main() -> int:
    """Trains until the parent has enough."""
    stream = lines_to_parent()
    grpo = importlib.import_module("tunix.rl.grpo.grpo_learner")
    version = importlib.import_module("importlib.metadata").version
    folder = Path(sys.argv[1])
    job = load_job(folder)
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:1]).reshape(1, 1), ("fsdp", "tp"))
    base = base_model(folder, mesh)
    about: dict[str, Any] = {"name": "google-tunix", "tunix": version("google-tunix"), "jax": jax.__version__}
    about["logits off by"] = check_logits(folder, logits_of(base, job))
    model = with_lora(base, job, mesh)
    about["adapter weights"] = sum(x.size for x in jax.tree.leaves(nnx.state(model, nnx.LoRAParam)))
    gate = Gate(job, about, stream)
    made = cluster(model, job, Tokenizer(job, gate), mesh)

    def graded(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        if len(completions) != job.rollouts:
            gate.problems.append(f"{len(completions)} completions, not {job.rollouts}")
        return [reward(text) for text in completions]

    learner = grpo.GRPOLearner(
        rl_cluster=made,
        algo_config=grpo.GRPOConfig(num_generations=job.group_size, num_iterations=1, beta=0.0),
        reward_fns=graded,
    )
    with mesh:
        learner.train(batches(job, gate, made.actor_trainer.model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
