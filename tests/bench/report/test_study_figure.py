"""study.svg, and a report about a study."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import study
from bench.report import write_study_figure
from tests.leaderboard import golden


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two records of the same work; both have three tenants, one stands in a folder of another name."""
    out = tmp_path_factory.mktemp("study")
    golden.build(out / "n003")
    shutil.copytree(out / "n003", out / "n006")
    return out


def test_the_figure_has_a_line_an_arm_and_says_what_is_simulated(out: Path) -> None:
    found = study.as_dict(out)
    drawn = ElementTree.fromstring(write_study_figure(found, out).read_text())
    lines = [e for e in drawn.iter() if e.tag.endswith("polyline")]
    panels = 4
    assert len(lines) == 2 * panels + 2
    assert any("SIMULATED" in (e.text or "") for e in drawn.iter())
