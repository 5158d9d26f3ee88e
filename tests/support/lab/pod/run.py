"""`interpose pod` as somebody types it, on one runtime, with every path in one folder and every cgroup below one.

Manifests may name `/lab-scratch`: it stands for a folder of the node that belongs to the test.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.containerd import Containerd
from tests.support.lab.images import (
    FILES,
    FOREVER,
    ImageSpec,
    archive,
    build_archives,
    default_images,
    layer,
)
from tests.support.lab.kill.leftovers import Leftovers
from tests.support.lab.pods import remove_groups
from tests.support.lab.processes import LabError
from tests.support.lab.relay import program
from tests.support.lab.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

IMAGE: Final = "localhost/busybox:1"
"""With every program of busybox, and a user who is in two groups. Its tag is no reason to pull it each time."""
NODE_NAME: Final = "lab"
SCRATCH: Final = "/lab-scratch"
_USERS: Final = {
    **FILES,
    "etc/passwd": FILES["etc/passwd"] + b"app:x:1000:1000:app:/home/app:/bin/sh\n",
    "etc/group": FILES["etc/group"] + b"app:x:1000:\nextra:x:3000:app\n",
}
_CNI: Final = {
    "cniVersion": "0.4.0",
    "name": "lab",
    "plugins": [{"type": "ptp", "ipMasq": False, "ipam": {"type": "host-local"}}],
}


def pod_image(folder: Path) -> Path:
    """An archive of `IMAGE`, in this folder."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise LabError("not installed: busybox (the static build)")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, timeout=WAIT_LIMIT, check=True)
    applets = [name for name in listed.stdout.split() if name != "busybox"]
    content = layer(Path(busybox).read_bytes(), applets, _USERS)
    path = folder / "image.tar"
    path.write_bytes(archive(ImageSpec(reference=IMAGE, command=FOREVER), content))
    return path


def write_cni(folder: Path, subnet: str, leases: Path) -> None:
    """A network of pods with addresses of this subnet (`10.1.2.0/24`); a runtime reads it from the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    document = json.loads(json.dumps(_CNI))
    document["plugins"][0]["ipam"].update(
        {"ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(leases)}
    )
    (folder / "10-lab.conflist").write_text(json.dumps(document))


@dataclass(frozen=True, kw_only=True)
class PodCommand:
    """`interpose pod ...` for one runtime. Nothing of it is outside of the folder and the cgroup."""

    folder: Path
    socket: Path
    cgroup: str
    timeout: str = "5m"
    prefix: tuple[str, ...] = ()  # a command that runs it as somebody else

    @property
    def root(self) -> Path:
        """Volumes and notes of pods."""
        return self.folder / "pods"

    @property
    def logs(self) -> Path:
        """Logs of containers."""
        return self.folder / "logs"

    @property
    def scratch(self) -> Path:
        """What manifests call /lab-scratch."""
        return self.folder / "scratch"

    def manifests(self, files: Iterable[Path]) -> Path:
        """A folder with copies of these manifests that use this node's own folder."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        folder = self.folder / "manifests"
        folder.mkdir(exist_ok=True)
        for file in files:
            (folder / file.name).write_text(file.read_text().replace(SCRATCH, str(self.scratch)))
        return folder

    def argv(self, verb: str, *arguments: object) -> list[str]:
        """The command line."""
        places = ["--runtime-endpoint", str(self.socket), "--root", str(self.root), "--log-root", str(self.logs)]
        if verb == "run":
            places += ["--node-name", NODE_NAME, "--cgroup-root", self.cgroup, "--timeout", self.timeout]
        return [*self.prefix, str(program()), "pod", verb, *places, *map(str, arguments)]

    def run(
        self, verb: str, *arguments: object, code: int | None = 0, within: float = 330.0, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """To its end; LabError if that is not with this code (None: any)."""
        argv = self.argv(verb, *arguments)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=within, check=False, input=stdin)
        if code is not None and done.returncode != code:
            raise LabError(f"{' '.join(argv)} ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
        return done

    def document(self, verb: str, *arguments: object) -> Any:
        """What `-o json` shows."""
        return json.loads(self.run(verb, *arguments, "-o", "json").stdout)


@dataclass(frozen=True, kw_only=True)
class PodNode:
    """A runtime with the image and a network, and `interpose pod` for it."""

    pods: PodCommand
    subnet: str  # its beginning: "10.1.2."
    daemon: Containerd | Runtime
    kept: Leftovers

    def leftovers(self) -> dict[str, list[str]]:
        """What is left of pods. The cgroups of QoS classes stay."""
        found = self.kept.found(apart={self.daemon.child.pid})
        found["cgroups"] = [path for path in found.get("cgroups", []) if "/pod" in path]
        return {kind: what for kind, what in found.items() if what}

    @property
    def words(self) -> dict[str, str]:
        """What its documents have and those of another node have not, and what stands for it."""
        return {str(self.pods.folder): "FOLDER", self.pods.cgroup: "CGROUP"}


@contextmanager
def containerd_node(folder: Path, subnet: str) -> Iterator[PodNode]:
    """With containerd."""
    daemon = Containerd(folder / "node")
    _network(daemon.folder / "cni", folder, subnet)
    with daemon:
        daemon.import_archives([*build_archives(folder, default_images()[:1]), pod_image(folder)])
        with _node(folder, daemon, subnet) as node:
            yield node


@contextmanager
def runtime_node(folder: Path, subnet: str, executor: str = "runc") -> Iterator[PodNode]:
    """With our own runtime."""
    daemon = Runtime(folder / "node", executor=executor)
    _network(daemon.cni, folder, subnet)
    with daemon:
        daemon.import_archives([pod_image(folder)])
        with _node(folder, daemon, subnet) as node:
            yield node


def _network(conf_dir: Path, folder: Path, subnet: str) -> None:
    write_cni(conf_dir, f"{subnet}0/24", folder / "leases")


@contextmanager
def _node(folder: Path, daemon: Containerd | Runtime, subnet: str) -> Iterator[PodNode]:
    pods = PodCommand(folder=folder, socket=daemon.socket, cgroup=f"/interpose-{folder.parent.name}-{folder.name}")
    # The lock of all pods stays, as the socket's does.
    names = ("node", "leases", "manifests", "scratch", "pods/pods.lock")
    fine = {*(folder / name for name in names), *folder.glob("*.tar")}
    kept = Leftovers(folder, pods.cgroup, subnet, fine=fine)
    try:
        yield PodNode(pods=pods, subnet=subnet, daemon=daemon, kept=kept)
    finally:
        pods.run("rm", "--all", "--grace", "0", code=None)
        remove_groups(pods.cgroup)
