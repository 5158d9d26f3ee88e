"""Container images without a registry: docker archives built from the static busybox of this machine.

One layer holds busybox, links for its applets and the few files programs expect. The bytes depend on busybox only
(fixed times and owners), so the same machine always builds the same image id.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAUSE_IMAGE = "localhost/pause:latest"
TEST_IMAGE = "localhost/busybox:latest"
ARCHITECTURE = "amd64"
FOREVER = ("/bin/sleep", "1000000000")
APPLETS = ("cat", "echo", "env", "false", "head", "id", "ls", "mkdir", "sh", "sleep", "stat", "true", "wc", "yes")
FILES = {"etc/passwd": b"root:x:0:0:root:/:/bin/sh\n", "etc/group": b"root:x:0:\n"}
FOLDERS = ("bin", "dev", "etc", "proc", "sys", "tmp")


@dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """What an archive holds: its reference, the program it runs, and labels that tell one image from another."""

    reference: str
    command: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)


def default_images() -> tuple[ImageSpec, ImageSpec]:
    """The pause image and the image of test containers; both run `sleep` unless told otherwise."""
    return (
        ImageSpec(reference=PAUSE_IMAGE, command=FOREVER, labels={"role": "pause"}),
        ImageSpec(reference=TEST_IMAGE, command=FOREVER, labels={"role": "test"}),
    )


def layer(busybox: bytes, applets: Sequence[str] = APPLETS, files: Mapping[str, bytes] = FILES) -> bytes:
    """The one layer of every image, as an uncompressed tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        _add(tar, "bin/busybox", busybox, mode=0o755)
        for applet in applets:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type = tarfile.SYMTYPE
            link.linkname = "busybox"
            tar.addfile(link)
        for name, content in files.items():
            _add(tar, name, content)
    return out.getvalue()


def archive(spec: ImageSpec, content: bytes) -> bytes:
    """A docker archive with this layer, as `ctr images import` and `docker load` read it."""
    diff_id = hashlib.sha256(content).hexdigest()
    config = json.dumps(
        {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": {"Cmd": list(spec.command), "Env": ["PATH=/bin"], "Labels": dict(spec.labels)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        },
        sort_keys=True,
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{diff_id}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [spec.reference], "Layers": [layer_name]}]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        _add(tar, layer_name, content)
        _add(tar, config_name, config)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return out.getvalue()


def build_archives(folder: Path, specs: Sequence[ImageSpec]) -> list[Path]:
    """Write one archive per spec into the folder."""
    program = shutil.which("busybox")
    if program is None:
        raise LabError("not installed: busybox (the static build)")
    content = layer(Path(program).read_bytes())
    paths = []
    for spec in specs:
        path = folder / (spec.reference.replace("/", "_").replace(":", "_") + ".tar")
        path.write_bytes(archive(spec, content))
        paths.append(path)
    return paths


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    tar.addfile(entry, io.BytesIO(content))
