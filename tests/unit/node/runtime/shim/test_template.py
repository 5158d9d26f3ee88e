"""What a forked shim looks like from outside."""

import subprocess
import sys
from pathlib import Path

import interpose

SHOW = (
    "import sys; sys.path.insert(0, sys.argv[1]); from interpose.node.runtime.shim.template import replace_argument; "
    "replace_argument(sys.argv[2], sys.argv[3]); print(open('/proc/self/cmdline').read(), end='')"
)


def _shown(old: str, new: str) -> list[str]:
    sources = str(Path(interpose.__file__).parent.parent)
    command = [sys.executable, "-I", "-S", "-c", SHOW, sources, old, new]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[6:]


def test_a_word_of_the_command_line_is_replaced() -> None:
    """A shorter one leaves room, a longer one is cut: what stands behind it is never touched."""
    assert _shown("12345678", "new")[0] == "new"
    assert [word for word in _shown("1234", "a-longer-one") if word] == ["a-lo", "a-longer-one"]


def test_the_end_of_a_template_is_the_end_of_its_socket() -> None:
    """A runtime that was killed leaves none."""
    sources = str(Path(interpose.__file__).parent.parent)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from interpose.node.runtime.shim.template import main; main()"
    command = [sys.executable, "-I", "-S", "-c", code, sources]
    with subprocess.Popen([sys.executable, "-c", RUNTIME, *command], stdout=subprocess.PIPE, text=True) as runtime:
        assert runtime.stdout is not None
        said = runtime.stdout.read()

    assert said == "0\n"


RUNTIME = """
import socket, subprocess, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
template = subprocess.Popen(sys.argv[1:], stdin=theirs)
theirs.close()
ours.send(b"{}")  # without descriptors: nothing to be done
ours.close()
print(template.wait(300))
"""
