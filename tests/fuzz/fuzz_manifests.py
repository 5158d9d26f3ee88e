"""Fuzz the reader of pod manifests: bytes of all kinds are pods that can be run, or errors that name the file.

    python tests/fuzz/fuzz_manifests.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_manifests.py --replay crash-manifests-0123abcd.yaml

Inputs are mutations of the manifests in tests/data/pods, and of one with a Secret, from a seed that is printed. A
broken promise is written to a file, named, and the exit code is 1.
"""

import os
import sys
import tempfile
from pathlib import Path

from interpose.errors import ConfigError
from interpose.node.pods.cri_config.container import ContainerConfigError, container_config
from interpose.node.pods.cri_config.sandbox import sandbox_config
from interpose.node.pods.labels import log_directory
from interpose.node.pods.manifest.reader import read_pod_file
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.actions import compute_pod_actions
from tests.support.fuzz.text import Target, run

SAMPLES = Path(__file__).parents[1] / "data" / "pods"
HIDDEN = "dmVyeXNlY3JldHZhbHVl"
SECRET = f"""\
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
data:
  key: {HIDDEN}
---
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: shop, uid: "1", labels: {{a: b}}}}
spec:
  containers:
    - name: main
      image: busybox:1.36
      envFrom: [{{secretRef: {{name: keys}}}}]
      volumeMounts: [{{name: keys, mountPath: /keys, subPath: key}}]
  volumes:
    - {{name: keys, secret: {{secretName: keys}}}}
"""
NODE = NodeFacts(name="node", memory=1 << 34, hugepage_sizes=("2MB",), addresses=("192.0.2.1",))
LOGS = "/logs"
# Pieces that mean something to the reader, whole and broken.
PIECES = [
    *(
        "hostNetwork: true\n",
        "restartPolicy: Always\n",
        "initContainers: []\n",
        "kind: PodList\nitems:\n- ",
        "uid: ../x",
    ),
    *(
        "resources: {limits: {cpu: 1e9, memory: 9E}}\n",
        "requests: {cpu: -1}\n",
        "hugepages-2Mi: 3Mi\n",
        "1e999",
        "0.1m",
    ),
    *("subPath: ../..\n", "hostPath: {path: /}\n", "emptyDir: {medium: Memory}\n", "name: ..\n", "namespace: a/b\n"),
    *("readinessProbe: {exec: {command: []}}\n", "httpGet: {port: 99999}\n", "grpc: {port: 1}\n", "periodSeconds: 0\n"),
    *("env: [{name: A, value: $(A)}]\n", "$(", "$$(A)", "fieldPath: metadata.labels['x']\n", "runAsUser: -1\n"),
    *(
        "&a ",
        "*a",
        "<<: *a",
        "!!python/object:x ",
        "!t ",
        "---\n",
        "? ",
        "| \n",
        "> \n",
        "%YAML 9\n",
        "\t",
        "- ",
        "..",
        "/",
    ),
    *("{", "}", "[", "]", ",", ":", "\n", "\n  ", "null", "~", "true", "0x1", "9" * 5000, "[" * 3000, "{a: " * 3000),
    *("\ufeff", '"\\ud800"', '"\\u0000"', "\0", "\x1b[2J", "\x85", "x" * 300, "é"),
]


class Promises:
    """Reads files of its own folder, as the program does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, data: bytes, suffix: str) -> None:
        """The promises: problems name the file and show no secret; pods that are read can be decided on and made."""
        path = self._folder / f"pod{suffix}"
        path.write_bytes(data)
        try:
            pods = read_pod_file(str(path))
        except ConfigError as error:
            for text in error.problems:
                assert str(path) in text, f"does not name the file: {text!r:.300}"
                assert text.isprintable(), f"would move the cursor: {text!r:.300}"
                assert HIDDEN not in text or data.count(HIDDEN.encode()) > 1, f"shows a secret: {text!r:.300}"
            return
        assert pods, "neither pods nor problems"
        for pod in pods:
            _usable(pod)


def _usable(pod: PodSpec) -> None:
    """Every pod that counts has a first act, folders of its own, and configurations or a reason why it has none."""
    logs = os.path.normpath(log_directory(pod, LOGS))
    assert os.path.split(logs)[0] == LOGS, f"logs of {pod.title!r:.300} are elsewhere"
    assert compute_pod_actions(pod, PodStatus(uid=pod.uid)).create_sandbox
    try:
        sandbox_config(pod, NODE, 0, log_root=LOGS).SerializeToString()
    except ValueError:
        return
    for one in (*pod.init_containers, *pod.containers):
        try:
            made = container_config(
                pod, one, node=NODE, image="sha256:1", image_user=None, restart_count=0, ips=("192.0.2.2",), mounts=()
            )
        except (ContainerConfigError, ValueError):
            continue
        made.SerializeToString()


def main() -> int:
    """Fuzz it."""
    with tempfile.TemporaryDirectory() as scratch:
        secret = Path(scratch) / "secret.yaml"
        secret.write_text(SECRET)
        samples = [secret, *SAMPLES.glob("*.yaml")]
        check = Promises(Path(scratch)).check
        return run(Target(name="manifests", check=check, samples=samples, pieces=PIECES), __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
