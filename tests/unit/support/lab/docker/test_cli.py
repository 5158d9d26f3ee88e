"""The docker command of the lab, with scripts in its place."""

from pathlib import Path

import pytest

from tests.support.lab.docker.cli import DockerCli, Done, Parity, programs, settled
from tests.support.lab.processes import LabError


def script(folder: Path, text: str, name: str = "docker") -> str:
    """A program that is called like docker: `-H unix://SOCKET` and what was asked."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_differs_from_run_to_run_is_replaced() -> None:
    """Ids, times, ages."""
    text = b"a0edd2ae6c96 " + b"f" * 64 + b" 2026-11-16T15:07:33.5Z Up 2 seconds About a minute 0.25s kept"
    assert settled(text) == b"<short> <id> <time>Up <age> <age> <seconds> kept"


def test_a_command_to_its_end(tmp_path: Path) -> None:
    """Arguments, input, settings of its own, both outputs, exit code."""
    program = script(tmp_path, 'cat; echo "$@"; echo $DOCKER_CONFIG >&2; exit 3')
    done = DockerCli(tmp_path / "d.sock", program).run("ps", "-a", stdin=b"in\n")
    assert done == Done(
        code=3, out=f"in\n-H unix://{tmp_path}/d.sock ps -a\n".encode(), err=f"{tmp_path}/docker-config\n".encode()
    )
    assert done.text.startswith("in\n")


def test_talking_with_a_command(tmp_path: Path) -> None:
    """Lines come as they are printed; one that ends too early is an error."""
    cli = DockerCli(tmp_path / "d.sock", script(tmp_path, "echo ready; read word; echo got $word; cat"))
    with cli.open("attach") as talking:
        talking.until(b"ready\n")
        talking.type(b"one\n")
        talking.until(b"got one\n")
        talking.close_input()
        assert talking.end() == Done(code=0, out=b"ready\ngot one\n", err=b"")
    with cli.open("attach") as talking:
        talking.close_input()
        with pytest.raises(LabError, match="it ended before"):
            talking.until(b"never")


def test_a_command_on_a_terminal(tmp_path: Path) -> None:
    """It knows that it has one, and what is typed is shown."""
    cli = DockerCli(tmp_path / "d.sock", script(tmp_path, "test -t 0 && echo ready; cat; exit 4"))
    done = cli.on_terminal("exec", types={"ready\r\n": "hello\n", "hello\r\nhello\r\n": "\x04"})
    assert (done.code, done.out) == (4, b"ready\r\nhello\r\nhello\r\n")


def test_parity(tmp_path: Path) -> None:
    """The names of the sockets may differ, nothing else."""
    program = script(tmp_path, 'echo "$@"')
    one, two = DockerCli(tmp_path / "one.sock", program), DockerCli(tmp_path / "two.sock", program)
    assert Parity(direct=one, proxied=two).same("ps").code == 0
    other = DockerCli(tmp_path / "two.sock", script(tmp_path, "echo other", "docker2"))
    with pytest.raises(AssertionError, match="direct: Done"):
        Parity(direct=one, proxied=other).same("ps")


def test_every_docker_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to one that is known is not another one."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    first, second = script(tmp_path / "a", "true"), script(tmp_path / "b", "true")
    (tmp_path / "c" / "docker").symlink_to(first)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / name) for name in ("a", "b", "c", "missing")))
    assert programs() == [first, second]
