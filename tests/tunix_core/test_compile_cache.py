"""Compiled programs survive their process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunix_core import compile_cache

PROGRAM = """
import sys
from pathlib import Path
from tunix_core import compile_cache
from tunix_core.telemetry import compile_counter
compile_cache.MIN_COMPILE_S = 0.0
folder = compile_cache.use(Path(sys.argv[1]))
counter = compile_counter()
import jax, jax.numpy as jnp
jax.block_until_ready(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((8, 8))))
print(folder, counter.cache_hits > 0)
"""


def child(folder: Path, **env: str) -> str:
    rest = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        env=rest | env,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def test_the_next_process_finds_what_this_one_compiled(tmp_path: Path):
    assert child(tmp_path / "cache") == f"{tmp_path / 'cache'} False"
    assert any((tmp_path / "cache").iterdir())
    assert child(tmp_path / "cache") == f"{tmp_path / 'cache'} True"


def test_a_folder_given_to_jax_stays(tmp_path: Path):
    other = str(tmp_path / "other")
    assert child(tmp_path / "cache", JAX_COMPILATION_CACHE_DIR=other).split()[0] == other
    assert not (tmp_path / "cache").exists()


def test_the_default_is_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compile_cache.default_folder() == tmp_path / "async-rl-bench" / "compiled"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert compile_cache.default_folder().is_relative_to(Path.home() / ".cache")
