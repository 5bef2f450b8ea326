"""Writes the base model as a Llama of the `transformers` library, and what its logits have to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

from tests.benchmarks.peers.common import BOS, MODEL, NEVER, PAD, Job, prompt_ids
from tunix_core.model.config import ModelConfig, lora_targets
from tunix_core.model.decoder import Decoder
from tunix_core.model.load import BaseModel

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


def llama_weights(base: BaseModel) -> dict[str, np.ndarray]:
    """The weights by their names in a Llama checkpoint; a matrix is [out, in] there."""
    layers = base.params["layers"]
    out = {
        "model.embed_tokens.weight": base.params["embed_tokens"],
        "model.norm.weight": base.params["norm"]["scale"],
    }
    for i in range(base.config.num_hidden_layers):
        head = f"model.layers.{i}"
        for name in ("input_layernorm", "post_attention_layernorm"):
            out[f"{head}.{name}.weight"] = layers[name]["scale"][i]
        for name in lora_targets(base.config):
            part = "self_attn" if name in ATTENTION else "mlp"
            out[f"{head}.{part}.{name}.weight"] = layers[name]["kernel"][i].T
    if not base.config.tie_word_embeddings:
        out["lm_head.weight"] = base.params["lm_head"].T
    return {name: np.ascontiguousarray(x, np.float32) for name, x in out.items()}


def llama_config(config: ModelConfig) -> dict[str, Any]:
    """The `config.json` of a Llama checkpoint."""
    return {
        **config.as_dict(),
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "float32",
        "bos_token_id": BOS,
        "eos_token_id": NEVER,
        "pad_token_id": PAD,
    }


def logits_of(config: ModelConfig, params: Any, job: Job) -> np.ndarray:
    """Logits [prompts, length, vocabulary] of the job's prompts."""
    ids = jnp.asarray([prompt_ids(text) for text in job.prompts], jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
    model, weights = Decoder(config), {"params": params}
    hidden = model.apply(weights, ids, positions, jnp.ones_like(ids))[0]
    return np.asarray(model.apply(weights, hidden, method="logits"))


def export(base: BaseModel, job: Job, folder: Path) -> None:
    """Writes job, model and reference logits into a folder."""
    model = folder / MODEL
    model.mkdir(parents=True)
    save_file(llama_weights(base), model / "model.safetensors", metadata={"format": "pt"})
    (model / "config.json").write_text(json.dumps(llama_config(base.config), indent=1))
    np.save(folder / "logits.npy", logits_of(base.config, base.params, job))
    job.save(folder)
