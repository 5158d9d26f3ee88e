"""`interpose pod` on a FakeRuntime: the commands as a person says them, with folders of their own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.testing.pods import BUSYBOX
from tests.support.served_runtime import ServedRuntime


class PodCommands(ServedRuntime):
    """Says commands to a runtime that is served."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.log_root = folder / "logs"

    def __call__(self, verb: str, *arguments: object, text: str = "") -> Result:
        """`interpose pod VERB ARGUMENTS`."""
        more = ["--min-ready", "0"] if verb == "run" else []
        return CliRunner().invoke(cli, ["pod", verb, *self.reach(), *more, *map(str, arguments)], input=text)

    def reach(self) -> list[str]:
        """Options of all verbs. There are no cgroups: those of the machine are not for pods that are pretended."""
        places = {
            "--runtime-endpoint": self.socket,
            "--root": self.folder / "root",
            "--log-root": self.log_root,
            "--cgroup-mount": self.folder / "cgroup",
        }
        return [str(word) for pair in places.items() for word in pair]

    def manifest(self, name: str = "web", **spec: Any) -> Path:
        """A file with a pod."""
        path = self.folder / f"{name}.json"
        containers = [{"name": "main", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent"}]
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec},
        }
        path.write_text(json.dumps(document))
        return path

    def up(self, name: str = "web", **spec: Any) -> None:
        """A pod that runs."""
        result = self("run", "-f", self.manifest(name, **spec), "-q")
        if result.exit_code:
            raise AssertionError(result.output)


@contextmanager
def pod_commands(folder: Path) -> Iterator[PodCommands]:
    """While the block lasts."""
    with PodCommands(folder) as commands:
        yield commands
