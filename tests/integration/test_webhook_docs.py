"""The page about the webhook says what is so: its examples are run one after the other, with a real kubectl."""

import os
import re
import shlex
import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from interpose.config.webhook.table import WEBHOOK_SETTINGS
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.apiserver.background import background
from tests.support.apiserver.server import ApiServer
from tests.support.lab.processes import Child
from tests.support.lab.relay import program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/webhook.md").read_text()
STEP = re.compile(r"^```\n\$ ([^\n]*)\n(.*?)^```$|`(interpose webhook --listen [^`]+)`", re.MULTILINE | re.DOTALL)
STEPS = STEP.findall(PAGE)
FILE = re.compile(r"^```yaml\n(# ([\w.-]+\.yaml)\n.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8443"
FOLDER = "/etc/interpose/webhook"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_the_examples_print_what_the_page_says(scratch: Path) -> None:
    """All of them, in their order; the address and the directory are others."""
    address, folder = f"127.0.0.1:{free_port()}", str(scratch / "certs")
    (scratch / "certs").mkdir()
    for text, name in FILE.findall(PAGE):
        (scratch / name).write_text(text.replace(ADDRESS, address))
    with ExitStack() as stack:
        server = stack.enter_context(background(ApiServer()))
        kubeconfig = server.do(lambda one: one.kubeconfig(scratch / "kubeconfig"))
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(scratch),
            "PATH": f"{program().parent}:{os.environ['PATH']}",
            "INTERPOSE_WEBHOOK_TLS_CERT": f"{folder}/tls.crt",
            "INTERPOSE_WEBHOOK_TLS_KEY": f"{folder}/tls.key",
            "INTERPOSE_WEBHOOK_SHUTDOWN_DELAY": "0s",
        }
        for command, printed, served in STEPS:
            words = shlex.split((command or served).replace(ADDRESS, address).replace(FOLDER, folder))
            if served:
                webhook = stack.enter_context(Child(words, log=scratch / "webhook.log", env=environment))
                webhook.wait_until(lambda: _listens(address), what=served)
                continue
            done = subprocess.run(
                words, cwd=scratch, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_LIMIT
            )
            assert done.returncode == 0, done.stderr
            assert dateless(done.stdout.replace(folder, FOLDER)) == dateless(printed)


def free_port() -> int:
    """One that nobody has just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) == 0


def dateless(text: str) -> str:
    """Without the end of a certificate."""
    return re.sub(r"\d{4}-\d\d-\d\d", "DATE", text).strip()


def test_there_are_examples() -> None:
    """With one webhook among them, and the files they need."""
    assert len(STEPS) >= 6
    assert len([served for *_, served in STEPS if served]) == 1
    assert {name for _, name in FILE.findall(PAGE)} == {"registration.yaml", "pod.yaml"}


def test_options_metrics_and_limits_of_the_page_exist() -> None:
    """Each is in the reference."""
    flags = (ROOT / "docs/reference/flags.md").read_text()
    known = set(re.findall(r"--[a-z][a-z-]+", flags))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - known == set()
    metrics = (ROOT / "docs/reference/metrics.md").read_text()
    assert [name for name in set(re.findall(r"interpose_webhook_\w+", PAGE)) if f"`{name}`" not in metrics] == []
    assert {"--max-body", "--max-buffered", "--grace"} <= {setting.flag for setting in WEBHOOK_SETTINGS}
