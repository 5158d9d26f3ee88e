"""The link check follows relative links and anchors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_links_that_lead_nowhere_are_named(tool: Callable[[str], Any], tmp_path: Path) -> None:
    """A missing file and a missing heading are reported; other sites and code blocks are not looked at."""
    (tmp_path / "there.md").write_text("# A heading, here\n")
    page = tmp_path / "page.md"
    text = (
        "[a](there.md) [b](there.md#a-heading-here) [c](gone.md) [d](there.md#gone) [e](#gone)\n"
        "[f](https://example.org/x)\n```\n[g](also-gone.md)\n```\n"
    )
    page.write_text(text)

    assert list(tool("check_links").broken(page, text)) == [
        "gone.md: no such file",
        "there.md#gone: no such heading",
        "#gone: no such heading",
    ]
