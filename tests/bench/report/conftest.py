from __future__ import annotations

from pathlib import Path

import pytest

from bench.report.material import Material, gather
from tests.leaderboard import golden


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up run of two arms, two seeds and three tenants."""
    return golden.build(tmp_path_factory.mktemp("report") / "a.run", seeds=(1, 2))


@pytest.fixture(scope="session")
def material(run: Path) -> Material:
    return gather(run)
