"""The image of a container, pulled by its pull policy and with a back-off while the registry fails."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.cri.messages import cri
from interpose.cri.services import ImageService
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.cri_config.security_context import ImageUser
from interpose.node.pods.manifest.pull_secrets import auths_for
from interpose.node.pods.spec import ContainerSpec, PodSpec, PullAuth, PullPolicy
from interpose.node.pods.sync.backoff import KeyedBackoff, image_key
from interpose.node.pods.sync.result import ProgressEvent, ProgressListener, ProgressPhase, StepReason

_BAD: Final = re.compile(r"[\s\x00-\x1f\x7f]")
# Runtimes say by the beginning of the message what kind of failure it was.
_KINDS: Final = (
    ("RegistryUnavailable", StepReason.REGISTRY_UNAVAILABLE),
    ("SignatureValidationFailed", StepReason.SIGNATURE),
)
# How containerd and our own runtime begin.
_PULL_FAILED: Final = re.compile(r'^failed to pull (?:and unpack )?image "[^"]*": ')

Auth = Callable[[str], cri.AuthConfig | None]


class ContainerStartError(Exception):
    """A container cannot be started now. `retry_after`: seconds, if only time is missing."""

    def __init__(self, reason: StepReason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyImage:
    """An image that is there: what it is called in the store, and whom it runs as."""

    id: str
    user: ImageUser | None


class ImagePuller:
    """Fetches images. Failures of a pod's image make its next tries wait."""

    def __init__(self, service: ImageService, backoff: KeyedBackoff, clocks: Clocks, auth: Auth) -> None:
        self._service = service
        self._backoff = backoff
        self._clocks = clocks
        self._auth = auth

    async def ensure(
        self, pod: PodSpec, container: ContainerSpec, sandbox: cri.PodSandboxConfig, progress: ProgressListener
    ) -> ReadyImage:
        """The image, fetched if its policy wants that. StartError otherwise."""
        try:
            name = with_tag(container.image)
        except ValueError as error:
            raise ContainerStartError(StepReason.IMAGE_INVALID, f"Failed to apply default image tag: {error}") from None
        spec = cri.ImageSpec(image=name, user_specified_image=container.image, runtime_handler=pod.runtime_handler)
        present = await self._inspect(spec)
        if present is not None and container.pull_policy is not PullPolicy.ALWAYS:
            progress.on_progress(self._progress_event(pod, container, ProgressPhase.IMAGE_PRESENT))
            return present
        if container.pull_policy is PullPolicy.NEVER:
            message = f"Container image {container.image!r} is not present with pull policy of Never"
            raise ContainerStartError(StepReason.IMAGE_NEVER_PULL, message)
        reference = await self._pull(pod, container, spec, sandbox, progress)
        pulled = await self._inspect(cri.ImageSpec(image=reference, runtime_handler=pod.runtime_handler))
        return pulled if pulled is not None else ReadyImage(id=reference, user=None)

    async def _pull(
        self,
        pod: PodSpec,
        container: ContainerSpec,
        spec: cri.ImageSpec,
        sandbox: cri.PodSandboxConfig,
        progress: ProgressListener,
    ) -> str:
        key = image_key(pod, spec.image)
        left = self._backoff.delay(key, self._clocks.seconds)
        if left > 0:
            why = self._backoff.why(key)
            message = f"Back-off pulling image {container.image!r}: {why}: next try in {left:.0f} s"
            raise ContainerStartError(StepReason.IMAGE_BACKOFF, message, left)
        progress.on_progress(self._progress_event(pod, container, ProgressPhase.PULLING))
        failures: list[RpcError] = []
        for auth in self._credentials(pod, spec.image):
            try:
                reference = await self._service.pull_image(spec, auth, sandbox)
            except RpcError as error:
                failures.append(error)
                continue
            self._backoff.forget(key)
            progress.on_progress(self._progress_event(pod, container, ProgressPhase.PULLED))
            return reference
        said = "; ".join(dict.fromkeys(map(_describe_failure, failures)))
        wait = self._backoff.next(key, self._clocks.seconds, why=said)
        raise ContainerStartError(_failure_reason(failures), f"Failed to pull image {container.image!r}: {said}", wait)

    def _credentials(self, pod: PodSpec, image: str) -> list[cri.AuthConfig | None]:
        """What to try, one after the other: the pod's own, then the node's. Nothing at all only if there is neither."""
        found: list[cri.AuthConfig | None] = [_message(auth) for auth in auths_for(pod, image)]
        of_node = self._auth(image)
        return found if found and of_node is None else [*found, of_node]

    async def _inspect(self, spec: cri.ImageSpec) -> ReadyImage | None:
        try:
            answer = await self._service.image_status(spec)
        except RpcError as error:
            raise ContainerStartError(
                StepReason.IMAGE_INSPECT, f"Failed to inspect image {spec.image!r}: {error}"
            ) from None
        if not answer.HasField("image"):
            return None
        image = answer.image
        uid = image.uid.value if image.HasField("uid") else None
        return ReadyImage(id=image.id, user=ImageUser(uid=uid, username=image.username))

    def _progress_event(self, pod: PodSpec, container: ContainerSpec, moment: ProgressPhase) -> ProgressEvent:
        return ProgressEvent(pod=pod.title, phase=moment, container=container.name, detail=container.image)


def _message(auth: PullAuth) -> cri.AuthConfig:
    return cri.AuthConfig(
        username=auth.username,
        password=auth.password,
        identity_token=auth.identity_token,
        registry_token=auth.registry_token,
    )


def _describe_failure(failure: RpcError) -> str:
    """What a runtime says, without what is said besides: that a pull failed, of which image, and what kind it was."""
    words = failure.message
    for start, _ in _KINDS:
        words = words.removeprefix(f"{start}: ")
    words = _PULL_FAILED.sub("", words)
    return words if words and failure.code is Code.UNKNOWN else f"{failure.code.name}: {words}".removesuffix(": ")


def _failure_reason(failures: Sequence[RpcError]) -> StepReason:
    """What it was; one that says so is enough."""
    kinds = (kind for start, kind in _KINDS if any(failure.message.startswith(start) for failure in failures))
    return next(kinds, StepReason.IMAGE_PULL)


# -- names of images


def with_tag(image: str) -> str:
    """The name with `latest` if it says neither tag nor digest. ValueError for what can be no name."""
    if not image or _BAD.search(image) or image.startswith((":", "@", "/")) or image.endswith((":", "@", "/")):
        raise ValueError(f"{image!r} is not the name of an image")
    repository = _repository(image)
    if repository != repository.lower():
        raise ValueError(f"{image!r}: repository {repository!r} must be lower-case")
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"


def _repository(image: str) -> str:
    """Without registry, tag and digest. The first part is a registry if it looks like a host or has capitals."""
    path = image.partition("@")[0]
    first, _, rest = path.partition("/")
    if rest and (not {".", ":"}.isdisjoint(first) or first == "localhost" or first != first.lower()):
        path = rest
    folder, slash, last = path.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"
