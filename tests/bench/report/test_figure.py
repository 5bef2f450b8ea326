"""figure.svg, which every run writes of itself before it is sealed."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.report import write_figure
from leaderboard.records import RunRecord
from tests.leaderboard import golden

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def unsealed(tmp_path: Path) -> Path:
    """A run as it is when its figure is drawn: before the manifest."""
    run = golden.build(tmp_path / "a.run")
    (run / "manifest.json").unlink()
    return run


def texts(svg: Path) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg.read_text()).iter(f"{SVG}text")]


def test_figure_is_drawn_before_the_run_is_sealed(unsealed: Path) -> None:
    path = write_figure(unsealed)
    assert path == unsealed / "figure.svg"
    root = ElementTree.fromstring(path.read_text())
    record = RunRecord.open(unsealed)
    first = [view for view in record.views if view.seed == record.views[0].seed]
    curves, samples = sum(len(view.tenants) for view in first), len(first)
    assert len(list(root.iter(f"{SVG}polyline"))) == curves + samples


def test_figure_names_axes_units_and_every_role(unsealed: Path) -> None:
    shown = texts(write_figure(unsealed))
    assert {"train", "decode", "prefill", "sync", "bubble: the device waits", "seconds"} <= set(shown)
    tenants = len(RunRecord.open(unsealed).views[0].tenants)
    assert shown.count("wall time since the arm's start (s)") == shown.count("accuracy") == tenants


@pytest.mark.parametrize("simulated", [True, False])
def test_figure_says_simulated_where_the_latency_is(unsealed: Path, simulated: bool) -> None:
    golden.edit_header(unsealed, lambda header: header["latency"].update(simulated=simulated))
    assert any("SIMULATED" in text for text in texts(write_figure(unsealed))) is simulated


def test_figure_needs_no_page_for_its_colours_and_follows_the_viewers_scheme(unsealed: Path) -> None:
    svg = write_figure(unsealed).read_text()
    assert "var(" not in svg and "light-dark(" not in svg
    assert "prefers-color-scheme: dark" in svg


def test_figure_has_a_ground_of_its_own_and_nothing_lies_outside(unsealed: Path) -> None:
    root = ElementTree.fromstring(write_figure(unsealed).read_text())
    ground = next(e for e in root.iter(f"{SVG}rect") if e.get("class") == "ground")
    assert (ground.get("width"), ground.get("height")) == (root.get("width"), root.get("height"))
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_figure_of_a_run_without_updates_says_so(unsealed: Path) -> None:
    (unsealed / "updates.jsonl").write_bytes(b"")
    assert "No update was made." in texts(write_figure(unsealed))


def test_figure_shows_a_hostile_name_as_text(unsealed: Path) -> None:
    hostile = "<script>&\u202e"
    golden.edit_header(unsealed, lambda header: header["latency"].update(simulated=True, description=hostile))
    path = write_figure(unsealed)
    assert "<script" not in path.read_text()
    assert any("<script>&\ufffd" in text for text in texts(path))
