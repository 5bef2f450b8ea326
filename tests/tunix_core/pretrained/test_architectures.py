"""Every architecture gives the logits that Hugging Face transformers gives on the same weights."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.tunix_core.pretrained.make_golden import CASES, GOLDEN, LENGTH, reference, token_ids, weight
from tunix_core.errors import AssetError
from tunix_core.model.decoder import Decoder, NewKV, Past, empty_cache, empty_recent, write_prompt
from tunix_core.pretrained import load_weights, open_model

HAVE_TRANSFORMERS = bool(importlib.util.find_spec("transformers") and importlib.util.find_spec("torch"))
ATOL = 2e-4
"""Of logits with a spread of about 1, in float32."""


def folder_of(case: str, folder: Path) -> np.ndarray:
    """Writes the checkpoint of a case; returns the logits it should give."""
    with np.load(GOLDEN) as golden:
        told, logits = json.loads(golden[f"{case}/told"].tobytes()), golden[f"{case}/logits"]
    (folder / "config.json").write_text(json.dumps(told["config"]))
    save_file({n: weight(n, tuple(s)) for n, s in told["shapes"].items()}, folder / "model.safetensors")
    return logits


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    expected = folder_of(case, tmp_path)
    base = load_weights(open_model(tmp_path), case)
    model: Any = Decoder(base.config)
    positions = jnp.arange(LENGTH)[None]
    hidden, new = model.apply(
        {"params": base.params}, token_ids(case)[None], positions, jnp.ones_like(positions)
    )
    found = model.apply({"params": base.params}, hidden[0], method="logits")
    np.testing.assert_allclose(found, expected, atol=ATOL)
    # one more token out of the cache, past the window of the local layers, is the last token of the whole
    split = LENGTH - 1
    read = NewKV(new.k[:, :, :split], new.v[:, :, :split])
    empty = empty_cache(base.config, 1, LENGTH)
    cache = write_prompt(empty, read, jnp.asarray([0]), jnp.asarray([True]))
    past = Past(cache, empty_recent(base.config, 1, 2), jnp.asarray([split]), jnp.int32(0))
    hidden, _ = model.apply(
        {"params": base.params}, token_ids(case)[None, split:], jnp.asarray([[split]]), None, None, past
    )
    decoded = model.apply({"params": base.params}, hidden[0], method="logits")
    np.testing.assert_allclose(decoded[0], expected[split], atol=ATOL)


@pytest.mark.slow
@pytest.mark.skipif(not HAVE_TRANSFORMERS, reason="torch and transformers are not installed")
@pytest.mark.parametrize("case", CASES)
def test_golden_logits_are_what_transformers_computes_today(case: str) -> None:
    with np.load(GOLDEN) as golden:
        np.testing.assert_allclose(reference(case)[2], golden[f"{case}/logits"], atol=1e-5)


def test_a_weight_without_a_place_is_refused(tmp_path: Path) -> None:
    folder_of("llama", tmp_path)
    from safetensors.numpy import load_file

    tensors = load_file(tmp_path / "model.safetensors")
    save_file(
        {**tensors, "model.layers.0.mlp.experts": np.ones(2, np.float32)}, tmp_path / "model.safetensors"
    )
    with pytest.raises(AssetError, match="no place in the decoder"):
        load_weights(open_model(tmp_path), "x")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(AssetError, match=r"layers\.1\.mlp\.up_proj\.weight is missing"):
        load_weights(open_model(tmp_path), "x")


def test_a_cut_shard_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    folder_of("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(AssetError, match="cut or altered"):
        open_model(tmp_path)
