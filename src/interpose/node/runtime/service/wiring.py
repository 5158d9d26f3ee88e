"""Puts a runtime together from its real parts; the only module that knows them all."""

import asyncio
import errno
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from interpose import __version__
from interpose.config.documents.yaml import read_document
from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.net.streaming.limits import StreamLimits
from interpose.net.streaming.server import StreamServer
from interpose.node.runtime.cgroups import cgroups
from interpose.node.runtime.fs.bundles import ContainerBundles
from interpose.node.runtime.fs.disk_usage import layer_sampler
from interpose.node.runtime.fs.rootfs import Rootfs
from interpose.node.runtime.fs.sandbox_files import LocalSandboxFiles
from interpose.node.runtime.fs.user_paths import TIMEOUT, UserPaths
from interpose.node.runtime.images.registry.endpoints import Registries, read_registries
from interpose.node.runtime.images.store import LocalImageStore
from interpose.node.runtime.metrics.service import MetricsService
from interpose.node.runtime.network.adapter import PodNetworkAdapter, connect
from interpose.node.runtime.network.cni import CniNetwork
from interpose.node.runtime.oci.executor import OciExecutor
from interpose.node.runtime.oci.inputs import read_host
from interpose.node.runtime.oci.runc import PLAIN, OciRuntime, find_executor
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.exec import ExecService
from interpose.node.runtime.service.image_service import CriImageService
from interpose.node.runtime.service.queries import RuntimeIdentity
from interpose.node.runtime.service.runtime import LocalRuntime
from interpose.node.runtime.service.stats_service import StatsService
from interpose.node.runtime.shimclient.adapter import ProcessShimManager
from interpose.node.runtime.state.lock import RuntimeStateLock
from interpose.node.runtime.state.paths import RuntimePaths
from interpose.node.runtime.state.record_store import FileRecordStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """The options of a runtime. Without a `stream_host` there is no streaming."""

    root: Path
    state: Path
    executor: str = "auto"
    cgroup_driver: str = "cgroupfs"
    cgroup_root: str = CGROUP_ROOT
    cni_conf_dir: str = "/etc/cni/net.d"
    cni_bin_dirs: tuple[str, ...] = ("/opt/cni/bin", "/usr/lib/cni")
    stream_host: str | None = "127.0.0.1"
    stream_port: int = 0
    stream_idle_timeout: float = 4 * 3600.0
    registries: Path | None = None
    path_timeout: float = TIMEOUT  # seconds for paths of users that do not respond


def open_runtime(options: RuntimeOptions) -> LocalRuntime:
    """A runtime that is not started yet and holds the locks of root and state; ConfigError names a wrong option."""
    paths = RuntimePaths(root=options.root, state=options.state)
    paths.prepare()
    state_lock = RuntimeStateLock(paths)
    try:
        return _open(options, paths, state_lock)
    except BaseException:
        state_lock.release()
        raise


def _open(options: RuntimeOptions, paths: RuntimePaths, state_lock: RuntimeStateLock) -> LocalRuntime:
    driver = options.cgroup_driver
    executor = find_executor(options.executor, paths.oci, systemd=driver == "systemd", cgroup_root=options.cgroup_root)
    groups = cgroups.detect(options.cgroup_root)
    host = read_host(cgroup_version=groups.version, cgroup_driver=driver, cgroup_root=groups.root)
    host = replace(host, recursive_read_only=executor.name != PLAIN)
    images = LocalImageStore(paths.images, registries=_registries(options.registries))
    images.load()
    rootfs = Rootfs(paths.rootfs)
    user_paths = UserPaths(timeout=options.path_timeout)
    sandbox_files = LocalSandboxFiles(paths, groups, driver=driver, namespaces=executor.namespaces)
    bundles = ContainerBundles(paths, images, rootfs, sandbox_files, host, executor, user_paths)
    network = CniNetwork(options.cni_conf_dir, options.cni_bin_dirs, paths.network)
    shims = ProcessShimManager(paths, executor, bundles, groups, driver)
    core = RuntimeCore(
        records=FileRecordStore(paths.root),
        shims=shims,
        sandbox_files=sandbox_files,
        bundles=bundles,
        executor=OciExecutor(executor, groups),
        network=PodNetworkAdapter(network, namespaces=executor.namespaces),
        cgroup_driver=driver,
        new_id=lambda: secrets.token_hex(32),
    )
    execution = ExecService(core, connect)
    streams = None
    if options.stream_host is not None:
        limits = StreamLimits(idle=options.stream_idle_timeout)
        streams = StreamServer(execution, host=options.stream_host, port=options.stream_port, limits=limits)
        execution.urls = streams
    layers = layer_sampler(rootfs.writable)
    usage = StatsService(core, groups, rootfs, layers)
    metrics = MetricsService(core, groups, rootfs, layers)

    async def image_usage() -> tuple[str, int, int]:
        return str(paths.images), *await asyncio.to_thread(images.usage)

    image_service = CriImageService(images, time.time_ns, image_usage, usage.total_written)
    return LocalRuntime(
        core,
        _identity(options, executor),
        execution,
        (usage.methods(), metrics.methods(), image_service.methods()),
        streams=streams,
        make_folder=partial(_make_log_folder, user_paths),
        closing=(
            shims.close,
            _as_async(layers.close),
            metrics.close,
            rootfs.close,
            images.close,
            _as_async(state_lock.release),
        ),
    )


def _identity(options: RuntimeOptions, executor: OciRuntime) -> RuntimeIdentity:
    return RuntimeIdentity(
        version=__version__,
        executor=executor.name,
        executor_version=executor.version,
        cgroup_driver=options.cgroup_driver,
        handlers=(executor.name,),
        not_isolated=executor.not_isolated,
        recursive_read_only=executor.name != PLAIN,
        settings={"root": str(options.root), "state": str(options.state), "cgroup_driver": options.cgroup_driver},
    )


def _registries(path: Path | None) -> Registries:
    return Registries() if path is None else read_registries(read_document(str(path)), str(path))


def _as_async(close: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        close()

    return run


async def _make_log_folder(paths: UserPaths, sandbox_id: str, folder: str) -> None:
    """Make the folder of a log file, whose path a user chose."""
    await paths.run(sandbox_id, folder, lambda _on_path: make_folders(folder))


def make_folders(folder: str) -> None:
    """Make a folder with its parents; a path too deep for Python is an OSError (ENAMETOOLONG)."""
    try:
        Path(folder).mkdir(mode=0o755, parents=True, exist_ok=True)
    except RecursionError:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), folder) from None
