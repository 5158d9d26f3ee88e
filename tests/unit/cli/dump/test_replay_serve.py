"""`interpose dump replay --serve`: before it serves; how it answers is tested as a process."""

from pathlib import Path

from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.testing.recordings import sample_recording


def test_a_file_that_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    """Whatever it is, it is somebody's."""
    path = tmp_path / "precious"
    path.write_text("data")
    recording = sample_recording(tmp_path / "node.crirec")
    result = CliRunner().invoke(cli, ["dump", "replay", str(recording), "--serve", str(path)])
    assert result.exit_code != 0
    assert str(path) in result.stderr
    assert path.read_text() == "data"
