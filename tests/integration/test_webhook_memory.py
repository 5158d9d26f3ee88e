"""What clients can make a webhook take stays below the memory that its pod has in deploy/."""

import re
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from interpose.config.webhook.settings import WebhookLimitSettings
from interpose.kube.webhook.review import MAX_VALUES
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.kube.plain_documents import read_documents
from tests.support.lab.processes import Child, wait_for
from tests.support.net.certificates import CERTIFICATE, KEY, Authority, write_pair

AUTHORITY = Authority()
LIMITS = WebhookLimitSettings()
DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = (sys.executable, "-c", "from interpose.cli.main import main; main()", "webhook")
# What a client with TLS may take that sends without end and reads nothing, measured with 110 of them; a part of it is
# the kernel's and counts for the pod.
CLIENT = 600_000


def manifests() -> dict[str, str]:
    """The memory limits of the webhook."""
    (deployment,) = (
        one for one in read_documents(DEPLOY / "kustomize/base/webhook.yaml") if one["kind"] == "Deployment"
    )
    (values,) = read_documents(DEPLOY / "helm/interpose/values.yaml")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {
        name: resources["limits"]["memory"]
        for name, resources in (("kustomize", container["resources"]), ("chart", values["webhook"]["resources"]))
    }


def megabytes(child: Child, row: str) -> float:
    """Of a process, as the kernel counts it."""
    text = Path(f"/proc/{child.pid}/status").read_text()
    (found,) = re.findall(rf"^{row}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found) * 1024 / 1e6


def worst_body() -> bytes:
    """As large as it may be, with as many values as it may have, which take the most, and each character four bytes."""
    names = b",".join(b'"%x\xf0\x9f\x98\x80":1' % number for number in range(MAX_VALUES - 10))
    return b'{"a":"' + b"x" * (LIMITS.body - len(names) - 10) + b'",' + names + b"}"


def head(length: int) -> bytes:
    """Before a body of this length."""
    return f"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize("manifest", ["kustomize", "chart"])
def test_the_worst_that_clients_can_do_fits(manifest: str, scratch: Path, spawn: Callable[..., Child]) -> None:
    """As many bodies under way as there may be, and the worst one in front of them is taken apart."""
    amount = re.fullmatch(r"(\d+)Mi", manifests()[manifest])
    assert amount is not None
    write_pair(scratch, AUTHORITY.issue())
    files = ("--tls-cert", scratch / CERTIFICATE, "--tls-key", scratch / KEY)
    child = spawn(*PROGRAM, "--listen", "127.0.0.1:0", "--shutdown-delay", "0", *files)
    ready = re.compile(r'"Webhook is ready".* listen="127\.0\.0\.1:(\d+)"')
    ports = child.wait_until(lambda: ready.findall(child.log_tail()), what="the webhook to be ready")
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    with ExitStack() as stack:

        def connect() -> ssl.SSLSocket:
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", int(ports[0])), timeout=WAIT_LIMIT))
            return stack.enter_context(context.wrap_socket(raw, server_hostname="127.0.0.1"))

        before = megabytes(child, "VmRSS")
        held = LIMITS.buffered - LIMITS.body
        for _ in range(held // LIMITS.body):
            connect().sendall(head(LIMITS.body) + b" " * (LIMITS.body - 1))
        wait_for(lambda: megabytes(child, "VmRSS") > before + held * 0.9 / 1e6, what="bodies to be there")
        body = worst_body()
        client = connect()
        client.sendall(head(len(body)) + body)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    peak = megabytes(child, "VmHWM") + LIMITS.max_connections * CLIENT / 1e6
    assert peak < int(amount[1]) * 1.048576
