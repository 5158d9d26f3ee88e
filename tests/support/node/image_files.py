"""Images for tests: layers from a few words, and the files that tools write of them.

base = layer({"etc/": 0o755, "etc/passwd": "root:x:0:0::/:/bin/sh\\n"})
image = make_image([base, layer({"etc/.wh.passwd": ""})], user="1000")
write_docker_archive(path, {"docker.io/library/x:1": image})
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data: bytes) -> str:
    """The digest of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    """One entry of a tar file, with whatever a TarInfo has."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.size = len(data)
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A tar file of entries, as they are."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def layer(files: Mapping[str, str | bytes | int]) -> bytes:
    """A layer by names: a text is a file, `-> x` a link, `= x` a hard link, and a number the mode of a folder."""
    return tar(_entry(name, value) for name, value in files.items())


def _entry(name: str, value: str | bytes | int) -> tuple[tarfile.TarInfo, bytes]:
    if isinstance(value, int):
        return entry(name.rstrip("/"), tarfile.DIRTYPE, mode=value)
    if isinstance(value, str) and value.startswith("-> "):
        return entry(name, tarfile.SYMTYPE, linkname=value[3:])
    if isinstance(value, str) and value.startswith("= "):
        return entry(name, tarfile.LNKTYPE, linkname=value[2:])
    return entry(name, data=value.encode() if isinstance(value, str) else value)


@dataclass(frozen=True, kw_only=True)
class MadeImage:
    """An image: its blobs by digest, its manifest and its config."""

    manifest: bytes
    config: bytes
    layers: tuple[bytes, ...]  # as they are stored, maybe compressed
    blobs: Mapping[str, bytes] = field(repr=False)

    @property
    def id(self) -> str:
        """The digest of the config."""
        return digest(self.config)

    @property
    def digest(self) -> str:
        """The digest of the manifest."""
        return digest(self.manifest)


def make_image(
    layers: Sequence[bytes], *, compress: bool = True, os: str = "linux", architecture: str = "amd64", **config: Any
) -> MadeImage:
    """An image of layers (tar files). What is given as `config` is its config, with names in lower case."""
    names = {key.replace("_", " ").title().replace(" ", ""): value for key, value in config.items()}
    document = {
        "architecture": architecture,
        "os": os,
        "config": names,
        "rootfs": {"type": "layers", "diff_ids": [digest(one) for one in layers]},
    }
    config_data = json.dumps(document).encode()
    stored = tuple(gzip.compress(one, mtime=0) if compress else one for one in layers)
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": describe(config_data, CONFIG),
            "layers": [describe(one, LAYER + ("+gzip" if compress else "")) for one in stored],
        }
    ).encode()
    blobs = {digest(one): one for one in (*stored, config_data, manifest)}
    return MadeImage(manifest=manifest, config=config_data, layers=stored, blobs=blobs)


def describe(data: bytes, media_type: str, **more: Any) -> dict[str, Any]:
    """A descriptor of a blob."""
    return {"mediaType": media_type, "digest": digest(data), "size": len(data)} | more


def make_index(images: Mapping[str, MadeImage]) -> bytes:
    """An index of images by their architecture."""
    manifests = [
        describe(image.manifest, MANIFEST, platform={"os": "linux", "architecture": architecture})
        for architecture, image in images.items()
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()


def docker_archive(images: Mapping[str, MadeImage]) -> bytes:
    """What `docker save` writes of images by their names; "" is none."""
    files: dict[str, bytes] = {}
    manifest = []
    for name, image in images.items():
        layers = []
        for data in image.layers:
            place = f"{digest(data)[7:]}/layer.tar"
            files[place] = data
            layers.append(place)
        files[f"{image.id[7:]}.json"] = image.config
        manifest.append({"Config": f"{image.id[7:]}.json", "RepoTags": [name] if name else None, "Layers": layers})
    files["manifest.json"] = json.dumps(manifest).encode()
    return tar(entry(name, data=data) for name, data in files.items())


def oci_files(images: Mapping[str, MadeImage], *, annotation: str = "io.containerd.image.name") -> dict[str, bytes]:
    """The files of an OCI layout by their names."""
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    manifests = []
    for name, image in images.items():
        annotations = {annotation: name} if name else {}
        manifests.append(describe(image.manifest, MANIFEST, annotations=annotations))
        files |= {f"blobs/sha256/{key[7:]}": data for key, data in image.blobs.items()}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
    return files


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Files by their names, below a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
