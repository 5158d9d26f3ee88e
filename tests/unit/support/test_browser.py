"""The browser of tests; what it does is seen in tests/e2e/test_dump_page.py."""

from pathlib import Path

import pytest

from tests.support.browser import Browser


def test_a_machine_without_a_browser_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tests that need one are skipped with this reason."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert Browser.missing() == "not installed: chromium"
