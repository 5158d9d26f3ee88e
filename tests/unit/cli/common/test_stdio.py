"""Programs that were started without standard streams."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from interpose.cli.common.stdio import open_standard_streams
open_standard_streams()
print("out"); print("err", file=sys.stderr)
read, write = os.pipe()
code = 0 if min(read, write) > 2 and sys.stdin.read() == "" else 1
os._exit(code if all(os.get_inheritable(fd) for fd in range(3)) else 2)
"""


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_is_missing_is_there(closed: str) -> None:
    """What is opened later gets other numbers, and printing harms nobody."""
    command = f'exec "$0" -c "$1" {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, PROGRAM],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if " >&-" in f" {closed}" else "out\n")
    assert done.stderr == ("" if "2>&-" in closed else "err\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_command_with_an_event_loop_ends_as_usual(closed: str) -> None:
    """Its loop takes none of the three for its own."""
    code = "from interpose.cli.main import main; main()"
    command = f'exec "$0" -c "$1" pod ls -r /no/such.sock {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, code], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 1


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [("main", "--help"), ("main", "topology --topology '1 sockets x 2 cores'"), ("compat.cri_resmgr", "--help")],
)
def test_output_to_a_full_disk(module: str, arguments: str, buffered: bool) -> None:
    """One line, and no traceback."""
    code = f"from interpose.cli.{module} import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" {"" if buffered else "-u"} -c "$1" {arguments} >/dev/full', sys.executable, code],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 1, done.stderr
    place = "standard output: " if buffered else ""
    assert done.stderr == f"error: {place}No space left on device\n"
