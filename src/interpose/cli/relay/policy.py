"""The policy of a relay, wired: settings and paths for the service, and the routes of the admin socket."""

from collections.abc import Callable, Mapping

from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.cli.relay.policy_views import PolicyViews
from interpose.cli.relay.policy_wanted import state_path
from interpose.config.relay.settings import RelaySettings
from interpose.host.atomic_file import replace_file
from interpose.host.unix_sockets import BoundSocket
from interpose.net.grpc.transport import Hub
from interpose.net.httpd.routes import Handler
from interpose.resmgr.config.server import bind_config_socket
from interpose.resmgr.service import PolicyService


def make_policy_service(
    settings: RelaySettings,
    origins: Mapping[str, str],
    hub: Hub,
    *,
    write: Callable[[str, bytes], None] = replace_file,
) -> PolicyService:
    """The service of these settings; `write` replaces the state file. ConfigError if the configuration is wrong."""
    return PolicyService(
        settings.policy,
        origins,
        hub,
        state_file=str(state_path(settings.policy)),
        take_over=settings.process.take_over,
        bind=_bind,
        write=write,
    )


def _bind(path: str) -> BoundSocket:
    with name_setting_in_errors(config_socket=path):
        return bind_config_socket(path)


def policy_routes(service: PolicyService) -> Mapping[tuple[str, str], Handler]:
    """What the admin socket answers about policies, by method and path."""
    return PolicyViews(service.interceptor, service.checkpoint, service.cgroup_tree, service.problems).routes()
