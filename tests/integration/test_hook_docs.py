"""The code on the page for plugin authors works as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from interpose.testing.eventually import WAIT_LIMIT

PAGE = Path(__file__).parents[2] / "docs/hooks/writing-a-plugin.md"
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_plugin_and_its_test(scratch: Path) -> None:
    """The plugin runs, registers, is asked by a relay, and the page's own test says that it does what it says."""
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    assert blocks.keys() == {"plugin.py", "test_plugin.py"}
    for name, text in blocks.items():
        (scratch / name).write_text(text)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        scratch,
        "test_plugin.py",
    ]

    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"--basetemp={scratch}/t"],
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_LIMIT,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
