"""The probe under its old name; what it asks is in test_agent_probe."""

from pathlib import Path

import pytest

from interpose.cli.compat import cri_resmgr_agent_probe
from interpose.cli.compat.cri_resmgr_agent_probe import run_command


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The socket is named."""
    where = str(tmp_path / "x.sock")
    assert run_command(["-agent-socket", where]) == 1
    assert f"cannot connect to {where}: No such file or directory" in capsys.readouterr().err


def test_flags_of_the_old_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Help, and what is wrong."""
    assert run_command(["--help"]) == 0
    assert "--query string" in capsys.readouterr().out
    assert run_command(["-x"]) == 2
    assert "unknown flag -x" in capsys.readouterr().err


def test_a_socket_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Settings that cannot be used: 78."""
    assert run_command(["-agent-socket", "x.sock"]) == 78
    assert "is not absolute" in capsys.readouterr().err


def test_the_process_ends_with_the_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The entry point."""
    monkeypatch.setattr("sys.argv", ["cri-resmgr-agent-probe", "-agent-socket", str(tmp_path / "x.sock")])
    with pytest.raises(SystemExit) as ended:
        cri_resmgr_agent_probe.main()
    assert ended.value.code == 1
