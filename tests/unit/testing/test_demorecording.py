"""What the demo shows of its recording."""

from pathlib import Path

from interpose.testing.demorecording import listed_calls, write_page
from interpose.testing.recordings import sample_recording


def test_a_list_has_the_calls_that_were_wanted(tmp_path: Path) -> None:
    """Below its head there is a line for each, no wider than the terminal."""
    path = tmp_path / "calls.crirec"
    sample_recording(path)

    head, *lines = listed_calls(path, "~m CreateContainer", 80)

    assert "METHOD" in head
    assert any("CreateContainer" in line for line in lines)
    assert not any("Version" in line for line in lines)
    assert max(map(len, [head, *lines])) <= 80


def test_a_page_has_all_calls(tmp_path: Path) -> None:
    """And is called as its recording is."""
    path, page = tmp_path / "calls.crirec", tmp_path / "calls.html"
    sample_recording(path)

    write_page(path, page)

    text = page.read_text()
    assert "<title>" in text
    assert "calls.crirec" in text
    assert "CreateContainer" in text
