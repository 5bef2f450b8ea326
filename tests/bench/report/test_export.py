"""The report as Markdown and as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.cli import invoke
from bench.report import export
from bench.report.material import Material
from tests.leaderboard import golden


def test_markdown_has_the_verdict_the_labels_and_a_table_a_figure(material: Material) -> None:
    text = export.markdown(material)
    assert material.document["comparison"]["verdict"].replace("<", "&lt;") in text
    assert all(label in text for label in material.document["labels"])
    assert f"{material.document['comparison']['speedup']:.2f}×" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 30
    assert "<svg" not in text and "data-key" not in text


def test_markdown_keeps_a_records_text_in_its_place(tmp_path: Path) -> None:
    from bench.report.material import gather

    run = golden.build(tmp_path / "r")
    golden.edit_header(run, lambda h: h.update(warnings=["a | b <img src=x>\n# no heading"]))
    text = export.markdown(gather(run))
    assert "a \\| b &lt;img src=x> # no heading" in text and "\n# no heading" not in text


def test_the_picture_is_one_whole_drawing_with_the_labels(material: Material) -> None:
    root = ElementTree.fromstring(export.picture(material))
    said = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert all(label in said for label in material.document["labels"])
    assert {"Token ledger", "Utilization over time", "Time ratio by task"} <= set(said)
    assert "var(" not in export.picture(material)


def test_a_png_is_drawn(run: Path, tmp_path: Path) -> None:
    pytest.importorskip(export.RENDERER, reason="resvg-py is not installed")
    out = tmp_path / "page.png"
    assert invoke(["report", str(run), "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG\r\n")


def test_without_the_renderer_a_png_is_refused_with_a_remedy(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, export.RENDERER, None)
    assert invoke(["report", str(run), "--format", "png", "--out", str(tmp_path / "page.png")]) == 6
    said = capsys.readouterr().err
    assert "resvg-py" in said and "async-rl-bench[png]" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--format", "pdf"), "--format pdf is none of html, md, png"),
        (("--format", "md", "--out", "x.html"), "is no .md file"),
    ],
)
def test_a_wrong_format_is_named(
    run: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert invoke(["report", str(run), *options]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mine.html", "README.md", "mine.png"])
def test_a_file_that_is_no_report_is_kept(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    mine = tmp_path / name
    mine.write_text("written by hand")
    assert invoke(["report", str(run), "--out", str(mine)]) == 2
    assert "is there already and is no report" in capsys.readouterr().err
    assert mine.read_text() == "written by hand"


def test_a_page_of_ones_own_with_a_heading_like_ours_is_kept(run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "README.md"
    mine.write_text("# Mine\n\n## Run it\n\n# Run 1\n")
    assert invoke(["report", str(run), "--out", str(mine)]) == 2
    assert mine.read_text().startswith("# Mine")


@pytest.mark.parametrize("name", ["a.html", "a.md"])
def test_a_report_is_overwritten_by_the_next(run: Path, tmp_path: Path, name: str) -> None:
    assert invoke(["report", str(run), "--out", str(tmp_path / name)]) == 0
    assert invoke(["report", str(run), "--out", str(tmp_path / name)]) == 0
