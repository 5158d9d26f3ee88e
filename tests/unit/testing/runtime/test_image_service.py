"""The image service."""

import json

from interpose._pb import cri_pb2 as cri
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.clock import ManualClock


async def test_an_absent_image_is_an_empty_answer(runtime: FakeRuntime) -> None:
    """OK without an image, not NOT_FOUND: this is how the kubelet decides to pull."""
    answer = await runtime.call("ImageStatus", cri.ImageStatusRequest(image=cri.ImageSpec(image="absent")))
    assert not answer.HasField("image")


async def test_a_pulled_image_is_there(runtime: FakeRuntime) -> None:
    """PullImage answers the id under which ImageStatus and ListImages show it; RemoveImage takes it away."""
    spec = cri.ImageSpec(image="nginx")
    pulled = await runtime.call("PullImage", cri.PullImageRequest(image=spec))
    status = await runtime.call("ImageStatus", cri.ImageStatusRequest(image=spec, verbose=True))
    assert status.image.id == pulled.image_ref
    assert json.loads(status.info["info"])
    listed = await runtime.call("ListImages", cri.ListImagesRequest())
    assert pulled.image_ref in [image.id for image in listed.images]
    for _ in range(2):
        await runtime.call("RemoveImage", cri.RemoveImageRequest(image=spec))
    listed = await runtime.call("ListImages", cri.ListImagesRequest(filter=cri.ImageFilter(image=spec)))
    assert not listed.images


async def test_images_stream_in_batches() -> None:
    """Three images in batches of two."""
    runtime = FakeRuntime(images=["a", "b", "c"], stream_batch=2)
    sizes = [len(part.images) async for part in runtime.stream("StreamImages", cri.StreamImagesRequest())]
    assert sizes == [2, 1]


async def test_the_file_system_grows_with_images(runtime: FakeRuntime, clock: ManualClock) -> None:
    """Used bytes are those of the images; the kubelet needs at least one file system."""

    async def used() -> int:
        answer = await runtime.call("ImageFsInfo", cri.ImageFsInfoRequest())
        (usage,) = answer.image_filesystems
        assert usage.timestamp == clock()
        assert usage.fs_id.mountpoint
        return int(usage.used_bytes.value)

    before = await used()
    image = runtime.images.pull("nginx", cri.AuthConfig())
    assert await used() - before == image.size
