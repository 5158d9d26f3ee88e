"""Manifests, indexes and configs are read, and refused with the blob and the key that is wrong."""

import json
from typing import Any

import pytest

from interpose.node.runtime.images.manifests import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    MAX_BYTES,
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    ImageManifest,
    ManifestIndex,
    Platform,
    chain_ids,
    choose_manifest,
    digest_of,
    linux_platform,
    read_config,
    read_manifest,
    short,
)

ONE, TWO = digest_of(b"1"), digest_of(b"2")
CONFIG = {"mediaType": "c", "digest": ONE, "size": 1}
LAYER = {"mediaType": "l", "digest": TWO, "size": 2}


def bytes_of(document: Any) -> bytes:
    """JSON."""
    return json.dumps(document).encode()


@pytest.mark.parametrize("kind", [{"mediaType": OCI_MANIFEST}, {"mediaType": DOCKER_MANIFEST}, {}])
def test_a_manifest_is_config_and_layers(kind: dict[str, str]) -> None:
    """Of OCI, of Docker, and without a word about what it is."""
    found = read_manifest(bytes_of(kind | {"schemaVersion": 2, "config": CONFIG, "layers": [LAYER]}), "m")
    assert found == ImageManifest(
        config=Descriptor(media_type="c", digest=ONE, size=1),
        layers=(Descriptor(media_type="l", digest=TWO, size=2),),
    )


@pytest.mark.parametrize("kind", [{"mediaType": OCI_INDEX}, {"mediaType": DOCKER_LIST}, {}])
def test_an_index_is_manifests_with_platforms(kind: dict[str, str]) -> None:
    """And annotations; what is not text in them is left out."""
    entry = LAYER | {
        "platform": {"os": "linux", "architecture": "arm", "variant": "v7"},
        "annotations": {"a": "b", "c": 1},
    }
    found = read_manifest(bytes_of(kind | {"manifests": [entry]}), "i")
    assert isinstance(found, ManifestIndex)
    assert found.manifests[0].platform == Platform(os="linux", architecture="arm", variant="v7")
    assert found.manifests[0].annotations == {"a": "b"}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"{", "m: it is not JSON"),
        (b"[" * 100_000, "m: it is not JSON"),
        (b"[]", "m: it is not a JSON object"),
        (b" " * (MAX_BYTES + 1), "m: it is larger than"),
        ({"schemaVersion": 1}, "schema 1"),
        ({}, "key mediaType: ''"),
        ({"mediaType": "text/html"}, "key mediaType: 'text/html'"),
        ({"mediaType": OCI_INDEX}, "key manifests"),
        ({"mediaType": OCI_MANIFEST, "config": CONFIG}, "key layers"),
        ({"layers": []}, "key config"),
        ({"config": CONFIG, "layers": [1]}, "key layers[0]: it is not a descriptor"),
        ({"config": CONFIG | {"digest": "md5:1"}, "layers": []}, "key config.digest: 'md5:1'"),
        ({"config": CONFIG | {"digest": 5}, "layers": []}, "key config.digest: 5"),
        ({"config": CONFIG | {"size": -1}, "layers": []}, "key config.size: -1"),
        ({"config": CONFIG | {"size": True}, "layers": []}, "key config.size: True"),
        (
            {"config": CONFIG | {"size": (1 << 50) + 1}, "layers": []},
            "key config.size: 1125899906842625 is not a number",
        ),
        ({"config": CONFIG, "layers": [], "annotations": {"a": "\ud800"}}, "there is half a character"),
        ({"config": CONFIG | {"size": "1"}, "layers": []}, "key config.size: '1'"),
        ({"config": CONFIG, "layers": [LAYER | {"mediaType": "x+encrypted"}]}, "key layers[0].mediaType"),
        ({"config": CONFIG, "layers": [LAYER] * 1001}, "key layers: it is not a list of at most 1000"),
    ],
)
def test_what_is_no_manifest_is_refused(document: Any, problem: str) -> None:
    """With the blob, the key and the value."""
    data = document if isinstance(document, bytes) else bytes_of(document)
    with pytest.raises(ValueError) as caught:
        read_manifest(data, "m")
    assert str(caught.value).startswith("m: ")
    assert problem in str(caught.value)


def index_of(*platforms: Platform | None) -> ManifestIndex:
    """An index; sizes are the places in it."""
    return ManifestIndex(
        manifests=tuple(
            Descriptor(media_type="", digest=ONE, size=at, platform=one) for at, one in enumerate(platforms)
        )
    )


ARM = Platform(os="linux", architecture="arm", variant="v7")


@pytest.mark.parametrize(
    ("platforms", "chosen"),
    [
        ((Platform(os="windows", architecture="arm"), Platform(os="linux", architecture="arm")), 1),
        ((Platform(os="linux", architecture="arm"), ARM), 1),
        ((Platform(os="linux", architecture="arm", variant="v6"), Platform(os="linux", architecture="arm")), 1),
        ((None, Platform(os="linux", architecture="arm", variant="v6")), 1),
        ((Platform(os="linux", architecture="amd64"), None), 1),
    ],
)
def test_the_manifest_of_a_platform_is_chosen(platforms: tuple[Platform | None, ...], chosen: int) -> None:
    """The same variant before none before any; nobody's after all of them."""
    assert choose_manifest(index_of(*platforms), ARM, "i").size == chosen


def test_an_index_without_our_platform_says_which_it_has() -> None:
    """So that one knows whom it is for."""
    there = index_of(*(Platform(os=os, architecture="amd64") for os in ("windows", "linux")))
    with pytest.raises(ValueError, match="i: there is no image for linux/arm/v7, only for linux/amd64, windows/amd64"):
        choose_manifest(there, ARM, "i")
    with pytest.raises(ValueError, match="only for nobody"):
        choose_manifest(index_of(), ARM, "i")


def test_machines_have_their_names_of_platforms() -> None:
    """One that is not known has its own."""
    assert str(linux_platform("x86_64")) == "linux/amd64"
    assert str(linux_platform("aarch64")) == "linux/arm64/v8"
    assert str(linux_platform("mips")) == "linux/mips"


def test_a_config_says_how_containers_start() -> None:
    """All that the runtime asks for."""
    document = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2020-01-01T00:00:00Z",
        "config": {
            "User": "me",
            "Env": ["A=b"],
            "Entrypoint": ["/sh"],
            "Cmd": None,
            "WorkingDir": "/w",
            "Volumes": {"/data": {}},
            "StopSignal": "SIGINT",
            "Labels": {"a": "b"},
            "ExposedPorts": {"80/tcp": {}},
        },
        "rootfs": {"type": "layers", "diff_ids": [ONE]},
    }
    found = read_config(bytes_of(document), "c")
    assert (found.user, found.env, found.entrypoint, found.cmd) == ("me", ("A=b",), ("/sh",), ())
    assert (found.working_dir, found.volumes, found.stop_signal) == ("/w", ("/data",), "SIGINT")
    assert (dict(found.labels), found.exposed_ports, found.diff_ids) == ({"a": "b"}, ("80/tcp",), (ONE,))
    assert (found.os, found.architecture, found.created) == ("linux", "amd64", "2020-01-01T00:00:00Z")
    assert "A=b" not in repr(found)


def test_a_config_may_say_nothing() -> None:
    """But for its layers."""
    found = read_config(bytes_of({"rootfs": {"diff_ids": []}}), "c")
    assert (found.user, found.diff_ids, dict(found.labels)) == ("", (), {})


@pytest.mark.parametrize(
    ("config", "rootfs", "problem"),
    [
        ({}, {}, "rootfs.diff_ids"),
        ({}, None, "rootfs.diff_ids"),
        ({}, {"diff_ids": ["x"]}, "rootfs.diff_ids"),
        ({}, {"diff_ids": [1]}, "rootfs.diff_ids"),
        ({"User": 5}, {"diff_ids": []}, "config.User"),
        ({"Env": "A=b"}, {"diff_ids": []}, "config.Env"),
        ({"Cmd": [1]}, {"diff_ids": []}, "config.Cmd"),
        ({"Volumes": ["/x"]}, {"diff_ids": []}, "config.Volumes"),
    ],
)
def test_what_is_no_config_is_refused(config: Any, rootfs: Any, problem: str) -> None:
    """With the blob and the key, and without the value: it may be a secret."""
    with pytest.raises(ValueError, match=f"^c: key {problem}: "):
        read_config(bytes_of({"config": config, "rootfs": rootfs}), "c")


def test_a_config_with_half_a_character_is_refused() -> None:
    """Nobody could be told of such an image, nor of any other in the same list."""
    with pytest.raises(ValueError, match=r"^c: there is half a character"):
        read_config(bytes_of({"config": {"User": "\ud800"}, "rootfs": {"diff_ids": []}}), "c")


def test_chain_ids_stand_for_all_that_is_below() -> None:
    """The first is the digest itself, as the image specification has it."""
    assert chain_ids([]) == ()
    assert chain_ids([ONE]) == (ONE,)
    assert chain_ids([ONE, TWO]) == (ONE, digest_of(f"{ONE} {TWO}".encode()))
    assert short(ONE) == ONE[7:19]
