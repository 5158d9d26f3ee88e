"""The image service over a store in memory."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.images.types import Auth, ImageConfig, PullError, StoredImage
from interpose.node.runtime.service.image_service import CriImageService, image_message
from interpose.node.runtime.service.methods import ChangeMethod, QueryMethod, ServerStreamMethod


class FakeStore:
    """Images by name."""

    def __init__(self) -> None:
        self.images: dict[str, StoredImage] = {}
        self.auth: Auth | None = None
        self.error: Exception | None = None

    async def list(self) -> list[StoredImage]:
        """All of them."""
        return [*self.images.values()]

    async def get(self, reference: str) -> StoredImage | None:
        """One of them."""
        if " " in reference:
            raise ValueError(f"{reference!r} is no reference")
        return self.images.get(reference)

    async def pull(self, reference: str, auth: Auth | None = None) -> StoredImage:
        """Make one."""
        self.auth = auth
        if self.error is not None:
            raise self.error
        image = StoredImage(id="sha256:1", repo_tags=(reference,), size=7, config=ImageConfig(user="1000:1000"))
        self.images[reference] = image
        return image

    async def remove(self, reference: str) -> bool:
        """Forget one."""
        if " " in reference:
            raise ValueError(f"{reference!r} is no reference")
        return self.images.pop(reference, None) is not None


class Calls:
    """A client of the service."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self._methods = CriImageService(self.store, lambda: 9, self._use, self._use).methods()

    async def _use(self) -> tuple[str, int, int]:
        return "/images", 5, 6

    async def __call__(self, method: str, **fields: Any) -> Any:
        definition = self._methods[method]
        assert isinstance(definition, ChangeMethod | QueryMethod)
        return await definition.run(getattr(cri, f"{method}Request")(**fields))

    def stream(self, method: str, **fields: Any) -> AsyncIterator[Any]:
        """A stream."""
        definition = self._methods[method]
        assert isinstance(definition, ServerStreamMethod)
        return definition.run(getattr(cri, f"{method}Request")(**fields))


@pytest.fixture
def calls() -> Calls:
    """A service without images."""
    return Calls()


def spec(name: str) -> cri.ImageSpec:
    """An image of this name."""
    return cri.ImageSpec(image=name)


async def test_pull_list_remove(calls: Calls) -> None:
    """An image is there from its pull to its removal; absent is an answer."""
    assert not (await calls("ImageStatus", image=spec("a"))).HasField("image")
    assert (await calls("PullImage", image=spec("a"))).image_ref == "sha256:1"
    found = (await calls("ImageStatus", image=spec("a"), verbose=True)).image
    assert (found.id, found.size, found.uid.value, list(found.repo_tags)) == ("sha256:1", 7, 1000, ["a"])
    await calls("PullImage", image=spec("b"))
    assert [one.repo_tags[0] for one in (await calls("ListImages")).images] == ["a", "b"]
    assert len((await calls("ListImages", filter=cri.ImageFilter(image=spec("b")))).images) == 1
    assert len((await calls("ListImages", filter=cri.ImageFilter(image=spec("c")))).images) == 0
    assert [len(one.images) async for one in calls.stream("StreamImages")] == [2]
    for _ in range(2):
        await calls("RemoveImage", image=spec("a"))
    assert len((await calls("ListImages")).images) == 1


async def test_a_pull_ends_with_its_caller() -> None:
    """Nobody else wants it; what changes images otherwise goes on to its end."""
    methods = Calls()._methods
    assert isinstance(methods["PullImage"], QueryMethod)
    assert isinstance(methods["RemoveImage"], ChangeMethod)


async def test_verbose(calls: Calls) -> None:
    """What the image says about its containers, without its variables."""
    config = ImageConfig(user="app", cmd=("run",), env=("SECRET=1",))
    calls.store.images["a"] = StoredImage(id="sha256:1", size=1, config=config, chain=("x", "y"))
    answer = await calls("ImageStatus", image=spec("a"), verbose=True)
    assert answer.image.username == "app"
    assert answer.image.spec.image == "sha256:1"
    info = json.loads(answer.info["info"])
    assert info["chainID"] == "y"
    assert info["imageSpec"]["config"]["Cmd"] == ["run"]
    assert "SECRET" not in answer.info["info"]


async def test_credentials_reach_the_registry(calls: Calls) -> None:
    """All forms of them; none if none were given."""
    await calls("PullImage", image=spec("a"))
    assert calls.store.auth is None
    await calls("PullImage", image=spec("a"), auth=cri.AuthConfig(username="u", password="p", registry_token="t"))
    assert calls.store.auth == Auth(username="u", password="p", registry_token="t")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PullError("RegistryUnavailable: down"), Code.UNKNOWN),
        (PullError("no such image", not_found=True), Code.NOT_FOUND),
        (ValueError("bad reference"), Code.INVALID_ARGUMENT),
        (OSError("the disk is tired"), Code.UNKNOWN),
    ],
)
async def test_failed_pulls(calls: Calls, error: Exception, code: Code) -> None:
    """The message stays as it is: its beginning is read by kubelets."""
    calls.store.error = error
    with pytest.raises(RpcError) as caught:
        await calls("PullImage", image=spec("a"))
    assert caught.value.code is code
    assert str(error) in caught.value.message


@pytest.mark.parametrize("method", ["ImageStatus", "PullImage", "RemoveImage"])
async def test_names_are_needed(calls: Calls, method: str) -> None:
    """INVALID_ARGUMENT without one."""
    with pytest.raises(RpcError, match=r"image\.image"):
        await calls(method)


@pytest.mark.parametrize("method", ["ImageStatus", "RemoveImage"])
async def test_names_that_are_none(calls: Calls, method: str) -> None:
    """INVALID_ARGUMENT in the store's words."""
    with pytest.raises(RpcError, match=r"INVALID_ARGUMENT.*is no reference"):
        await calls(method, image=spec("a b"))


async def test_file_systems(calls: Calls) -> None:
    """Where and how much."""
    answer = await calls("ImageFsInfo")
    (used,) = answer.image_filesystems
    assert (used.timestamp, used.fs_id.mountpoint, used.used_bytes.value, used.inodes_used.value) == (
        9,
        "/images",
        5,
        6,
    )
    assert len(answer.container_filesystems) == 1


def test_images_without_a_user() -> None:
    """Neither a number nor a name."""
    message = image_message(StoredImage(id="sha256:1", size=1, config=ImageConfig()))
    assert not message.HasField("uid")
    assert message.username == ""


@pytest.mark.parametrize("user", ["9" * 19, "9" * 5000])
def test_a_user_that_is_no_number_of_a_user_is_a_name(user: str) -> None:
    """One image must not keep others from being listed."""
    message = image_message(StoredImage(id="sha256:1", size=1, config=ImageConfig(user=user)))
    assert not message.HasField("uid")
    assert message.username == user


def test_an_image_is_shown_by_the_name_it_was_asked_for_by() -> None:
    """One of several; by its first one to whom asked by its id."""
    image = StoredImage(id="sha256:1", repo_tags=("a.example/x:1", "a.example/y:2"), size=1, config=ImageConfig())
    assert image_message(image, "a.example/y:2").spec.image == "a.example/y:2"
    assert image_message(image, image.id).spec.image == "a.example/x:1"
