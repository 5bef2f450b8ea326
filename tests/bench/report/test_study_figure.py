"""study.svg, and a report about a study."""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import study
from bench.errors import UsageError
from bench.report import write_study_figure
from bench.report.figures import all_figures
from bench.report.material import gather
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


def test_a_page_about_a_study_is_about_its_largest_run_and_has_the_scaling(out: Path) -> None:
    material = gather(out)
    assert material.document["run"]["path"].endswith("n006")
    assert material.document["study"] == study.as_dict(out)
    scaling = next(figure for figure in all_figures(material) if figure.key == "scaling")
    assert len(scaling.drawings) == 4 and len(scaling.tables[0].rows) == 4


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no run\.json, and no records of a study"):
        gather(tmp_path)
