"""The files of a container: the hold of its image, a root file system, the configuration for the OCI runtime.

Everything is found by the container's id alone, so a removal needs no state and may be repeated.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from interpose.cri.messages import cri
from interpose.host.atomic_file import replace_file
from interpose.node.runtime.fs.rootfs import Rootfs
from interpose.node.runtime.fs.sandbox_files import LocalSandboxFiles
from interpose.node.runtime.fs.user_paths import UserPaths
from interpose.node.runtime.images.types import StoredImage
from interpose.node.runtime.oci import signals
from interpose.node.runtime.oci.inputs import SpecInputs, read_inputs
from interpose.node.runtime.oci.resources import check_resources, oci_resources
from interpose.node.runtime.oci.runc import OciError, OciRuntime
from interpose.node.runtime.oci.spec import container_spec
from interpose.node.runtime.oci.spec_types import HostFacts, SpecError
from interpose.node.runtime.service.errors import failed_with_reason, invalid, invalid_spec
from interpose.node.runtime.service.interfaces import BundleResult, ContainerExit, PartError
from interpose.node.runtime.service.validation import updated_field
from interpose.node.runtime.shimclient.types import parse_exit
from interpose.node.runtime.state.ids import is_id
from interpose.node.runtime.state.paths import RuntimePaths
from interpose.node.runtime.state.records import ContainerRecord, ContainerUser, SandboxRecord, UsedImage

_SPEC: Final = "config.json"
# Reasons that kubelets look for.
_VOLUME_FAILED: Final = "ImageVolumeMountFailed"
_NOT_RECURSIVE: Final = "RROUnsupported"


class BundleImages(Protocol):
    """The calls of the image store that bundles use."""

    async def get(self, reference: str) -> StoredImage | None: ...

    def layers(self, image: StoredImage) -> Sequence[Path]: ...

    async def hold(self, container_id: str, image: StoredImage) -> None: ...

    async def release(self, container_id: str) -> None: ...

    def holds(self) -> Mapping[str, str]: ...


class ContainerBundles:
    """The bundles of all containers."""

    def __init__(
        self,
        paths: RuntimePaths,
        images: BundleImages,
        rootfs: Rootfs,
        sandbox_files: LocalSandboxFiles,
        host: HostFacts,
        runtime: OciRuntime,
        user_paths: UserPaths,
    ) -> None:
        self._paths = paths
        self._images = images
        self._rootfs = rootfs
        self._sandbox_files = sandbox_files
        self._host = host
        self._runtime = runtime
        self._user_paths = user_paths

    async def find_image(self, reference: str, user_specified: str = "") -> UsedImage | None:
        """The image of this name, digest or id; `user_specified` is its name in the pod."""
        found = await self._find("config.image.image", reference)
        if found is None:
            return None
        digests = found.repo_digests
        return UsedImage(
            id=found.id, name=found.matching_tag(reference, user_specified), digest=digests[0] if digests else ""
        )

    async def _find(self, field: str, reference: str) -> StoredImage | None:
        try:
            return await self._images.get(reference)
        except ValueError as error:
            raise invalid(field, str(error)) from None

    async def create(
        self, record: ContainerRecord, sandbox: SandboxRecord, pause_pid: int, target_pid: int
    ) -> BundleResult:
        """Hold the image, and make the root file system and the configuration."""
        if not self._host.recursive_read_only and any(mount.recursive_read_only for mount in record.config.mounts):
            raise failed_with_reason(_NOT_RECURSIVE, f"{self._runtime.name} cannot make mounts read-only recursively")
        image = await self._images.get(record.image.id)
        if image is None:
            raise PartError(f"image {record.image.id} was removed")
        await self._images.hold(record.id, image)
        root = await self._rootfs.prepare(record.id, self._images.layers(image))
        volumes = await self._rootfs.volumes(record.id, image.config.volumes)
        mounted = await self._mount_images(record)
        try:
            read = partial(read_inputs, record.config, str(root), image.config.user)
            inputs = await self._user_paths.run(sandbox.id, str(root), read)
            spec = container_spec(
                record.config,
                self._sandbox_files.facts(sandbox, pause_pid),
                image.config,
                inputs.user,
                host=self._host,
                container_id=record.id,
                rootfs=str(root),
                devices=inputs.devices,
                volumes=volumes,
                sources=inputs.sources,
                image_mounts=mounted,
                seccomp_profile=inputs.seccomp_profile,
                target_pid=target_pid or None,
            )
            stop_signal = signals.stop_signal(cri.Signal.Name(record.config.stop_signal), image.config.stop_signal)
        except SpecError as error:
            raise invalid_spec(f"config.{error.where}", error) from None
        except ValueError as error:
            raise invalid("config", str(error)) from None
        await asyncio.to_thread(self._write, record.id, spec)
        return BundleResult(user=_user(inputs), stop_signal=stop_signal)

    async def _mount_images(self, record: ContainerRecord) -> dict[str, str]:
        """Mount the images of the configuration's mounts; returns folders by container path."""
        mounted = {}
        for number, mount in enumerate(record.config.mounts):
            if not mount.image.image:
                continue
            field = f"config.mounts[{number}]"
            if "\0" in mount.image_sub_path:
                raise invalid(f"{field}.image_sub_path", f"{mount.image_sub_path!r} has a zero byte in it")
            image = await self._find(f"{field}.image", mount.image.image)
            if image is None:
                raise failed_with_reason(_VOLUME_FAILED, f'image "{mount.image.image}" is not here')
            await self._images.hold(f"{record.id}.{number}", image)
            layers = self._images.layers(image)
            try:
                folder = await self._rootfs.mount_image(record.id, str(number), layers, mount.image_sub_path)
            except OSError as error:
                raise failed_with_reason(_VOLUME_FAILED, error) from None
            mounted[mount.container_path] = str(folder)
        return mounted

    def _write(self, container_id: str, spec: Mapping[str, Any]) -> None:
        # Not synced: after a power failure the state folder is gone in any case.
        replace_file(str(self._paths.bundle(container_id) / _SPEC), json.dumps(spec).encode(), sync=False)

    async def remove(self, record: ContainerRecord) -> None:
        """Remove root file system and bundle, and release the image."""
        await self.remove_orphan(record.id)

    async def read_exit(self, container_id: str) -> ContainerExit | None:
        """The exit record that the shim wrote; None without one."""
        return await asyncio.to_thread(self._read_exit, container_id)

    def _read_exit(self, container_id: str) -> ContainerExit | None:
        try:
            exited = parse_exit(json.loads(self._paths.exit_file(container_id).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return ContainerExit(code=exited.code, at=exited.at_ns, oom=exited.oom)

    async def read_spec(self, container_id: str) -> dict[str, Any]:
        """The OCI configuration in force; empty if it is gone."""
        return await asyncio.to_thread(self._read, container_id)

    def _read(self, container_id: str) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads((self._paths.bundle(container_id) / _SPEC).read_bytes())
        except (OSError, ValueError):
            return {}
        return document

    async def update_resources(
        self, record: ContainerRecord, resources: cri.LinuxContainerResources
    ) -> Mapping[str, Any]:
        """Put other resources into the configuration; returns them for the OCI runtime."""
        try:
            check_resources(resources)
            wanted = oci_resources(resources, self._host)
        except SpecError as error:
            raise invalid_spec(updated_field(error), error) from None
        await asyncio.to_thread(self._update_spec, record.id, wanted)
        return wanted

    def _update_spec(self, container_id: str, wanted: Mapping[str, Any]) -> None:
        spec = self._read(container_id)
        if not spec:
            raise PartError("its configuration is gone")
        old = spec["linux"].get("resources", {})
        kept = {key: old[key] for key in ("devices",) if key in old}
        spec["linux"]["resources"] = {**kept, **wanted}
        self._write(container_id, spec)

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of unknown containers with a root file system, a bundle, a held image or state of the OCI runtime."""
        found = set(await self._rootfs.find_orphans(known))
        for folder in (self._paths.containers, self._runtime.root):
            found.update(await asyncio.to_thread(_names, folder))
        found.update(hold.partition(".")[0] for hold in await asyncio.to_thread(self._images.holds))
        return sorted(name for name in found if is_id(name) and name not in known)

    async def remove_orphan(self, container_id: str) -> None:
        """Remove all files of a container, by its id."""
        if (self._runtime.root / container_id).exists():
            try:
                await self._runtime.delete(container_id, force=True)
            except OciError as error:
                raise PartError(str(error)) from None
        await self._rootfs.remove(container_id)
        await self._images.release(container_id)
        await asyncio.to_thread(shutil.rmtree, self._paths.bundle(container_id), True)


def _user(inputs: SpecInputs) -> ContainerUser:
    found = inputs.user
    return ContainerUser(uid=found.uid, gid=found.gid, groups=tuple(found.groups))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except FileNotFoundError:
        return []
