"""Reports are written to their files and documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtests.reports.publish import NoMarksError, check_marks, insert, insert_found, write


def test_three_files_and_their_folder(tmp_path: Path) -> None:
    files = write(tmp_path / "a/b", "bench", "text\n\n", b"{}", "<p>")
    assert [file.name for file in files] == ["bench.md", "bench.json", "bench.html"]
    assert [file.read_text() for file in files] == ["text\n", "{}\n", "<p>\n"]


def test_a_report_replaces_the_previous_one(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# Title\n\n<!-- growth: begin -->\nold\n<!-- growth: end -->\n\nThe end.\n")
    insert(document, "growth", "\nnew\n")
    expected = "# Title\n\n<!-- growth: begin -->\n\nnew\n\n<!-- growth: end -->\n\nThe end.\n"
    assert document.read_text() == expected
    insert(document, "growth", "new")
    assert document.read_text() == expected


@pytest.mark.parametrize(
    "text", ["", "<!-- report: begin -->", "<!-- growth: begin --> <!-- growth: end -->"]
)
def test_a_document_without_markers_is_unchanged(tmp_path: Path, text: str) -> None:
    document = tmp_path / "page.md"
    document.write_text(text)
    with pytest.raises(NoMarksError, match="has no place for a report: <!-- report: begin -->"):
        insert(document, "report", "new")
    assert document.read_text() == text


def test_only_measured_sections_with_markers_are_replaced(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "<!-- cost: begin -->old<!-- cost: end --><!-- ahead: begin -->old<!-- ahead: end -->"
    )
    insert_found(document, {"cost": "new", "ahead": "", "capacity": "nowhere"})
    assert document.read_text() == (
        "<!-- cost: begin -->\n\nnew\n\n<!-- cost: end --><!-- ahead: begin -->old<!-- ahead: end -->"
    )


def test_markers_are_checked_before_a_run(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    with pytest.raises(NoMarksError, match="cannot be read"):
        check_marks(document, ["report"])
    document.write_text("<!-- cost: end --> <!-- cost: begin -->")
    with pytest.raises(NoMarksError, match="has no place for a report: <!-- report: begin -->"):
        check_marks(document, ["report", "cost"])
    document.write_text("<!-- cost: begin --> <!-- cost: end -->")
    check_marks(document, ["report", "cost"])


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ("PERFORMANCE.md", ("ahead", "capacity", "cost", "storage")),
        ("PERFORMANCE_REPORT.md", ("report", "growth")),
    ],
)
def test_the_performance_pages_have_the_markers(document: str, names: tuple[str, ...]) -> None:
    page = (Path(__file__).parents[3] / "ops/docs" / document).read_text()
    for name in names:
        assert page.count(f"<!-- {name}: begin -->") == page.count(f"<!-- {name}: end -->") == 1
