"""What a container leaves behind."""

import json
from pathlib import Path

from interpose.node.runtime.shim.containers import write_record


def test_a_record_is_whole_or_the_old_one(tmp_path: Path) -> None:
    """It takes the place of what was there, and nothing else is left."""
    path = tmp_path / "exit.json"
    path.write_text("old")

    write_record(str(path), {"code": 3})

    assert json.loads(path.read_text()) == {"code": 3}
    assert [entry.name for entry in tmp_path.iterdir()] == ["exit.json"]
