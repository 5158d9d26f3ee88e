"""The settings of the runtime as its parts take them: the runtime itself knows nothing of flags and files."""

from pathlib import Path

from interpose.config.endpoint import TcpListen, parse_listen
from interpose.config.runtime.settings import RuntimeSettings
from interpose.errors import ConfigError
from interpose.node.runtime.service.wiring import RuntimeOptions


def runtime_options(settings: RuntimeSettings) -> RuntimeOptions:
    """Everything a runtime needs to know to begin."""
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
