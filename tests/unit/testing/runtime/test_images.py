"""The image store."""

import base64

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.runtime.images import Credentials, ImageStore, full_name


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("team/app", "docker.io/team/app:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("host:5000/app", "host:5000/app:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("busybox@sha256:00", "docker.io/library/busybox@sha256:00"),
        ("sha256:00", "sha256:00"),
    ],
)
def test_references_are_written_out(reference: str, expected: str) -> None:
    """Registry, library and tag have their usual defaults; digests and ids keep their form."""
    assert full_name(reference) == expected


def test_an_image_is_found_by_all_its_names() -> None:
    """Short name, full name, digest, id, and a unique start of the id lead to the same image."""
    store = ImageStore(["busybox", "pause"])
    image = store.find("busybox")
    assert image is not None
    for name in (image.repo_tags[0], image.repo_digests[0], image.id, image.id[:15], image.id.removeprefix("sha256:")):
        assert store.find(name) is image
    for name in ("", "sha256:", "other"):
        assert store.find(name) is None


def test_a_pull_is_repeatable() -> None:
    """The same name gives the same image once; size and id are filled, which the kubelet's client checks."""
    store = ImageStore()
    first, second = (store.pull("busybox", cri.AuthConfig()) for _ in range(2))
    assert first is second
    assert first.id == ImageStore(["busybox"]).list()[0].id
    assert first.size > 0
    assert store.list() == [first]


def test_a_pull_by_digest_finds_the_tagged_image() -> None:
    """Tag and digest name one image, whichever was pulled first."""
    tagged = ImageStore().pull("busybox", cri.AuthConfig())
    store = ImageStore()
    by_digest = store.pull(tagged.repo_digests[0], cri.AuthConfig())
    assert by_digest.id == tagged.id
    assert not by_digest.repo_tags
    store.pull("busybox", cri.AuthConfig())
    assert [list(image.repo_tags) for image in store.list()] == [["docker.io/library/busybox:latest"]]


def test_a_private_registry_wants_its_password() -> None:
    """Wrong or missing credentials are refused with UNKNOWN and a text; both ways of showing them work."""
    store = ImageStore(credentials={"private.example": Credentials("me", "secret")})
    for auth in (cri.AuthConfig(), cri.AuthConfig(username="me", password="wrong")):
        with pytest.raises(RpcError, match=r"private\.example/app:latest.*denied") as caught:
            store.pull("private.example/app", auth)
        assert caught.value.code is Code.UNKNOWN
        assert "wrong" not in caught.value.message
    assert store.list() == []
    store.pull("private.example/app", cri.AuthConfig(username="me", password="secret"))
    store.pull("private.example/app", cri.AuthConfig(auth=base64.b64encode(b"me:secret").decode()))
    store.pull("public.example/app", cri.AuthConfig())
    assert len(store.list()) == 2


def test_only_names_can_be_pulled() -> None:
    """An empty reference and an id are no address of anything."""
    for reference in ("", "sha256:" + "0" * 64):
        with pytest.raises(RpcError, match="failed to parse"):
            ImageStore().pull(reference, cri.AuthConfig())


def test_removing_twice_is_removing_once() -> None:
    """An absent image is removed without complaint; others stay."""
    store = ImageStore(["busybox", "pause"])
    store.remove("busybox")
    store.remove("busybox")
    assert [image.repo_tags[0] for image in store.list()] == ["docker.io/library/pause:latest"]


def test_a_list_can_be_asked_for_one_image() -> None:
    """The filter is a reference."""
    store = ImageStore(["busybox", "pause"])
    assert [image.spec.image for image in store.list("pause")] == ["docker.io/library/pause:latest"]
    assert store.list("absent") == []
