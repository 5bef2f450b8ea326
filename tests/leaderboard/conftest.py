from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.leaderboard import golden


@pytest.fixture(scope="session")
def golden_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The untouched golden run; tests that change it take `run`."""
    return golden.build(tmp_path_factory.mktemp("golden") / "run")


@pytest.fixture
def run(golden_run: Path, tmp_path: Path) -> Path:
    """A golden run of the test's own."""
    return Path(shutil.copytree(golden_run, tmp_path / "run"))


@pytest.fixture
def codes() -> Callable[[Path], tuple[str, ...]]:
    """The error codes that verification finds."""
    from leaderboard.verify import verify

    return lambda directory: verify(directory).codes
