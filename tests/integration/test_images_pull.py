"""Images come from a registry on loopback: TLS, ways to be let in, redirects, broken transfers."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpose.net.http.address import parse_server
from interpose.node.runtime.images.disk import ImageDisk
from interpose.node.runtime.images.layers.flatten import flatten
from interpose.node.runtime.images.manifests import linux_platform
from interpose.node.runtime.images.registry.client import RegistryClient
from interpose.node.runtime.images.registry.endpoints import Registries, RegistryEndpoint
from interpose.node.runtime.images.registry.http import RegistryTimeouts
from interpose.node.runtime.images.store import LocalImageStore
from interpose.node.runtime.images.types import Auth, PullError, PullPhase, PullProgress
from tests.support.node.image_files import MadeImage, digest, layer, make_image, make_index
from tests.support.node.registry import Door, FakeRegistry

TIMEOUTS = RegistryTimeouts(connect=5, answer=5, stall=5, tries=3, first_wait=0.001, longest_wait=0.01)
BASE = layer({"etc/": 0o755, "etc/passwd": "root:x:0:0::/:/bin/sh\n", "etc/shadow": "secret"})
# Several pieces of what is written at a time: it must not shrink when it is compressed.
TOP = layer({"etc/.wh.shadow": "", "app": random.Random(0).randbytes(3_000_000)})
IMAGE = make_image([BASE, TOP], user="1000", env=["A=b"])

Make = Callable[..., LocalImageStore]


@pytest.fixture
async def store_at(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes stores that trust some registries."""
    made: list[LocalImageStore] = []

    def make(*trusted: FakeRegistry, registries: Registries | None = None, name: str = "images") -> LocalImageStore:
        endpoints = {}
        for registry in trusted:
            ca = tmp_path / f"{registry.port}.pem"
            if registry.authority is not None:
                ca.write_text(registry.authority.pem)
            endpoints[registry.host] = (
                RegistryEndpoint(server=parse_server(registry.url), ca=str(ca) if registry.authority else ""),
            )
        client = RegistryClient(registries or Registries(endpoints=endpoints), timeouts=TIMEOUTS, env={})
        store = LocalImageStore(tmp_path / name, registry=client, platform=linux_platform("x86_64"), durable=False)
        store.load()
        made.append(store)
        return store

    yield make
    for store in made:
        await store.close()


def leftovers(folder: Path) -> list[str]:
    """What is in the workroom of the store."""
    return [str(path) for path in (folder / "work").rglob("*") if path.is_file() and path.suffix != ".lock"]


async def test_an_image_comes_over_tls_with_a_token(store_at: Make, tmp_path: Path) -> None:
    """With names, config, and files that are those of its layers."""
    async with FakeRegistry(tls=True, door=Door.TOKEN, users={"me": "pw"}) as registry:
        name = registry.put("team/app", "1", IMAGE)
        store = store_at(registry)
        image = await store.pull(name, Auth(username="me", password="pw"))
        assert (image.id, image.repo_tags) == (IMAGE.id, (name,))
        assert image.repo_digests == (f"{registry.host}/team/app@{IMAGE.digest}",)
        assert image.config.user == "1000"
        assert image.size == sum(map(len, (IMAGE.manifest, IMAGE.config, *IMAGE.layers)))
        flatten(store.layers(image), tmp_path / "root")
    assert sorted(path.name for path in (tmp_path / "root").rglob("*")) == ["app", "etc", "passwd"]
    assert leftovers(tmp_path / "images") == []


async def test_a_token_is_asked_for_once(store_at: Make) -> None:
    """All blobs of an image are in its scope."""
    async with FakeRegistry(tls=True, door=Door.TOKEN, users={"me": "pw"}) as registry:
        await store_at(registry).pull(registry.put("app", "1", IMAGE), Auth(username="me", password="pw"))
        assert registry.paths().count("/token") == 1


async def test_anonymous_tokens_are_asked_for_without_credentials(store_at: Make) -> None:
    """As public registries give them to everybody."""
    async with FakeRegistry(door=Door.TOKEN) as registry:
        await store_at(registry).pull(registry.put("app", "1", IMAGE))
        asked = next(request for request in registry.requests if request.path == "/token")
        assert "authorization" not in asked.headers
        assert asked.query == {"service": "fake", "scope": "repository:app:pull"}


@pytest.mark.parametrize(
    "auth",
    [
        Auth(username="me", password="pw"),
        Auth(auth=base64.b64encode(b"me:pw").decode()),
    ],
)
async def test_basic_credentials_are_shown_as_one_word_or_two(store_at: Make, auth: Auth) -> None:
    """Both forms of CRI."""
    async with FakeRegistry(tls=True, door=Door.BASIC, users={"me": "pw"}) as registry:
        assert (await store_at(registry).pull(registry.put("app", "1", IMAGE), auth)).id == IMAGE.id


async def test_an_identity_token_is_exchanged(store_at: Make) -> None:
    """By POST, so that it is in no address."""
    async with FakeRegistry(door=Door.TOKEN, identity_tokens={"refresh": "me"}) as registry:
        name = registry.put("app", "1", IMAGE)
        await store_at(registry).pull(name, Auth(identity_token="refresh"))
        asked = next(request for request in registry.requests if request.path == "/token")
        assert (asked.method, asked.query) == ("POST", {})


async def test_a_registry_token_is_shown_as_it_is(store_at: Make) -> None:
    """Nobody is asked for another one."""
    async with FakeRegistry(door=Door.TOKEN) as registry:
        registry.tokens["given"] = "repository:app:pull"
        await store_at(registry).pull(registry.put("app", "1", IMAGE), Auth(registry_token="given"))
        assert "/token" not in registry.paths()


@pytest.mark.parametrize("as_words", [False, True])
async def test_wrong_credentials_are_refused_and_not_shown(store_at: Make, as_words: bool) -> None:
    """A registry that repeats them in its answer does not bring them into the message."""
    async with FakeRegistry(door=Door.TOKEN, users={"me": "pw"}) as registry:
        name = registry.put("app", "1", IMAGE)
        word = base64.b64encode(b"me:wrong-password").decode()
        auth = Auth(username="me", password="wrong-password") if as_words else Auth(auth=word)
        with pytest.raises(PullError, match="authorization failed") as caught:
            await store_at(registry).pull(name, auth)
        text = str(caught.value)
        assert text.startswith(f'failed to pull image "{name}"')
        assert word not in text
        assert "wrong-password" not in text


async def test_a_password_that_is_a_word_of_ours_changes_no_message(store_at: Make) -> None:
    """The kubelet reads how it begins."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        registry.faults.statuses = {"1": [503] * 9}
        with pytest.raises(PullError, match=r"^RegistryUnavailable: failed to pull"):
            await store_at(registry).pull(name, Auth(username="me", password="Registry"))


async def test_what_is_not_there_is_not_found(store_at: Make) -> None:
    """The registry itself says so; it is not unavailable."""
    async with FakeRegistry() as registry:
        with pytest.raises(PullError, match="MANIFEST_UNKNOWN") as caught:
            await store_at(registry).pull(f"{registry.host}/app:none")
        assert caught.value.not_found
        assert not str(caught.value).startswith("RegistryUnavailable")


async def test_nobody_there_is_unavailable(store_at: Make) -> None:
    """In the words that the kubelet looks for."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
    with pytest.raises(PullError, match=r"^RegistryUnavailable: .*connection refused") as caught:
        await store_at(registry).pull(name)
    assert not caught.value.not_found
    with pytest.raises(PullError) as caught:
        await store_at().pull(name)
    ways = f"https://{registry.host} and http://{registry.host}"
    assert (
        str(caught.value)
        == f'RegistryUnavailable: failed to pull image "{name}": manifest 1: {ways}: connection refused'
    )


async def test_no_room_for_an_image_is_told_before_it_is_fetched(
    store_at: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the place, what is needed and what is free."""
    monkeypatch.setattr(ImageDisk, "free", lambda _self: 10)
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        needed = sum(map(len, IMAGE.layers))
        words = f"/.*: not enough space: {needed} bytes are needed and 10 are free$"
        with pytest.raises(PullError, match=f'^failed to pull image "{name}": {words}'):
            await store_at(registry).pull(name)
        assert [path for path in registry.paths() if "/blobs/" in path] == [f"/v2/app/blobs/{IMAGE.id}"]


async def test_a_certificate_of_somebody_else_is_not_trusted(store_at: Make) -> None:
    """Nor is plain HTTP tried instead, where the settings say HTTPS."""
    async with FakeRegistry(tls=True) as registry:
        name = registry.put("app", "1", IMAGE)
        trusting = Registries(endpoints={registry.host: (RegistryEndpoint(server=parse_server(registry.url)),)})
        with pytest.raises(PullError, match="cannot be trusted"):
            await store_at(registries=trusting).pull(name)
        assert registry.requests == []


async def test_this_machine_is_asked_over_plain_http_too(store_at: Make) -> None:
    """Without settings, after HTTPS did not work."""
    async with FakeRegistry() as registry:
        assert (await store_at(registries=Registries()).pull(registry.put("app", "1", IMAGE))).id == IMAGE.id


async def test_blobs_elsewhere_do_not_see_credentials(store_at: Make) -> None:
    """A redirect to another server loses the Authorization header."""
    async with FakeRegistry() as other, FakeRegistry(door=Door.BASIC, users={"me": "pw"}, elsewhere=other) as registry:
        other.blobs |= IMAGE.blobs
        name = registry.put("app", "1", IMAGE)
        await store_at(registry).pull(name, Auth(username="me", password="pw"))
        assert len(other.requests) == 3
        assert all("authorization" not in request.headers for request in other.requests)


async def test_a_redirect_from_https_to_http_is_refused(store_at: Make) -> None:
    """And the signature in its address is not in the message."""
    async with FakeRegistry() as other, FakeRegistry(tls=True, elsewhere=other) as registry:
        other.blobs |= IMAGE.blobs
        with pytest.raises(PullError, match="not safe") as caught:
            await store_at(registry).pull(registry.put("app", "1", IMAGE))
        assert "hidden" not in str(caught.value)
        assert other.requests == []


async def test_a_cut_blob_goes_on_where_it_was_cut(store_at: Make, tmp_path: Path) -> None:
    """Only the rest is asked for."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        blob = digest(IMAGE.layers[1])
        registry.faults.cut(blob, times=2)
        await store_at(registry).pull(name)
        asked = [request.headers.get("range", "") for request in registry.requests if request.path.endswith(blob)]
        assert asked[0] == ""
        assert [text.startswith("bytes=") for text in asked] == [False, True, True]
    assert leftovers(tmp_path / "images") == []


async def test_a_registry_without_ranges_gives_all_of_it_again(store_at: Make) -> None:
    """What was there is thrown away."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        registry.faults.ranges = False
        registry.faults.cut(digest(IMAGE.layers[1]))
        assert (await store_at(registry).pull(name)).id == IMAGE.id


async def test_passing_trouble_is_waited_for(store_at: Make) -> None:
    """Too many requests, and servers that are starting."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        registry.faults.statuses["1"] = [429, 503]
        assert (await store_at(registry).pull(name)).id == IMAGE.id


async def test_lasting_trouble_is_unavailable(store_at: Make, tmp_path: Path) -> None:
    """After the last try; nothing of the image stays."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        registry.faults.statuses[digest(IMAGE.layers[0])] = [503] * 9
        store = store_at(registry)
        with pytest.raises(PullError, match=r"^RegistryUnavailable: .*status 503"):
            await store.pull(name)
        assert await store.list() == []
    assert leftovers(tmp_path / "images") == []


async def test_content_with_another_digest_is_refused(store_at: Make, tmp_path: Path) -> None:
    """Of a blob, a config and a manifest alike."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        store = store_at(registry)
        for key in (digest(IMAGE.layers[0]), IMAGE.id):
            registry.faults.lies = {key: bytes(len(IMAGE.blobs[key]))}
            with pytest.raises(PullError, match="another digest"):
                await store.pull(name)
        registry.faults.lies = {IMAGE.digest: IMAGE.manifest + b" "}
        with pytest.raises(PullError, match="another digest"):
            await store.pull(f"{registry.host}/app@{IMAGE.digest}")
        registry.faults.lies = {digest(IMAGE.layers[0]): IMAGE.layers[0] + b"more"}
        with pytest.raises(PullError, match="larger than its manifest says"):
            await store.pull(name)
        assert await store.list() == []
    assert leftovers(tmp_path / "images") == []


async def test_a_layer_that_is_not_what_the_config_says_is_refused(store_at: Make) -> None:
    """The digest of the unpacked layer counts, too."""
    wrong = make_image([BASE])
    config = json.loads(wrong.config)
    config["rootfs"]["diff_ids"] = [digest(TOP)]
    data = json.dumps(config).encode()
    manifest = json.loads(wrong.manifest)
    manifest["config"] |= {"digest": digest(data), "size": len(data)}
    text = json.dumps(manifest).encode()
    blobs = {**wrong.blobs, digest(data): data, digest(text): text}
    async with FakeRegistry() as registry:
        bad = MadeImage(manifest=text, config=data, layers=wrong.layers, blobs=blobs)
        with pytest.raises(PullError, match="the config says"):
            await store_at(registry).pull(registry.put("app", "1", bad))


async def test_an_index_gives_the_image_of_this_platform(store_at: Make) -> None:
    """Its digest is the one of the image's name."""
    other = make_image([BASE], architecture="arm64")
    index = make_index({"arm64": other, "amd64": IMAGE})
    async with FakeRegistry() as registry:
        registry.put("app", "arm", other)
        registry.put("app", "amd", IMAGE)
        registry.put_manifest("app", "1", index)
        image = await store_at(registry).pull(f"{registry.host}/app:1")
        assert image.id == IMAGE.id
        assert image.repo_digests == (f"{registry.host}/app@{digest(index)}",)
        registry.put_manifest("app", "2", make_index({"arm64": other}))
        with pytest.raises(PullError, match="no image for linux/amd64, only for linux/arm64"):
            await store_at(registry, name="second").pull(f"{registry.host}/app:2")


async def test_a_mirror_is_asked_first(store_at: Make) -> None:
    """And the next endpoint if it does not have the image."""
    async with FakeRegistry() as mirror, FakeRegistry() as registry:
        registry.put("library/app", "1", IMAGE)
        endpoints = tuple(RegistryEndpoint(server=parse_server(one.url)) for one in (mirror, registry))
        store = store_at(registries=Registries(endpoints={"docker.io": endpoints}))
        image = await store.pull("app:1")
        assert image.repo_tags == ("docker.io/library/app:1",)
        assert mirror.paths()[0] == "/v2/library/app/manifests/1"
        assert registry.paths()[0] == "/v2/library/app/manifests/1"


@pytest.mark.parametrize("which", ["config", "layer"])
async def test_a_mirror_that_is_wrong_does_not_keep_us_from_the_registry(store_at: Make, which: str) -> None:
    """Nothing of what it gave is used, not even if the rest could be had elsewhere."""
    key = digest(IMAGE.layers[1]) if which == "layer" else IMAGE.id
    for cut in (False, True):
        async with FakeRegistry() as mirror, FakeRegistry() as registry:
            for one in (mirror, registry):
                one.put("library/app", "1", IMAGE)
            mirror.faults.lies = {key: bytes(len(IMAGE.blobs[key]))}
            mirror.faults.cut(key, times=9 if cut else 0)
            endpoints = tuple(RegistryEndpoint(server=parse_server(one.url)) for one in (mirror, registry))
            store = store_at(registries=Registries(endpoints={"docker.io": endpoints}), name=f"images-{cut}")
            assert (await store.pull("app:1")).id == IMAGE.id


async def test_layers_that_are_there_are_not_fetched_again(store_at: Make) -> None:
    """Of another image, too."""
    news: list[PullProgress] = []
    async with FakeRegistry() as registry:
        store = store_at(registry)
        await store.pull(registry.put("app", "1", IMAGE))
        second = make_image([BASE, layer({"other": ""})])
        await store.pull(registry.put("app", "2", second), progress=news.append)
        paths = registry.paths()
        assert sum(path.endswith(digest(IMAGE.layers[0])) for path in paths) == 1
    assert PullPhase.EXISTS in {one.phase for one in news if one.part == digest(IMAGE.layers[0])}
    assert [one.phase for one in news if one.part == digest(second.layers[1])][-1] is PullPhase.DONE


async def test_two_pulls_at_once_fetch_each_layer_once(store_at: Make) -> None:
    """Both get the image."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        store = store_at(registry)
        first, second = await asyncio.gather(store.pull(name), store.pull(name))
        assert first.id == second.id == IMAGE.id
        assert sum(path.endswith(digest(IMAGE.layers[0])) for path in registry.paths()) == 1


async def test_a_pull_that_is_given_up_leaves_nothing(store_at: Make, tmp_path: Path) -> None:
    """Cancelled in the middle of a layer."""
    async with FakeRegistry() as registry:
        name = registry.put("app", "1", IMAGE)
        store = store_at(registry)
        begun = asyncio.Event()

        def watch(news: PullProgress) -> None:
            if news.phase is PullPhase.UNPACKING:
                begun.set()

        task = asyncio.create_task(store.pull(name, progress=watch))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.list() == []
        assert leftovers(tmp_path / "images") == []
        assert (await store.pull(name)).id == IMAGE.id


async def test_a_tag_that_moved_leaves_the_old_image_without_it(store_at: Make) -> None:
    """It is still there by its digest."""
    newer = make_image([BASE], user="2")
    async with FakeRegistry() as registry:
        store = store_at(registry)
        old = await store.pull(registry.put("app", "1", IMAGE))
        new = await store.pull(registry.put("app", "1", newer))
        assert (await store.get(f"{registry.host}/app:1")) == new
        found = await store.get(old.id)
        assert found is not None
        assert (found.repo_tags, found.repo_digests) == ((), old.repo_digests)


async def test_credentials_do_not_go_over_plain_http(store_at: Make) -> None:
    """Whoever gives tokens for a registry with TLS must have it, too."""
    async with FakeRegistry(tls=True, door=Door.TOKEN, users={"me": "pw"}) as registry:
        registry.realm = "http://auth.example/token"
        with pytest.raises(PullError, match=r"credentials over plain HTTP at http://auth\.example"):
            await store_at(registry).pull(registry.put("app", "1", IMAGE), Auth(username="me", password="pw"))


async def test_credentials_for_another_machine_stay_away_from_this_one(
    store_at: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain HTTP is fine on this machine for a registry that is here, too."""
    is_local = "interpose.node.runtime.images.registry.client.is_local"
    monkeypatch.setattr(is_local, lambda host: host == "127.0.0.1")  # so that localhost is elsewhere
    async with FakeRegistry(tls=True, door=Door.TOKEN, users={"me": "pw"}) as registry, FakeRegistry() as local:
        registry.realm = f"{local.url}/token"
        registry.put("app", "1", IMAGE)
        endpoint = RegistryEndpoint(server=parse_server(f"https://localhost:{registry.port}"), skip_verify=True)
        store = store_at(registries=Registries(endpoints={"registry.example": (endpoint,)}))
        with pytest.raises(PullError, match=r"credentials over plain HTTP at http://127\.0\.0\.1"):
            await store.pull("registry.example/app:1", Auth(username="me", password="pw"))
    assert local.requests == []


async def test_redirects_have_an_end(store_at: Make) -> None:
    """One that leads to itself does not keep us for ever."""
    async with FakeRegistry() as registry:
        registry.elsewhere = registry
        with pytest.raises(PullError, match="more than 5 redirects"):
            await store_at(registry).pull(registry.put("app", "1", IMAGE))


async def test_a_certificate_that_cannot_be_read_is_named(store_at: Make, tmp_path: Path) -> None:
    """The settings are wrong, not the registry."""
    async with FakeRegistry(tls=True) as registry:
        endpoint = RegistryEndpoint(server=parse_server(registry.url), ca=str(tmp_path / "none.pem"))
        store = store_at(registries=Registries(endpoints={registry.host: (endpoint,)}))
        with pytest.raises(PullError, match=r"none\.pem: cannot be read"):
            await store.pull(registry.put("app", "1", IMAGE))


async def test_a_plain_registry_answers_who_begins_with_tls() -> None:
    """In plain text, as registries do: from that clients (containerd 2) know that they are to go on without."""
    async with FakeRegistry() as registry:
        reader, writer = await asyncio.open_connection("127.0.0.1", registry.port)
        writer.write(bytes.fromhex("16030100050100000100"))
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        await writer.wait_closed()
