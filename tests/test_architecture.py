"""The import table and the ladder of the architecture, read from the source with `ast`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tasks", "tunix_core", "bench", "leaderboard")

FORBIDDEN = {
    "tasks": {"jax", "flax", "optax", "wandb", "tunix_core", "bench", "leaderboard"},
    "tunix_core": {"tasks", "bench", "leaderboard", "gymnasium", "wandb"},
    "leaderboard": {"jax", "flax", "optax", "wandb", "tunix_core", "bench"},
    "bench": set(),
}

LADDER = [
    {"types", "errors", "environment", "clock", "workers", "device", "memory"},
    {"advantages", "losses", "kl", "packing", "schedule", "streams", "tenant", "tokens", "evaluation"},
    {"model", "pretrained", "sampler", "learner", "telemetry", "scoring", "compile_cache"},
    {"actor", "env_pool", "buffer", "rollout", "runspec", "selfcheck", "inbox", "waits"},
    {"checkpoint", "resume"},
    {"trainer", "testing"},
]
"""A module of tunix_core imports from its own rung and those above it in this list, never from below."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Dotted names a file imports anywhere, lazily or not."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_the_table_allows(package: str) -> None:
    for path in modules(package):
        roots = {name.split(".")[0] for name in imported(path)}
        assert not roots & FORBIDDEN[package], (
            f"{path.relative_to(ROOT)} imports {roots & FORBIDDEN[package]}"
        )


def test_wandb_is_imported_by_its_tracker_alone() -> None:
    for path in modules("bench"):
        if "wandb" in {name.split(".")[0] for name in imported(path)}:
            assert path.parent.name == "trackers", f"{path.relative_to(ROOT)} imports wandb"


def test_tunix_core_imports_go_down_the_ladder() -> None:
    rung = {name: i for i, names in enumerate(LADDER) for name in names}
    for path in modules("tunix_core"):
        own = path.relative_to(ROOT / "tunix_core").parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        assert own in rung, f"tunix_core/{own} is on no rung of the ladder; give it one"
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "tunix_core" and len(parts) > 1:
                assert rung[parts[1]] <= rung[own], f"tunix_core/{own} imports {name} from a later rung"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.argv = ['bench', '--help']\nfrom bench.cli import main\n"
        "try: main()\nexcept SystemExit: pass",
        "import leaderboard, leaderboard.verify, leaderboard.submit",
        "import tasks",
    ],
    ids=["bench --help", "leaderboard", "tasks"],
)
def test_light_commands_load_no_heavy_library(code: str) -> None:
    check = "\nimport sys\nheavy = {'jax', 'flax', 'wandb', 'datasets', 'torch'} & set(sys.modules)"
    check += "\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code + check], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
