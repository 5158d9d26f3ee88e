"""How the demo runs commands."""

from pathlib import Path

import pytest

from examples.demo.places import Places
from examples.demo.programs import Shell, complaints, print_indented, running, until
from tests.support.lab.processes import LabError


async def test_a_command_is_run_as_it_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the folder, with its settings, on a terminal of our width; what it says is shown and given back."""
    shell = Shell(Places(tmp_path), 80)

    said = await shell.run("pwd; echo $INTERPOSE_LISTEN; test -t 1 && stty size <&1")

    assert said == f"{tmp_path}\n{tmp_path}/cri.sock\n1000 78\n"
    assert capsys.readouterr().out == (
        f"  $ pwd; echo $INTERPOSE_LISTEN; test -t 1 && stty size <&1\n  {tmp_path}\n  {tmp_path}/cri.sock\n  1000 78\n"
    )


async def test_a_command_that_fails_is_an_error(tmp_path: Path) -> None:
    """With all that it said."""
    with pytest.raises(LabError, match=r"ended with 3\nout\nerr"):
        await Shell(Places(tmp_path), 80).run("echo out; echo err >&2; exit 3")


def test_what_commands_say_is_indented(capsys: pytest.CaptureFixture[str]) -> None:
    """Without blanks at the end of lines and without empty lines at the end."""
    print_indented("a\n\nb  \n\n")

    assert capsys.readouterr().out == "  a\n\n  b\n"


async def test_a_program_that_ends_is_an_error(tmp_path: Path) -> None:
    """With its last words."""
    with pytest.raises(LabError, match="No such command"):
        async with running(Places(tmp_path), tmp_path / "never.sock", "no-such-command"):
            pass


async def test_what_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while."""
    monkeypatch.setattr("examples.demo.programs.START", 0.0)

    async def never() -> bool:
        return False

    with pytest.raises(AssertionError, match="in vain for rain"):
        await until(never, "rain")


def test_complaints_of_programs_are_found(tmp_path: Path) -> None:
    """The last ones, with the program."""
    (tmp_path / "relay.log").write_text("I1 fine\n" + "".join(f"E{n} odd\n" for n in range(9)))
    (tmp_path / "pod.log").write_text("error: no such pod\n")

    assert complaints(tmp_path) == [
        "pod.log: error: no such pod",
        "relay.log: E6 odd",
        "relay.log: E7 odd",
        "relay.log: E8 odd",
    ]
