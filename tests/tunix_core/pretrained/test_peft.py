"""Adapters in PEFT's layout: what goes out comes back, and whatever does not belong here is refused by name."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.tunix_core.pretrained.make_golden import reference, token_ids
from tests.tunix_core.pretrained.test_architectures import folder_of
from tunix_core.errors import AssetError
from tunix_core.model.config import lora_targets
from tunix_core.model.decoder import Decoder
from tunix_core.pretrained import load_weights, open_model
from tunix_core.pretrained.peft import SETTINGS, WEIGHTS, export_adapter, import_adapter
from tunix_core.testing import tiny_base
from tunix_core.types import LoraSpec

BASE = tiny_base(layers=2)
LORA = LoraSpec(rank=3, alpha=6.0)
HAVE_PEFT = all(importlib.util.find_spec(name) for name in ("peft", "transformers", "torch"))


def factors_for(config: Any, rank: int, room: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng, layers = np.random.default_rng(0), config.num_hidden_layers
    out = {}
    for name, (d_in, d_out) in lora_targets(config).items():
        a, b = np.zeros((layers, d_in, room), np.float32), np.zeros((layers, room, d_out), np.float32)
        a[:, :, :rank] = rng.normal(size=(layers, d_in, rank)) / 4
        b[:, :rank] = rng.normal(size=(layers, rank, d_out)) / 4
        out[name] = (a, b)
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    export_adapter(tmp_path, factors_for(BASE.config, 3, 5), LORA, {"name": "tiny", "sha256": "a" * 64})
    return tmp_path


def test_what_goes_out_comes_back_to_the_bit(folder: Path) -> None:
    back = import_adapter(folder, BASE.config, LORA, "a" * 64)
    for name, (a, b) in factors_for(BASE.config, 3, 5).items():
        np.testing.assert_array_equal(back[name][0], a[:, :, :3])
        np.testing.assert_array_equal(back[name][1], b[:, :3])


def edit_settings(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / SETTINGS
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def edit_tensors(change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS)

    return edit


def rename_all(tensors: dict[str, np.ndarray]) -> None:
    for name in list(tensors):
        tensors[name.replace("base_model.", "")] = tensors.pop(name)


FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no match": (edit_tensors(rename_all), "0 of 28 expected tensors are there, 28 have no place"),
    "a tensor less": (edit_tensors(lambda t: t.pop(FIRST)), "27 of 28 .* missing, e.g., .*q_proj.lora_A"),
    "a tensor more": (edit_tensors(lambda t: t.update(x=t[FIRST])), "1 have no place"),
    "another shape": (
        edit_tensors(lambda t: t.update({FIRST: t[FIRST].T.copy()})),
        "this base and rank ask for",
    ),
    "NaN": (edit_tensors(lambda t: t[FIRST].fill(np.nan)), "not finite"),
    "cut": (lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-9]), "missing, cut or altered"),
    "no file": (lambda f: (f / WEIGHTS).unlink(), "missing, cut or altered"),
    "no settings": (lambda f: (f / SETTINGS).unlink(), "cannot be read"),
    "another rank": (edit_settings(r=8), "rank 8, the run has 3; --set lora_rank=8"),
    "another scale": (edit_settings(lora_alpha=99), "lora_alpha 99"),
    "DoRA": (edit_settings(use_dora=True), "use_dora"),
    "another kind": (edit_settings(peft_type="LOHA"), "only LoRA"),
    "another target": (edit_settings(target_modules=["c_attn"]), "target_modules"),
}


@pytest.mark.parametrize(("damage", "said"), FAULTS.values(), ids=FAULTS)
def test_what_does_not_belong_here_is_refused(
    folder: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(folder)
    with pytest.raises(AssetError, match=said):
        import_adapter(folder, BASE.config, LORA, "a" * 64)


def test_an_adapter_of_another_base_is_refused(folder: Path) -> None:
    with pytest.raises(AssetError, match="another base model"):
        import_adapter(folder, BASE.config, LORA, "b" * 64)


@pytest.mark.slow
@pytest.mark.skipif(not HAVE_PEFT, reason="torch, transformers and peft are not installed")
def test_peft_and_transformers_give_the_same_logits(tmp_path: Path) -> None:
    import torch
    from peft import PeftModel

    (tmp_path / "base").mkdir()
    folder_of("qwen2", tmp_path / "base")
    base = load_weights(open_model(tmp_path / "base"), "qwen2")
    factors = factors_for(base.config, 3, 3)
    export_adapter(tmp_path / "adapter", factors, LORA, {"name": "qwen2", "sha256": base.sha256})
    ids = token_ids("qwen2")
    theirs: Any = PeftModel.from_pretrained(reference("qwen2")[3], str(tmp_path / "adapter"))
    with torch.no_grad():
        expected = theirs(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()
    rows = {n: (a[:, None], b[:, None] * (LORA.alpha / LORA.rank)) for n, (a, b) in factors.items()}
    model: Any = Decoder(base.config)
    positions = np.arange(len(ids))[None]
    hidden, _ = model.apply({"params": base.params}, ids[None], positions, np.ones_like(positions), rows)
    found = model.apply({"params": base.params}, hidden[0], method="logits")
    np.testing.assert_allclose(found, expected, atol=5e-4)
    plain = reference("qwen2")[2]
    assert np.abs(plain - expected).max() > 0.1, "the adapter does something"
