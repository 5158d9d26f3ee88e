"""OCI bundles by hand: a root file system of the static busybox and the smallest config.json that runs."""

import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.lab.images import layer

_MOUNTS = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {
        "destination": "/dev/pts",
        "type": "devpts",
        "source": "devpts",
        "options": ["newinstance", "ptmxmode=0666", "mode=0620"],
    },
)


def busybox_rootfs(folder: Path) -> None:
    """Unpack the layer that the images of the lab have."""
    program = shutil.which("busybox")
    if program is None:
        raise FileNotFoundError("not installed: busybox (the static build)")
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(layer(Path(program).read_bytes()))) as tar:
        # Python 3.11 got the filter in its fifth release.
        options: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
        tar.extractall(folder, **options)


def process(*args: str, terminal: bool = False, env: Sequence[str] = ()) -> dict[str, Any]:
    """A process description: root, in /."""
    return {
        "terminal": terminal,
        "user": {"uid": 0, "gid": 0},
        "args": list(args),
        "env": ["PATH=/bin", *env],
        "cwd": "/",
    }


def write_bundle(
    folder: Path,
    rootfs: Path,
    described: Mapping[str, Any],
    *,
    cgroup: str,
    namespaces: Mapping[str, str] | None = None,
    memory: int | None = None,
    mounts: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """A bundle that runs this process in a PID and a mount namespace, and in those that are given (kind: file)."""
    given = {"pid": "", "mount": "", **(namespaces or {})}
    config = {
        "ociVersion": "1.0.2",
        "process": dict(described),
        "root": {"path": str(rootfs)},
        "mounts": [*_MOUNTS, *mounts],
        "linux": {
            "cgroupsPath": cgroup,
            "namespaces": [{"type": kind, **({"path": path} if path else {})} for kind, path in given.items()],
            "resources": {} if memory is None else {"memory": {"limit": memory}},
        },
    }
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder
