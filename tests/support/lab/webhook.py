"""`interpose webhook` as a separate process behind a Service of a lab cluster, with a certificate that it was made.

Everything is done as an operator does it: the manifests are those in `deploy/`, the certificate is by
`interpose webhook certs` and goes through a Secret, which is laid down as a kubelet mounts it.
"""

from __future__ import annotations

import base64
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import Child, LabError
from tests.support.lab.relay import program
from tests.support.lab.service import Service
from tests.support.net.certificates import publish_secret

if TYPE_CHECKING:
    from tests.support.lab.cluster import LabCluster

NAMESPACE: Final = "interpose-system"
SERVICE: Final = "interpose-webhook"
SECRET: Final = "interpose-webhook-tls"
CONFIGURATION: Final = "interpose"
_MANIFESTS: Final = Path(__file__).parents[3] / "deploy" / "kustomize" / "base"
_READY: Final = re.compile(r'"Webhook is ready".* listen="127\.0\.0\.1:(\d+)" metrics="127\.0\.0\.1:(\d+)"')


class Webhook(Service):
    """`interpose webhook`. The `with` block registers it with the cluster, starts it and ends it."""

    name = "webhook"

    def __init__(self, folder: Path, cluster: LabCluster) -> None:
        super().__init__(folder / "webhook.log")
        self._mounted = folder / "webhook-tls"
        self._cluster = cluster
        self._metrics = ""

    def __enter__(self) -> Self:
        for manifest in ("namespace.yaml", "webhook-registration.yaml"):
            self._cluster.kubectl("apply", "-f", str(_MANIFESTS / manifest))
        self.make_certificate()
        return super().__enter__()

    def make_certificate(self, *options: str) -> str:
        """Make one if need be, let the cluster trust it, and mount it; what the command said."""
        argv = [str(program()), "webhook", "certs", "--service", SERVICE, "--namespace", NAMESPACE]
        argv += ["--secret", SECRET, "--webhook-config", CONFIGURATION]
        argv += ["--kubeconfig", str(self._cluster.kubeconfig), *options]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
        if done.returncode != 0:
            raise LabError(f"webhook certs: exit code {done.returncode}: {done.stderr}")
        found = self._cluster.kubectl.json("get", "secret", "-n", NAMESPACE, SECRET)["data"]
        publish_secret(self._mounted, {name: base64.b64decode(text).decode() for name, text in found.items()})
        return done.stdout

    def start(self) -> None:
        """Start a process and let the Service point to it."""
        flags = {"--tls-cert": self._mounted / "tls.crt", "--tls-key": self._mounted / "tls.key"}
        said = [part for flag, value in flags.items() for part in (flag, str(value))]
        listen = ("--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--shutdown-delay", "0")
        self.log.unlink(missing_ok=True)
        child = self._child = Child([str(program()), "webhook", *listen, *said], log=self.log)
        ports = child.wait_until(lambda: _READY.findall(child.log_tail()), what="it to be ready")[0]
        self._metrics = ports[1]
        place = {(NAMESPACE, SERVICE): ("127.0.0.1", int(ports[0]))}
        self._cluster.server.do(lambda server: server.webhooks.services.update(place))

    def metrics(self) -> str:
        """What Prometheus is told."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=WAIT_LIMIT) as answer:
            text: bytes = answer.read()
        return text.decode()
