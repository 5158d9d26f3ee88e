"""Ids of a recording are replaced by those of now."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.replay.id_map import IdMap, Reference, ReferenceKind, created_object, find, references
from interpose.dump.replay.visit import parts, type_name
from interpose.testing.recordings import filled

POD = Reference(ReferenceKind.POD, "p" * 64)
CONTAINER = Reference(ReferenceKind.CONTAINER, "c" * 64)
# Fields of requests that look like ids and are none.
NO_IDS = {
    ("IDMapping", "host_id"),
    ("IDMapping", "container_id"),
    ("PodSandboxMetadata", "uid"),
    ("SecurityProfile", "localhost_ref"),
    ("ImageSpec", "user_specified_image"),
}


def ids() -> IdMap:
    """A pod and a container that were made again."""
    found = IdMap()
    found.learn(POD, "new-pod")
    found.learn(CONTAINER, "new-container")
    return found


def test_every_id_of_every_request_is_known() -> None:
    """A field of a later version that ends in id must get a row, or a reason to have none."""
    for method in METHODS.values():
        request = filled(method.request)
        named = {
            (type_name(part), field.name)
            for part in parts(request)
            for field, _value in part.ListFields()
            if field.message_type is None and field.name.rpartition("_")[2] in ("id", "ids", "uid", "ref", "image")
        }
        known = len(references(request))
        wanted = named - NO_IDS
        assert bool(known) == bool(wanted), method.name
        texts = {one.id for one in references(request)}
        assert {f"a-{field}" for _name, field in wanted} == texts, method.name


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        (cri.RunPodSandboxResponse(pod_sandbox_id="p"), Reference(ReferenceKind.POD, "p")),
        (cri.CreateContainerResponse(container_id="c"), Reference(ReferenceKind.CONTAINER, "c")),
        (cri.PullImageResponse(image_ref="i"), Reference(ReferenceKind.IMAGE, "i")),
        (cri.CreateContainerResponse(), None),
        (cri.StartContainerResponse(), None),
    ],
)
def test_replies_name_what_was_made(reply: object, wanted: Reference | None) -> None:
    """Those of calls that make something."""
    assert created_object(reply) == wanted


def test_requests_get_the_new_ids() -> None:
    """Wherever they are, lists included."""
    request = cri.CreateContainerRequest(pod_sandbox_id=POD.id)
    request.config.linux.security_context.namespace_options.target_id = CONTAINER.id
    assert ids().translate(request) == []
    assert request.pod_sandbox_id == "new-pod"
    assert request.config.linux.security_context.namespace_options.target_id == "new-container"
    several = cri.CheckpointPodRequest(pod_sandbox_id=POD.id, container_ids=[CONTAINER.id, "other"])
    assert ids().translate(several) == [Reference(ReferenceKind.CONTAINER, "other")]
    assert list(several.container_ids) == ["new-container", "other"]


def test_the_id_of_a_pod_is_not_that_of_a_container() -> None:
    """Even if they are equal."""
    request = cri.StartContainerRequest(container_id=POD.id)
    assert ids().translate(request) == [Reference(ReferenceKind.CONTAINER, POD.id)]
    assert request.container_id == POD.id


def test_images_nobody_pulled_again_stay() -> None:
    """They are names of content; one that was pulled again has the name of now."""
    known = IdMap()
    known.learn(Reference(ReferenceKind.IMAGE, "sha256:old"), "sha256:new")
    request = cri.ImageStatusRequest(image=cri.ImageSpec(image="busybox", image_ref="sha256:old"))
    assert known.translate(request) == []
    assert (request.image.image, request.image.image_ref) == ("busybox", "sha256:new")


@pytest.mark.parametrize(("text", "wanted"), [("pppp", 1), ("p" * 64, 1), ("ppp", None), ("pppx", None), ("", None)])
def test_the_beginning_of_an_id_will_do(text: str, wanted: int | None) -> None:
    """If it is long enough to mean one."""
    assert find({POD: 1, CONTAINER: 2}, Reference(ReferenceKind.POD, text)) == wanted


def test_a_beginning_of_two_ids_means_neither() -> None:
    """As runtimes have it."""
    known = {Reference(ReferenceKind.POD, "abcd1"): 1, Reference(ReferenceKind.POD, "abcd2"): 2}
    assert find(known, Reference(ReferenceKind.POD, "abcd")) is None


def test_references_are_shown_short() -> None:
    """Ids as crictl shows them, images whole."""
    assert str(POD) == "pod ppppppppppppp"
    assert (
        str(Reference(ReferenceKind.IMAGE, "registry.example/a-long-name:1")) == "image registry.example/a-long-name:1"
    )
