"""What is left out of a process: it works, it can be loaded later, and it stays if it was there before."""

import subprocess
import sys
from pathlib import Path

import pytest

from interpose.testing.eventually import WAIT_LIMIT

BEGIN = "from interpose.cli.relay.unused_libraries import leave_out_openssl\n"
MAPPED = "any(name in open('/proc/self/maps').read() for name in ('libssl', 'libcrypto'))"


def output(code: str, *, path: Path | None = None) -> list[str]:
    """What a fresh interpreter prints; `path` has modules that hide installed ones."""
    environment = {} if path is None else {"PYTHONPATH": str(path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_event_loop_runs_without_the_library() -> None:
    """Sockets and tasks as always, and digests from Python's own code."""
    code = f"""{BEGIN}
leave_out_openssl()
import asyncio, hashlib, socket, sys, uvloop
async def talk():
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"text")
    print(theirs.recv(10).decode())
    writer.close()
    theirs.close()
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(talk())
print(hashlib.sha256(b"").hexdigest()[:8], "ssl" in sys.modules, {MAPPED})
"""
    assert output(code) == ["text", "e3b0c442", "False", "False"]


def test_modules_that_need_tls_get_the_real_module_later() -> None:
    """Only the event loop has none."""
    code = f"{BEGIN}leave_out_openssl()\nimport ssl\nprint(type(ssl.create_default_context()).__name__, {MAPPED})"
    assert output(code) == ["SSLContext", "True"]


@pytest.mark.parametrize("wanted", ["True", "ssl.create_default_context()"])
def test_a_connection_with_tls_is_refused(wanted: str) -> None:
    """Never one in the clear instead."""
    code = f"""{BEGIN}
leave_out_openssl()
import asyncio, socket, ssl, uvloop
async def connect():
    ours, theirs = socket.socketpair()
    try:
        await asyncio.open_connection(sock=ours, ssl={wanted}, server_hostname="node")
    except RuntimeError as error:
        print(error.args[0].split()[-1])
    finally:
        ours.close()
        print(theirs.recv(1))
        theirs.close()
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(connect())
"""
    assert output(code) == ["TLS", "b''"]


def test_what_is_loaded_stays_as_it_is() -> None:
    """A test, or a program that began with asyncio."""
    code = f"{BEGIN}import asyncio, sys\nleave_out_openssl()\nimport _hashlib, ssl\nprint(asyncio.sslproto.ssl is ssl)"
    assert output(code) == ["True"]


def test_an_event_loop_that_asks_for_more_gets_it(tmp_path: Path) -> None:
    """Another version of uvloop: the library costs memory again, and all works."""
    (tmp_path / "uvloop.py").write_text(
        "import ssl\nfound = ssl.OPENSSL_VERSION\nclass_ = ssl.SSLContext\nsame = ssl.SSLSocket is ssl.SSLSocket\n"
    )
    code = f"""{BEGIN}
leave_out_openssl()
import ssl, uvloop
print(uvloop.found == ssl.OPENSSL_VERSION, uvloop.class_ is ssl.SSLContext, uvloop.same)
"""
    assert output(code, path=tmp_path) == ["True", "False", "True"]


MESSAGES = """
from interpose.cli.relay.unused_libraries import leave_out_python_messages
leave_out_python_messages()
import sys
from interpose._pb.cri_pb2 import PodSandboxConfig
config = PodSandboxConfig.FromString(PodSandboxConfig(labels={"app": "web"}, hostname="node").SerializeToString())
"""


def test_messages_need_no_classes_in_python() -> None:
    """They are parsed, written and shown; what their implementation in Python loads is missing."""
    code = f"{MESSAGES}print(config.labels['app'], 'node' in str(config), 'google.protobuf.text_format' in sys.modules)"
    assert output(code) == ["web", "True", "False"]


def test_classes_in_python_can_be_had_later() -> None:
    """By whoever asks for them or for what they load."""
    code = f"""{MESSAGES}
from google.protobuf import json_format
from google.protobuf.internal import python_message
print(json_format.MessageToDict(config)["hostname"], python_message.GeneratedProtocolMessageType.__name__)
"""
    assert output(code) == ["node", "GeneratedProtocolMessageType"]


def test_a_python_with_hashes_from_openssl_alone_keeps_it() -> None:
    """Some distributions build theirs so: digests have to work all the same."""
    code = f"""{BEGIN}
import sys
import interpose.cli.relay.unused_libraries as module
real = module.find_spec
module.find_spec = lambda name: None if name in ("_sha256", "_sha2") else real(name)
leave_out_openssl()
print("asyncio" in sys.modules, sys.modules.get("ssl", 0), sys.modules.get("_hashlib", 0))
"""
    assert output(code) == ["False", "0", "0"]
