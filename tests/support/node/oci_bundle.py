"""Containers run by an OCI runtime straight from a specification, without a runtime service around it."""

import io
import json
import os
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpose.cri.messages import cri
from interpose.node.runtime.oci.inputs import read_inputs
from interpose.node.runtime.oci.spec import SandboxFacts, container_spec
from interpose.node.runtime.oci.spec_types import HostFacts
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.images import APPLETS, layer

PROGRAMS = (
    *APPLETS,
    "chmod",
    "chown",
    "grep",
    "hostname",
    "ip",
    "kill",
    "mknod",
    "mount",
    "nc",
    "ping",
    "touch",
    "unshare",
)
# Two runs of the tests on a machine must not remove it from each other.
PARENT = f"/interpose-test-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainImage:
    """What an image says, for those who have none."""

    user: str = ""
    env: tuple[str, ...] = ("PATH=/bin",)
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ("/bin/sh",)
    working_dir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a container left behind."""

    code: int
    out: str
    err: str


def missing_for_runc() -> str:
    """Why containers cannot be run here; empty if they can."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [name for name in ("runc", "busybox") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def busybox_tree(folder: Path) -> Path:
    """A root file system of busybox, in a folder that is made."""
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(layer(Path(shutil.which("busybox") or "").read_bytes(), PROGRAMS))) as tar:
        vars(tar)["extraction_filter"] = lambda member, _path: member  # we made it; newer Pythons want to be told
        tar.extractall(folder)
    return folder


def run_container(
    folder: Path, config: cri.ContainerConfig, *, host: HostFacts, image: PlainImage | None = None, **more: Any
) -> Ran:
    """Run a container to its end in a bundle below `folder`, whose `rootfs` is there."""
    name = f"interpose-test-{secrets.token_hex(6)}"
    shm = folder / "shm"
    shm.mkdir(exist_ok=True)
    image = image or PlainImage()
    sandbox = SandboxFacts(
        id="sandbox",
        config=cri.PodSandboxConfig(linux=cri.LinuxPodSandboxConfig(cgroup_parent=PARENT)),
        pause_pid=os.getpid(),
        shm=str(shm),
    )
    rootfs = str(folder / "rootfs")
    inputs = read_inputs(config, rootfs, image.user)
    spec = container_spec(
        config,
        sandbox,
        image,
        inputs.user,
        host=host,
        container_id=name,
        rootfs=rootfs,
        devices=inputs.devices,
        sources=inputs.sources,
        seccomp_profile=inputs.seccomp_profile,
        **more,
    )
    return run_spec(folder, name, spec)


def run_spec(folder: Path, name: str, spec: Mapping[str, Any]) -> Ran:
    """Run a specification to the end of its process."""
    bundle = folder / name
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps(spec))
    done = _runc(folder, ["run", "--bundle", str(bundle), name])
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def _runc(folder: Path, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["runc", "--root", str(folder / "runc"), *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT,
        check=False,
        stdin=subprocess.DEVNULL,
    )
