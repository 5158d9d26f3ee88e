"""What a container says about its pool: CMK's command line in all its forms, and variables."""

import pytest

from interpose.core.policy.request import Key, Request
from interpose.core.policy.static_pools.cmk import ANY_SOCKET, PoolSelection, read_pool_selection


def wish(command: str | list[str] = "", args: list[str] | None = None, **envs: str) -> PoolSelection:
    """What a container with this command wants; a text is split at blanks."""
    words = command.split() if isinstance(command, str) else command
    return read_pool_selection(Request(key=Key("p", "c"), command=tuple(words), args=tuple(args or ()), envs=envs))


def test_a_container_may_say_nothing() -> None:
    """Then its command stays as it is."""
    assert (
        wish("sleep 10")
        == PoolSelection()
        == PoolSelection(pool="", socket=ANY_SOCKET, no_affinity=False, command=None)
    )
    assert wish() == PoolSelection()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cmk isolate --pool=a run -x", PoolSelection(pool="a", command=("run", "-x"))),
        ("cmk isolate --pool a run", PoolSelection(pool="a", command=("run",))),
        ("cmk isolate --pool=a -- run -- x", PoolSelection(pool="a", command=("run", "x"))),
        ("cmk isolate --pool=a -- run y -- x", PoolSelection(pool="a", command=("run", "y", "--", "x"))),
        ("cmk isolate --pool=a run -- -x", PoolSelection(pool="a", command=("run", "-x"))),
        ("/opt/bin/cmk isolate --pool=a run", PoolSelection(pool="a", command=("run",))),
        ("cmk isolate --socket-id=1 --pool=a run", PoolSelection(pool="a", socket=1, command=("run",))),
        ("cmk isolate --socket-id -1 --pool=a run", PoolSelection(pool="a", command=("run",))),
        ("cmk isolate --no-affinity --pool=a run", PoolSelection(pool="a", no_affinity=True, command=("run",))),
        ("cmk isolate --pool=a --conf-dir /etc/cmk run", PoolSelection(pool="a", command=("run",))),
        ("cmk isolate --odd=1 --pool=a --odder run --odd", PoolSelection(pool="a", command=("run", "--odd"))),
        ("cmk isolate --pool=a run --pool=b", PoolSelection(pool="a", command=("run", "--pool=b"))),
    ],
)
def test_the_call_is_taken_out_of_the_command(command: str, expected: PoolSelection) -> None:
    """Only the program is left; options behind its name are its own."""
    assert wish(command) == expected


def test_the_call_may_begin_in_the_command_and_go_on_in_the_arguments() -> None:
    """Both are one list of words."""
    assert wish(["cmk"], ["isolate", "--pool=a", "run"]) == PoolSelection(pool="a", command=("run",))
    assert wish([], ["cmk", "isolate", "--pool=a", "run"]) == PoolSelection(pool="a", command=("run",))


@pytest.mark.parametrize(
    ("script", "left"),
    [
        ("cmk isolate --pool=a run -x", "run -x"),
        ("/opt/bin/cmk isolate --pool=a -- run 'a  b' && echo $X", "run 'a  b' && echo $X"),
        ("  cmk  isolate --pool a run -- -x -- y", "  run -x -- y"),
        ("set -e; exec cmk isolate --pool='a' run; true", "set -e; exec run; true"),
        ('cd /x &&\ncmk isolate --pool="a" run', "cd /x &&\nrun"),
        ("(cmk isolate --pool=a run) | tee log", "(run) | tee log"),
        ("cmk isolate \\\n --pool=a \\\n run \\\n -x", "run \\\n -x"),
        ("if true; then cmk isolate --pool=a run; fi", "if true; then run; fi"),
        ("FOO=1 BAR='x y' cmk isolate --pool=a run", "FOO=1 BAR='x y' run"),
        ("cmk isolate --pool=a run;cleanup", "run;cleanup"),
    ],
)
def test_the_call_may_be_in_a_script(script: str, left: str) -> None:
    """The shell and the rest of its text stay as they are."""
    assert wish(["sh", "-c", script]) == PoolSelection(pool="a", command=("sh", "-c", left))
    assert wish(["bash"], ["-c", script, "zero"]) == PoolSelection(pool="a", command=("bash", "-c", left, "zero"))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["sh", "-c", "cmk isolate --pool=a run"], ("sh", "-c", "run")),
        (["-c", "cmk isolate --pool=a run"], ("/bin/sh", "-c", "run")),
        (["cmk isolate --pool=a run x"], ("/bin/sh", "-c", "run x")),
    ],
)
def test_a_script_without_a_command_gets_a_shell(args: list[str], expected: tuple[str, ...]) -> None:
    """What is replaced is the command of the image, which must have been one."""
    assert wish([], args) == PoolSelection(pool="a", command=expected)


@pytest.mark.parametrize(
    "command",
    [
        ["cmk", "nodes"],
        ["cmk"],
        ["xcmk", "isolate"],
        ["sh", "-c", "echo 'run; cmk isolate --pool=shared x'"],
        ["sh", "-c", "# cmk isolate is not used any more\nrun"],
    ],
)
def test_words_that_are_no_call_are_left_alone(command: list[str]) -> None:
    """Talking about it is not calling it."""
    assert wish(command) == PoolSelection()


def test_a_call_may_be_what_another_program_starts() -> None:
    """Behind `--`; that program stays. Without a command it is not known whose arguments these are."""
    assert wish("/sbin/tini -g -- cmk isolate --pool=a -- run -x") == PoolSelection(
        pool="a", command=("/sbin/tini", "-g", "--", "run", "-x")
    )
    with pytest.raises(ValueError, match="where no command begins"):
        wish([], ["--", "cmk", "isolate", "--pool=a", "run"])


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["sudo", "cmk", "isolate", "--pool=a", "run"], "'sudo cmk isolate --pool=a'"),
        (["echo", "cmk", "isolate"], "'echo cmk isolate'"),
        (["sh", "-c", "nice -n 5 cmk isolate --pool=a run"], "'nice -n 5 cmk isolate --pool=a run'"),
    ],
)
def test_what_reads_like_a_call_and_is_none_is_an_error(command: list[str], named: str) -> None:
    """It names the text, as the container wants some pool; one that names it in a variable can have any text."""
    with pytest.raises(ValueError, match="cmk isolate where no command begins") as caught:
        wish(command)
    assert named in str(caught.value)
    assert wish(command, STP_POOL="b") == PoolSelection(pool="b")


def test_what_was_said_at_the_creation_stands_in_for_an_unknown_command() -> None:
    """Variables win over it as well; a command that is known counts alone."""
    before = PoolSelection(pool="a", socket=1, no_affinity=True)
    assert read_pool_selection(Request(key=Key("p", "c")), before) == before
    assert read_pool_selection(Request(key=Key("p", "c"), envs={"STP_POOL": "b"}), before) == PoolSelection(
        pool="b", socket=1, no_affinity=True
    )
    assert read_pool_selection(Request(key=Key("p", "c"), command=("run",)), before) == PoolSelection()
    assert read_pool_selection(Request(key=Key("p", "c"), args=("run",)), before) == PoolSelection()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["cmk", "isolate", "run"], "needs --pool"),
        (["cmk", "isolate", "--pool=", "run"], "needs --pool"),
        (["cmk", "isolate", "run", "--pool"], "needs --pool"),
        (["cmk", "isolate", "--pool=a"], "no program to start"),
        (["cmk", "isolate", "--pool"], "no program to start"),
        (["sh", "-c", "cmk isolate --pool=a"], "no program to start"),
        (["sh", "-c", "cmk isolate --pool=a x; cmk isolate --pool=b y"], "2 times"),
        (["cmk isolate --pool=a x", "cmk isolate --pool=b y"], "2 times"),
        (["sh", "-c", "cmk isolate --pool=a; run"], "no program to start"),
        (["cmk", "isolate", "--pool=a", "--socket-id=one", "run"], "--socket-id: expected .* found 'one'"),
    ],
)
def test_a_call_that_makes_no_sense_is_an_error(command: list[str], message: str) -> None:
    """It names what is missing or wrong."""
    with pytest.raises(ValueError, match=message):
        wish(command)


def test_variables_win() -> None:
    """Over the command, one by one."""
    assert wish("cmk isolate --pool=a --socket-id=0 run", STP_POOL="b") == PoolSelection(
        pool="b", socket=0, command=("run",)
    )
    assert wish("cmk isolate --pool=a --socket-id=0 run", STP_SOCKET_ID="1").socket == 1
    assert wish(STP_POOL="b", STP_SOCKET_ID="-1", STP_NO_AFFINITY="") == PoolSelection(pool="b", no_affinity=True)


def test_empty_variables_say_nothing() -> None:
    """Pool and socket stay those of the command."""
    assert wish("cmk isolate --pool=a --socket-id=0 run", STP_POOL="", STP_SOCKET_ID="").pool == "a"
    assert wish("cmk isolate --pool=a --socket-id=0 run", STP_POOL="", STP_SOCKET_ID="").socket == 0


@pytest.mark.parametrize("text", ["x", "-2", "1.5", "99999"])
def test_a_variable_that_is_no_socket_is_an_error(text: str) -> None:
    """It names the variable and the value."""
    with pytest.raises(ValueError, match=f"STP_SOCKET_ID: .*{text}"):
        wish(STP_SOCKET_ID=text)
