"""A runtime served on a socket, and its settings as its parts take them: it knows nothing of flags and files."""

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Final

from interpose.config.endpoint import TcpListen, parse_listen
from interpose.config.runtime.settings import RuntimeSettings
from interpose.cri.caller import Caller
from interpose.cri.server import handlers
from interpose.errors import ConfigError
from interpose.host.peer_credentials import peer_credentials
from interpose.host.unix_sockets import BoundSocket
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.served_socket import ServedSocket
from interpose.node.runtime.service.wiring import RuntimeOptions

_log = logging.getLogger(__name__)

# What a kubelet's client accepts and containerd takes.
MESSAGE_LIMIT: Final = 16 * 1024 * 1024


def serve_runtime(
    bound: BoundSocket, caller: Caller, methods: Collection[str], *, uids: Collection[int], connections: int
) -> ServedSocket:
    """A runtime on a socket that is bound, not started yet."""
    admission = Admission(identify=peer_credentials, uids=frozenset(uids), connections=connections)
    return ServedSocket(bound, handlers(caller, methods=methods), admission=admission, limit=MESSAGE_LIMIT)


def warn_not_isolated(not_isolated: Collection[str]) -> None:
    """Log what the runtime does not isolate, if there is anything."""
    if not_isolated:
        _log.warning("Containers are not fully isolated", extra={"kv": {"missing": ", ".join(not_isolated)}})


def runtime_options(settings: RuntimeSettings) -> RuntimeOptions:
    """The settings as options of a runtime; ConfigError if an address cannot be used."""
    streams = settings.streams
    address = None if streams.listen == "none" else parse_listen(streams.listen, "--stream-listen")
    if address is not None and not isinstance(address, TcpListen):
        raise ConfigError(f"streams.listen: {streams.listen!r} is not a loopback address")
    return RuntimeOptions(
        root=Path(settings.root),
        state=Path(settings.state),
        executor=settings.executor,
        cgroup_driver=settings.cgroups.driver,
        cgroup_root=settings.cgroups.root,
        cni_conf_dir=settings.network.conf_dir,
        cni_bin_dirs=settings.network.bin_dirs,
        stream_host=None if address is None else address.host,
        stream_port=0 if address is None else address.port,
        stream_idle_timeout=streams.idle_timeout,
        registries=None if settings.images.registries == "none" else Path(settings.images.registries),
    )
