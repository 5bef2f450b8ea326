"""Model files: what was written comes back; what was altered, cut or lost is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tunix_core.errors import AssetError, ConfigError
from tunix_core.model.load import ASSETS, check_asset, file_sha256, flatten, load_base, save_base, unflatten
from tunix_core.testing import tiny_base

BASE = tiny_base()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_base(BASE.params, BASE.config, tmp_path, "m", note="a test")
    return tmp_path


def test_a_saved_model_comes_back_as_float32_rounded_to_float16(folder: Path) -> None:
    loaded = load_base("m", folder)
    assert loaded.config == BASE.config
    assert loaded.sha256 == file_sha256(folder / "m.safetensors")
    expected, found = flatten(BASE.params), flatten(loaded.params)
    assert sorted(found) == sorted(expected)
    for name, value in found.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, expected[name].astype(np.float16).astype(np.float32))
    assert loaded.parameters == sum(x.size for x in expected.values())


def test_the_card_keeps_what_was_said_about_the_model(folder: Path) -> None:
    card = check_asset("m", folder)
    assert card["note"] == "a test"
    assert card["parameters"] == BASE.parameters


def test_flattening_is_undone() -> None:
    tree = {"a": {"b": {"c": np.ones(2)}, "d": np.zeros(1)}, "e": np.ones(3)}
    assert sorted(flatten(tree)) == ["a.b.c", "a.d", "e"]
    assert flatten(unflatten(flatten(tree))).keys() == flatten(tree).keys()


def flip_one_byte(folder: Path) -> None:
    path = folder / "m.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut(folder: Path) -> None:
    path = folder / "m.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def cut_and_recount(folder: Path) -> None:
    """Cut before its checksum was taken: the checksum holds and the file is none."""
    cut(folder)
    card = json.loads((folder / "m.json").read_text())
    card["sha256"] = file_sha256(folder / "m.safetensors")
    (folder / "m.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (flip_one_byte, "has been altered"),
        (cut, "has been altered"),
        (cut_and_recount, "cannot be read"),
        (lambda f: (f / "m.safetensors").unlink(), "m.safetensors is missing"),
        (lambda f: (f / "m.json").unlink(), "m.json is missing"),
        (lambda f: (f / "m.json").write_text("{"), "not a model card"),
        (lambda f: (f / "m.json").write_text("{}"), "not a model card"),
    ],
)
def test_damage_is_named_with_its_remedy(folder: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(folder)
    with pytest.raises(AssetError, match=words) as caught:
        load_base("m", folder)
    assert str(folder) in str(caught.value)
    assert "reinstall" in str(caught.value)


def test_a_card_of_another_layout_is_refused(folder: Path) -> None:
    card = json.loads((folder / "m.json").read_text())
    card["config"]["hidden"] = 2
    (folder / "m.json").write_text(json.dumps(card))
    with pytest.raises(ConfigError, match="hidden"):
        load_base("m", folder)


@pytest.mark.skipif(not (ASSETS / "embedded.json").is_file(), reason="no embedded model is built here")
def test_the_embedded_model_loads_and_is_finite() -> None:
    base = load_base()
    assert all(np.isfinite(x).all() for x in flatten(base.params).values())
    assert base.parameters == check_asset()["parameters"]
