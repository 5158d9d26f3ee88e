"""Images: pulled, listed, known by many names, mounted, removed."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from conformance.bench import FOREVER
from conformance.checks.images import GROUPS_IMAGE, IMAGE
from conformance.points import Group, Point
from conformance.registry import PASSWORD, USER
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench


def _spec(name: str) -> Any:
    return cri.ImageSpec(image=name)


def _pull(bench: Bench, name: str, **more: Any) -> str:
    found = str(bench.call("PullImage", image=_spec(name), **more).image_ref)
    assert found
    bench.later(lambda: bench.call("RemoveImage", image=_spec(name)))
    return found


def _status(bench: Bench, name: str) -> Any:
    answer = bench.call("ImageStatus", image=_spec(name))
    return answer.image if answer.HasField("image") else None


def _pull_and_remove(bench: Bench, name: str) -> None:
    reference = _pull(bench, name)
    image = _status(bench, name)
    assert image is not None
    assert _status(bench, reference).id == image.id
    bench.call("RemoveImage", image=_spec(image.id))
    assert _status(bench, name) is None


def with_tag(bench: Bench) -> None:
    _pull_and_remove(bench, bench.shelf.put("test").tag("test"))


def without_tag(bench: Bench) -> None:
    put = bench.shelf.put("latest")
    _pull_and_remove(bench, put.name)


def with_digest(bench: Bench) -> None:
    put = bench.shelf.put("test")
    _pull_and_remove(bench, put.digest)


def with_tag_and_digest(bench: Bench) -> None:
    put = bench.shelf.put("test")
    reference = f"{put.tag('test')}@{put.image.digest}"
    _pull_and_remove(bench, reference)


def status_fields(bench: Bench) -> None:
    put = bench.shelf.put("test")
    _pull(bench, put.tag("test"))
    image = _status(bench, put.tag("test"))
    assert image.id == put.image.id
    assert list(image.repo_tags) == [put.tag("test")]
    assert list(image.repo_digests) == [put.digest]
    assert image.size > 0


def verbose(bench: Bench) -> None:
    assert bench.call("ImageStatus", image=_spec(IMAGE), verbose=True).info


def three_images(bench: Bench) -> None:
    puts = [bench.shelf.put("1") for _ in range(3)]
    for put in puts:
        _pull(bench, put.tag("1"))
    tags = [tag for image in bench.call("ListImages").images for tag in image.repo_tags]
    assert {put.tag("1") for put in puts} <= set(tags)
    assert len(tags) == len(set(tags))


def three_tags(bench: Bench) -> None:
    put = bench.shelf.put("1", "2", "3")
    for tag in ("1", "2", "3"):
        _pull(bench, put.tag(tag))
    found = [image for image in bench.call("ListImages").images if image.id == put.image.id]
    assert len(found) == 1
    assert sorted(found[0].repo_tags) == [put.tag(tag) for tag in ("1", "2", "3")]


def filtered(bench: Bench) -> None:
    put = bench.shelf.put("1")
    _pull(bench, put.tag("1"))
    wanted = cri.ImageFilter(image=_spec(put.tag("1")))
    assert [image.id for image in bench.call("ListImages", filter=wanted).images] == [put.image.id]
    assert not bench.call("ListImages", filter=cri.ImageFilter(image=_spec("localhost/no/such:image"))).images


def streamed(bench: Bench) -> None:
    streamed = {image.id for answer in bench.stream("StreamImages") for image in answer.images}
    assert _status(bench, IMAGE).id in streamed


def many_names(bench: Bench) -> None:
    put = bench.shelf.put("1")
    _pull(bench, put.tag("1"))
    digits = put.image.id.removeprefix("sha256:")
    for name in (put.tag("1"), put.digest, put.image.id, digits, digits[:12]):
        found = _status(bench, name)
        assert found is not None, name
        assert found.id == put.image.id


def remove_one_tag(bench: Bench) -> None:
    put = bench.shelf.put("1", "2")
    for tag in ("1", "2"):
        _pull(bench, put.tag(tag))
    bench.call("RemoveImage", image=_spec(put.tag("1")))
    assert _status(bench, put.tag("1")) is None
    assert _status(bench, put.tag("2")) is None


def moved_tag(bench: Bench) -> None:
    name = bench.shelf.put("1").name
    _pull(bench, f"{name}:1")
    other = bench.shelf.put("1", name=name.split("/", 1)[1])
    _pull(bench, f"{name}:1")
    assert _status(bench, f"{name}:1").id == other.image.id


def user_id(bench: Bench) -> None:
    for user in ("1002", "1002:1003"):
        put = bench.shelf.put("1", user=user)
        _pull(bench, put.tag("1"))
        image = _status(bench, put.tag("1"))
        assert (image.uid.value, image.username) == (1002, "")


def username(bench: Bench) -> None:
    for user in ("www-data", "www-data:staff"):
        put = bench.shelf.put("1", user=user)
        _pull(bench, put.tag("1"))
        image = _status(bench, put.tag("1"))
        assert (image.HasField("uid"), image.username) == (False, "www-data")
    assert _status(bench, GROUPS_IMAGE).username == "alice"


def no_such_image(bench: Bench) -> None:
    name = f"{bench.shelf.open.host}/no/such:image"
    code, words = bench.status("PullImage", image=_spec(name))
    assert code == "NOT_FOUND", code
    assert "no/such" in words


def no_registry(bench: Bench) -> None:
    code, _ = bench.status("PullImage", image=_spec("127.0.0.1:1/no/such:image"))
    assert code in ("UNAVAILABLE", "UNKNOWN"), code


def bad_name(bench: Bench) -> None:
    code, words = bench.status("PullImage", image=_spec("Not A Name!"))
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code
    assert words


def timed_out(bench: Bench) -> None:
    request = cri.PullImageRequest(image=_spec(bench.shelf.put("1").tag("1")))
    assert bench.client.outcome("PullImage", request, timeout=0.001).code == "DEADLINE_EXCEEDED"


def wrong_content(bench: Bench) -> None:
    put = bench.shelf.put("1")
    layer = next(key for key, data in put.image.blobs.items() if data == put.image.layers[0])
    bench.shelf.open.faults.lies[layer] = b"\0" * len(put.image.layers[0])
    assert bench.code("PullImage", image=_spec(put.tag("1"))) in ("UNKNOWN", "FAILED_PRECONDITION")
    assert _status(bench, put.tag("1")) is None


def password(bench: Bench) -> None:
    put = bench.shelf.put("1", where=bench.shelf.closed)
    _pull(bench, put.tag("1"), auth=cri.AuthConfig(username=USER, password=PASSWORD))


def encoded_password(bench: Bench) -> None:
    put = bench.shelf.put("1", where=bench.shelf.closed)
    _pull(bench, put.tag("1"), auth=cri.AuthConfig(auth=base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()))


def token(bench: Bench) -> None:
    put = bench.shelf.put("1", where=bench.shelf.tokens)
    _pull(bench, put.tag("1"), auth=cri.AuthConfig(username=USER, password=PASSWORD))


def no_password(bench: Bench) -> None:
    for where in (bench.shelf.closed, bench.shelf.tokens):
        put = bench.shelf.put("1", where=where)
        for auth in (None, cri.AuthConfig(username=USER, password="not it")):
            code, words = bench.status("PullImage", image=_spec(put.tag("1")), auth=auth)
            assert code in ("UNKNOWN", "UNAUTHENTICATED", "PERMISSION_DENIED"), code
            assert "not it" not in words
        assert _status(bench, put.tag("1")) is None


def foreign_password(bench: Bench) -> None:
    put = bench.shelf.put("1", where=bench.shelf.closed)
    auth = cri.AuthConfig(username=USER, password=PASSWORD, server_address="registry.elsewhere")
    assert bench.code("PullImage", image=_spec(put.tag("1")), auth=auth) != "OK"


def same_reference(bench: Bench) -> None:
    put = bench.shelf.put("1")
    reference = _pull(bench, put.tag("1"))
    assert reference == put.image.id == _pull(bench, put.tag("1"))
    assert _pull(bench, put.digest) == reference


def container_reference(bench: Bench) -> None:
    container = bench.home.create()
    image = _status(bench, IMAGE)
    status = container.status()
    assert status.image.image in (IMAGE, image.id)
    assert status.image_ref in (image.id, *image.repo_digests)
    listed = bench.call("ListContainers", filter=cri.ContainerFilter(id=container.id)).containers[0]
    assert listed.image_ref in (image.id, *image.repo_digests)


def by_id(bench: Bench) -> None:
    image = _status(bench, IMAGE)
    container = bench.home.run_container(*FOREVER, image=image.id)
    assert container.status().image.image in (IMAGE, image.id)


def used_image(bench: Bench) -> None:
    image = _status(bench, GROUPS_IMAGE)
    container = bench.container(*FOREVER, image=GROUPS_IMAGE)
    assert container.status().image_ref
    assert _status(bench, image.id).id == image.id


def _volume(bench: Bench, **more: Any) -> Any:
    put = bench.shelf.put("1")
    _pull(bench, put.tag("1"))
    return cri.Mount(container_path="/mnt/volume", image=_spec(put.tag("1")), readonly=True, **more)


def volume(bench: Bench) -> None:
    container = bench.container(*FOREVER, mounts=[_volume(bench)])
    assert container.says("cat", "/mnt/volume/dir/file")
    assert container.exec("touch", "/mnt/volume/dir/file").exit_code != 0


def volume_part(bench: Bench) -> None:
    container = bench.container(*FOREVER, mounts=[_volume(bench, image_sub_path="dir")])
    assert container.says("cat", "/mnt/volume/file")


def volume_no_part(bench: Bench) -> None:
    _refused_volume(bench, _volume(bench, image_sub_path="no/such"))


def volume_escape(bench: Bench) -> None:
    _refused_volume(bench, _volume(bench, image_sub_path="../../etc"))


def volume_not_pulled(bench: Bench) -> None:
    _refused_volume(bench, cri.Mount(container_path="/mnt/volume", image=_spec("localhost/no/such:image")))


def _refused_volume(bench: Bench, mount: Any) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER, mounts=[mount])
    code, words = bench.status("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in ("INVALID_ARGUMENT", "UNKNOWN", "NOT_FOUND"), code
    assert words.startswith("ImageVolumeMountFailed"), words


GROUPS = (
    Group(
        name="Image Manager",
        about="critest: 10 specs; from registries on loopback",
        points=(
            Point(name="pulled by tag and removed", check=with_tag),
            Point(name="pulled without tag and removed", check=without_tag),
            Point(name="pulled by digest and removed", check=with_digest),
            Point(name="pulled by tag and digest and removed", check=with_tag_and_digest),
            Point(name="a pull that takes longer than its deadline is DEADLINE_EXCEEDED", check=timed_out),
            Point(name="id, tags, digests and size", check=status_fields),
            Point(name="verbose status", check=verbose),
            Point(name="three images are listed as three", check=three_images),
            Point(name="three tags of one image are listed as one", check=three_tags),
            Point(name="lists by name", check=filtered),
            Point(name="lists as a stream", check=streamed),
            Point(name="removing one tag removes the image", check=remove_one_tag),
            Point(name="a tag that moved is the new image after a pull", check=moved_tag),
            Point(name="the user of an image by number", check=user_id),
            Point(name="the user of an image by name", check=username),
            Point(name="an image that is not there", check=no_such_image),
            Point(name="a registry that is not there", check=no_registry),
            Point(name="a name that is none", check=bad_name),
            Point(name="content that is not what was promised is refused", check=wrong_content),
            Point(name="with user and password", check=password),
            Point(name="with an encoded password", check=encoded_password),
            Point(name="with a token for user and password", check=token),
            Point(
                name="without or with a wrong password it is refused, and the password not repeated", check=no_password
            ),
            Point(name="a password for another registry is not used", check=foreign_password),
        ),
    ),
    Group(
        name="Image Consistency",
        about="critest: 3 specs",
        points=(
            Point(name="one image by tag, digest, id and start of the id", check=many_names),
            Point(name="pulling again gives the same reference, by tag or digest", check=same_reference),
            Point(name="an image in use is found by its id", check=used_image),
        ),
    ),
    Group(
        name="Image Identifier Consistency",
        about="critest: 2 specs",
        points=(
            Point(name="status and list of a container name image and reference", check=container_reference),
            Point(name="a container made by the id of an image", check=by_id),
        ),
    ),
    Group(
        name="Image Volume",
        about="critest: 5 specs",
        points=(
            Point(name="an image as read-only volume", check=volume),
            Point(name="a part of an image", check=volume_part),
            Point(name="a part that is not there is refused with its reason", check=volume_no_part),
            Point(name="a part outside of the image is refused with its reason", check=volume_escape),
            Point(name="an image that was not pulled is refused with its reason", check=volume_not_pulled),
        ),
    ),
    Group(
        name="NRI",
        about="critest: 13 specs",
        absent="There is no NRI socket. Plugins are hook servers of the relay, in front of this or any runtime.",
    ),
)
