"""Bundles of containers that are refused. Those that are made: tests/integration/test_local_runtime.py."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.fs.bundles import ContainerBundles
from interpose.node.runtime.fs.rootfs import Rootfs
from interpose.node.runtime.fs.sandbox_files import LocalSandboxFiles
from interpose.node.runtime.fs.user_paths import UserPaths
from interpose.node.runtime.images.registry.reference import parse_reference
from interpose.node.runtime.images.types import ImageConfig, StoredImage
from interpose.node.runtime.oci.runc import OciRuntime
from interpose.node.runtime.oci.spec_types import HostFacts
from interpose.node.runtime.state.paths import RuntimePaths
from interpose.node.runtime.state.records import ContainerRecord, SandboxRecord, UsedImage

IMAGE = "example.org/web:1"
NOBODY: Any = None  # parts that are not reached


class Images:
    """A store with one image, which has no layers."""

    async def get(self, reference: str) -> StoredImage | None:
        known = str(parse_reference(reference)) == IMAGE
        tags = ("example.org/alias:2", IMAGE)
        return StoredImage(id="sha256:1", repo_tags=tags, size=1, config=ImageConfig()) if known else None

    def layers(self, image: StoredImage) -> Sequence[Path]:
        return ()

    async def hold(self, container_id: str, image: StoredImage) -> None:
        pass

    async def release(self, container_id: str) -> None:
        pass

    def holds(self) -> Mapping[str, str]:
        return {}


@pytest.fixture
async def bundles(tmp_path: Path) -> AsyncIterator[ContainerBundles]:
    """In a folder of the test."""
    rootfs = Rootfs(tmp_path / "rootfs", overlay=False)
    sandbox_files, runtime = cast(LocalSandboxFiles, NOBODY), cast(OciRuntime, NOBODY)
    places = RuntimePaths(root=tmp_path / "root", state=tmp_path / "state")
    yield ContainerBundles(places, Images(), rootfs, sandbox_files, HostFacts(), runtime, UserPaths())
    await rootfs.close()


def _record(*mounts: cri.Mount) -> ContainerRecord:
    config = cri.ContainerConfig(mounts=mounts)
    return ContainerRecord(
        id="c", sandbox_id="s", name="n", config=config, image=UsedImage(id=IMAGE, name=IMAGE), created_at=1
    )


def _mount(image: str, sub_path: str = "") -> cri.Mount:
    return cri.Mount(container_path="/v", image=cri.ImageSpec(image=image), image_sub_path=sub_path)


async def test_a_reference_that_can_be_none(bundles: ContainerBundles) -> None:
    """Of the container's own image."""
    with pytest.raises(RpcError, match=r"config\.image\.image: ") as caught:
        await bundles.find_image("Not A Name")
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (_mount("Not A Name"), r"^config\.mounts\[1\]\.image: "),
        (_mount(IMAGE, "a\0b"), r"^config\.mounts\[1\]\.image_sub_path: 'a\\x00b' has a zero byte in it$"),
    ],
)
async def test_volumes_that_can_be_no_image(bundles: ContainerBundles, mount: cri.Mount, words: str) -> None:
    """The mount is named by its number, and what is wrong with it."""
    with pytest.raises(RpcError) as caught:
        await bundles.create(_record(_mount(IMAGE), mount), cast(SandboxRecord, NOBODY), 1, 0)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert re.search(words, caught.value.message)


async def test_a_volume_whose_image_is_not_here(bundles: ContainerBundles) -> None:
    """That is no error of the request; kubelets know it by its word."""
    with pytest.raises(RpcError, match=r'ImageVolumeMountFailed: image "example\.org/other" is not here') as caught:
        await bundles.create(_record(_mount("example.org/other")), cast(SandboxRecord, NOBODY), 1, 0)
    assert caught.value.code is Code.UNKNOWN


async def test_other_resources_that_are_refused(bundles: ContainerBundles) -> None:
    """By the name that the field has in the update, once."""
    with pytest.raises(RpcError) as caught:
        await bundles.update_resources(_record(), cri.LinuxContainerResources(cpu_shares=-1))
    assert (caught.value.code, caught.value.message) == (Code.INVALID_ARGUMENT, "linux.cpu_shares: -1 is less than 0")


async def test_a_container_has_the_name_that_its_author_gave_the_image(bundles: ContainerBundles) -> None:
    """Not another one that the image has, too."""
    assert await bundles.find_image(IMAGE) == UsedImage(id="sha256:1", name=IMAGE)
    assert await bundles.find_image(IMAGE, "example.org/alias:2") == UsedImage(
        id="sha256:1", name="example.org/alias:2"
    )
