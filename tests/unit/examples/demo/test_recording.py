"""What the demo shows of its recording."""

from pathlib import Path

from examples.demo.recording import write_page
from interpose.testing.recordings import sample_recording


def test_a_page_has_all_calls(tmp_path: Path) -> None:
    """And is called as its recording is."""
    path, page = tmp_path / "calls.crirec", tmp_path / "calls.html"
    sample_recording(path)

    write_page(path, page)

    text = page.read_text()
    assert "<title>" in text
    assert "calls.crirec" in text
    assert "CreateContainer" in text
