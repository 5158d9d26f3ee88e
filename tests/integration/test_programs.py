"""Where programs begin, and what is said when they are ended before they have begun."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import interpose
from interpose import __main__ as programs
from interpose.native import build
from interpose.testing.eventually import WAIT_LIMIT

SCRIPTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
SOURCES = Path(interpose.__file__).parents[1]
# Ctrl-C at the moment when a module is about to be loaded.
INTERRUPTED = """
import os, signal, sys
chosen = sys.argv.pop(1)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == chosen:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from interpose.__main__ import main
main()
"""
BEGIN = "from interpose.__main__ import main; main()"


def run(*argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=False, timeout=WAIT_LIMIT)


def test_the_package_is_a_program() -> None:
    """The same as the command."""
    done = run("-m", "interpose", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"interpose {interpose.__version__} ({build()})\n", "")
    assert "Usage: interpose " in run("-m", "interpose", "--help").stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_command_that_is_installed_begins_here(name: str) -> None:
    """And is there."""
    module, _, function = SCRIPTS[name].partition(":")
    assert module == "interpose.__main__"
    code = f"import sys; sys.argv = [{name!r}, '--version']; from {module} import {function}; {function}()"
    assert callable(getattr(programs, function))
    done = run("-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    assert name in done.stdout


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("click", -signal.SIGINT),
        ("interpose.cli.common.lazy", -signal.SIGINT),
        ("interpose.cli.pod.ls", 130),
        ("interpose.cli.pod.connect", 130),
        ("interpose.node.pods.status.lister", 130),
    ],
)
def test_an_early_interrupt_is_no_traceback(module: str, code: int) -> None:
    """Whatever is being loaded."""
    done = run("-c", INTERRUPTED, module, "pod", "ls", "-r", "/no/such.sock")
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "", "")


def test_an_interrupt_in_the_last_steps_is_no_traceback() -> None:
    """What the interpreter does after the program."""
    code = f"import atexit, os, sys; atexit.register(os.kill, os.getpid(), 2); {BEGIN}"
    done = run("-c", code, "--version")
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_an_interrupt_in_the_first_steps_is_no_traceback() -> None:
    """Before the program has looked at its streams."""
    code = f"""
import os, sys
def interrupt(event, arguments):
    if event == "open" and arguments[0] == os.devnull:
        os.kill(os.getpid(), 2)
sys.addaudithook(interrupt)
{BEGIN}
"""
    done = run("-c", code, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_nothing_is_loaded_before_interrupts_are_taken_care_of() -> None:
    """Python's own traceback shows where it was until then."""
    code = """
import sys
before = set(sys.modules)
import interpose.__main__
print(*sorted(set(sys.modules) - before))
"""
    done = run("-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{code}")
    assert (done.stdout.split(), done.stderr) == (["interpose", "interpose.__main__"], "")


def test_who_ignores_interrupts_goes_on_ignoring_them() -> None:
    """As programs do that a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = run("-c", INTERRUPTED, "interpose.cli.common.lazy", "--version")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argv", [("pod", "events", "--root", "/nonexistent"), ("policies",), ("nonsense",)])
def test_whoever_does_not_read_on_hears_nothing(argv: tuple[str, ...]) -> None:
    """As with any program before `head`; what is said to somebody else is still said."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "interpose", *argv],
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
            timeout=WAIT_LIMIT,
        )
    finally:
        os.close(write)
    if argv == ("nonsense",):
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith(b"error: No such command 'nonsense'")
    else:
        assert (done.returncode, done.stderr) == (141, b"")
