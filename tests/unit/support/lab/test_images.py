"""Docker archives: what the importers of containerd and Docker rely on."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

from tests.support.lab.images import ImageSpec, archive, default_images, layer


def test_the_archive_agrees_with_itself() -> None:
    """Manifest, config and layer name each other by the digests of their real bytes."""
    content = layer(b"busybox")
    spec = ImageSpec(reference="localhost/x:1", command=("/bin/true",))
    with tarfile.open(fileobj=io.BytesIO(archive(spec, content))) as tar:
        members = {m.name: file.read() for m in tar.getmembers() if (file := tar.extractfile(m))}
    (manifest,) = json.loads(members["manifest.json"])
    config = json.loads(members[manifest["Config"]])
    assert manifest["RepoTags"] == ["localhost/x:1"]
    assert manifest["Config"] == hashlib.sha256(members[manifest["Config"]]).hexdigest() + ".json"
    assert members[manifest["Layers"][0]] == content
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(content).hexdigest()]
    assert config["config"]["Cmd"] == ["/bin/true"]


def test_the_layer_has_applets_as_links() -> None:
    """busybox is executable and each applet leads to it."""
    with tarfile.open(fileobj=io.BytesIO(layer(b"program", applets=("sh",)))) as tar:
        assert tar.getmember("bin/busybox").mode == 0o755
        assert tar.getmember("bin/sh").linkname == "busybox"
        assert b"root" in (tar.extractfile("etc/passwd") or io.BytesIO()).read()


def test_archives_are_reproducible_and_distinct() -> None:
    """The same input gives the same bytes; the two default images are not one image under two names."""
    content = layer(b"busybox")
    assert layer(b"busybox") == content
    pause, test = (archive(spec, content) for spec in default_images())
    assert pause != test
