"""Images of containers: policies, pauses, who may fetch them."""

from dataclasses import replace
from pathlib import Path

import pytest

from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.spec import PullAuth, PullPolicy
from interpose.node.pods.sync.backoff import KeyedBackoff
from interpose.node.pods.sync.image_puller import ContainerStartError, ImagePuller
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.node.pods.sync.result import SILENT, StepReason
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.images import Credentials
from tests.support.clock import ManualClock
from tests.support.node.managed_node import Heard, ManagedNode, container, pod

NGINX = "registry.example/nginx"


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


@pytest.mark.parametrize(
    ("present", "policy", "calls"),
    [
        (True, PullPolicy.IF_NOT_PRESENT, ["ImageStatus"]),
        (False, PullPolicy.IF_NOT_PRESENT, ["ImageStatus", "PullImage", "ImageStatus"]),
        (True, PullPolicy.ALWAYS, ["ImageStatus", "PullImage", "ImageStatus"]),
        (True, PullPolicy.NEVER, ["ImageStatus"]),
    ],
)
async def test_when_an_image_is_fetched(node: ManagedNode, present: bool, policy: PullPolicy, calls: list[str]) -> None:
    """By its policy; the container is made of the image's id."""
    if present:
        node.runtime.images.pull(NGINX, cri.AuthConfig())
    assert (await node.sync(pod(container(image=NGINX, pull_policy=policy)))).ok
    assert node.calls("ImageStatus", "PullImage") == calls
    config = node.runtime.requests_of("CreateContainer")[0].config
    assert config.image.image.startswith("sha256:")
    assert config.image.user_specified_image == NGINX
    assert node.runtime.requests_of("ImageStatus")[0].image.image == f"{NGINX}:latest"


async def test_an_image_that_may_not_be_fetched(node: ManagedNode) -> None:
    """Is missed by name."""
    result = await node.sync(pod(container(image=NGINX, pull_policy=PullPolicy.NEVER)))
    [step] = result.errors
    assert step.reason is StepReason.IMAGE_NEVER_PULL
    assert NGINX in (step.error or "")
    assert result.retry_after is None


async def test_a_name_that_is_none(node: ManagedNode) -> None:
    """Nothing is asked."""
    [step] = (await node.sync(pod(container(image="a b")))).errors
    assert step.reason is StepReason.IMAGE_INVALID
    assert node.calls("ImageStatus") == []


async def test_a_registry_that_fails_is_asked_less_and_less_often(node: ManagedNode) -> None:
    """Ten seconds, then twenty; a success ends it."""
    web = pod(container(image=NGINX))
    node.runtime.fail("PullImage", Code.UNKNOWN, "no such host")
    result = await node.sync(web)
    assert [step.reason for step in result.errors] == [StepReason.IMAGE_PULL]
    assert result.retry_after == 10
    node.clock.advance(4)
    heard = Heard()
    result = await node.sync(web, progress=heard)
    assert [step.reason for step in result.errors] == [StepReason.IMAGE_BACKOFF]
    said = f"Back-off pulling image {NGINX!r}: no such host: next try in 6 s"
    assert result.errors[0].error == said
    assert result.retry_after == pytest.approx(6)
    assert heard.moments == ["waiting main"]
    node.clock.advance(6)
    assert (await node.sync(web)).retry_after == 20
    node.runtime.clear()
    node.clock.advance(20)
    assert (await node.sync(web)).ok
    assert node.manager.pull_backoff.keys == ()


@pytest.mark.parametrize(
    ("code", "message", "reason", "told"),
    [
        (Code.UNKNOWN, "RegistryUnavailable: 503", StepReason.REGISTRY_UNAVAILABLE, "503"),
        (Code.UNKNOWN, "SignatureValidationFailed: key", StepReason.SIGNATURE, "key"),
        (Code.UNKNOWN, "other", StepReason.IMAGE_PULL, "other"),
        (Code.UNKNOWN, "", StepReason.IMAGE_PULL, "UNKNOWN"),
        (Code.NOT_FOUND, "no such manifest", StepReason.IMAGE_PULL, "NOT_FOUND: no such manifest"),
        (
            *(Code.UNKNOWN, 'RegistryUnavailable: failed to pull image "nginx:latest": manifest latest: refused'),
            *(StepReason.REGISTRY_UNAVAILABLE, "manifest latest: refused"),
        ),
        (Code.UNKNOWN, 'failed to pull and unpack image "nginx:1": no route', StepReason.IMAGE_PULL, "no route"),
    ],
)
async def test_failures_are_told_once(
    node: ManagedNode, code: Code, message: str, reason: StepReason, told: str
) -> None:
    """The kind is in the first words, as runtimes say it; what is said besides is not repeated."""
    node.runtime.fail("PullImage", code, message)
    [step] = (await node.sync(pod(container(image=NGINX)))).errors
    assert step.reason is reason
    assert step.error == f"Failed to pull image {NGINX!r}: {told}"


def _auth(password: str) -> PullAuth:
    return PullAuth(registry="registry.example", username="me", password=password)


def _shown(runtime: FakeRuntime) -> list[str]:
    """Passwords that the registry has seen, in order."""
    return [one.auth.password for one in runtime.requests_of("PullImage")]


@pytest.mark.parametrize(
    ("of_pod", "of_node", "shown"),
    [
        (("old", "secret", "other"), None, ["old", "secret"]),
        (("old",), "secret", ["old", "secret"]),
        ((), "secret", ["secret"]),
    ],
)
async def test_credentials_are_tried_until_one_is_taken(
    of_pod: tuple[str, ...], of_node: str | None, shown: list[str]
) -> None:
    """The pod's own first, then the node's; none is asked for after the first success."""
    runtime = FakeRuntime(credentials={"registry.example": Credentials("me", "secret")})
    node = None if of_node is None else cri.AuthConfig(username="me", password=of_node)
    backoff = KeyedBackoff()
    images = ImagePuller(RuntimeClient(runtime), backoff, Clocks(now=ManualClock()), lambda _image: node)
    web = replace(pod(container(image=NGINX)), pull_auths=tuple(map(_auth, of_pod)))
    assert (await images.ensure(web, web.containers[0], cri.PodSandboxConfig(), SILENT)).id.startswith("sha256:")
    assert (_shown(runtime), backoff.keys) == (shown, ())


async def test_credentials_of_which_none_is_taken() -> None:
    """It is one failure, and what was said is told once; nobody tries without credentials then."""
    runtime = FakeRuntime(credentials={"registry.example": Credentials("me", "secret")})
    images = ImagePuller(RuntimeClient(runtime), KeyedBackoff(), Clocks(now=ManualClock()), lambda _image: None)
    web = replace(pod(container(image=NGINX)), pull_auths=(_auth("a"), _auth("b")))
    with pytest.raises(ContainerStartError) as caught:
        await images.ensure(web, web.containers[0], cri.PodSandboxConfig(), SILENT)
    assert _shown(runtime) == ["a", "b"]
    assert (caught.value.reason, caught.value.retry_after) == (StepReason.IMAGE_PULL, 10)
    assert caught.value.message.count("authorization failed") == 1


async def test_all_that_registries_said_is_told() -> None:
    """Each with its own words; one that was not there at all makes the reason."""
    words = iter(("denied", "RegistryUnavailable: 503"))

    class Moody(FakeRuntime):
        async def call(self, method: str, request: object, *, timeout: float | None = None) -> object:
            if method == "PullImage":
                raise RpcError(Code.UNKNOWN, next(words))
            return await super().call(method, request, timeout=timeout)  # type: ignore[arg-type]

    images = ImagePuller(RuntimeClient(Moody()), KeyedBackoff(), Clocks(now=ManualClock()), lambda _image: None)
    web = replace(pod(container(image=NGINX)), pull_auths=(_auth("a"), _auth("b")))
    with pytest.raises(ContainerStartError, match=r"Failed to pull image .*: denied; 503$") as caught:
        await images.ensure(web, web.containers[0], cri.PodSandboxConfig(), SILENT)
    assert caught.value.reason is StepReason.REGISTRY_UNAVAILABLE


async def test_credentials_of_the_pod_come_before_those_of_the_node(tmp_path: Path) -> None:
    """The node is asked only for others."""
    secured = {"registry.example": Credentials("me", "secret")}
    runtime = FakeRuntime(credentials=secured)
    node = ManagedNode(tmp_path, runtime=runtime)
    web = pod(container(image=NGINX))
    assert [step.reason for step in (await node.sync(web)).errors] == [StepReason.IMAGE_PULL]
    own = PullAuth(registry="registry.example", username="me", password="secret")
    images = ImagePuller(RuntimeClient(runtime), KeyedBackoff(), Clocks(now=ManualClock()), lambda _image: None)
    asked = await images.ensure(replace(web, pull_auths=(own,)), web.containers[0], cri.PodSandboxConfig(), SILENT)
    assert asked.id.startswith("sha256:")
    node = ManagedNode(tmp_path, runtime=FakeRuntime(credentials=secured))
    node.manager = RuntimeManager(
        RuntimeClient(node.runtime),
        node=node.manager.node,
        dirs=node.dirs,
        log_root=str(node.log_root),
        auth=lambda _image: cri.AuthConfig(username="me", password="secret"),
    )
    assert (await node.sync(web)).ok


async def test_an_image_that_is_gone_after_its_pull_is_used_by_its_name() -> None:
    """The runtime says what is wrong with it."""

    class Forgetful(FakeRuntime):
        async def call(self, method: str, request: object, *, timeout: float | None = None) -> object:
            answer = await super().call(method, request, timeout=timeout)  # type: ignore[arg-type]
            return cri.ImageStatusResponse() if method == "ImageStatus" else answer

    images = ImagePuller(RuntimeClient(Forgetful()), KeyedBackoff(), Clocks(), lambda _image: None)
    found = await images.ensure(pod(), container(image=NGINX), cri.PodSandboxConfig(), SILENT)
    assert found.id.startswith("sha256:")
    assert found.user is None
