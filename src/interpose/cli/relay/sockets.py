"""Where the relay's sockets come from: a predecessor, systemd, or our own bind."""

import logging
import os
import socket
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interpose.cli.common.admin_socket import bind_address, bind_admin
from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.config.endpoint import WELL_KNOWN, TcpListen, parse_endpoint, parse_listen
from interpose.config.relay.settings import RelaySettings
from interpose.config.values import NONE
from interpose.errors import ConfigError
from interpose.host.systemd import named_listen_fds
from interpose.host.unix_sockets import BoundSocket, adopt, bind_unix, owner_like
from interpose.host.users import parse_owner
from interpose.relay.restart.takeover import PreviousRelay, request_takeover

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The backends, as paths. `find` is there if the runtime is not named: it is looked for again before each dial."""

    runtime: str
    image: str  # none: image calls are refused
    find: Callable[[], str] | None = None


def find_endpoints(settings: RelaySettings, known: Sequence[str] = ()) -> Endpoints:
    """The configured backends, or the first of the well-known ones that exists.

    The relay may start before any runtime does, so a choice that found nothing is not final.
    """
    places = known or WELL_KNOWN[settings.backend]

    def first() -> str:
        return next((path for path in places if Path(path).exists()), places[0])

    find = None
    if settings.runtime_endpoint:
        runtime = parse_endpoint(settings.runtime_endpoint, "--runtime-endpoint")
    else:
        find = first
        runtime = first()
        _log.info("Runtime endpoint found at a default path", extra={"kv": {"endpoint": runtime}})
    image = settings.image_endpoint or runtime
    return Endpoints(runtime, image if image == NONE else parse_endpoint(image, "--image-endpoint"), find)


@dataclass(slots=True)
class Sockets:
    """The sockets of a relay. `admin` is None if it was turned off, and a plain socket if it is a loopback address.

    `metrics` is None unless it is turned on.
    """

    listen: BoundSocket
    admin: BoundSocket | socket.socket | None
    predecessor: PreviousRelay | None = None
    matched: bool = True  # False: the backend's mode and owner are still to be copied
    metrics: socket.socket | None = None

    def close(self) -> None:
        """Stop listening and remove our files."""
        self.listen.close()
        if self.admin is not None:
            self.admin.close()
        if self.metrics is not None:
            self.metrics.close()

    def release(self) -> None:
        """A successor has taken over: leave the files to it."""
        self.listen.release()
        if isinstance(self.admin, BoundSocket):
            self.admin.release()
        if self.metrics is not None:
            self.metrics.close()


def acquire(settings: RelaySettings, endpoints: Endpoints, environ: MutableMapping[str, str]) -> Sockets:
    """The listening socket, the admin socket and that for metrics."""
    sockets = _acquire(settings, endpoints, environ)
    try:
        sockets.metrics = _acquire_metrics(settings.admin.metrics_listen, sockets.predecessor)
    except BaseException:
        # What a predecessor has stays with it: it goes on serving.
        sockets.close() if sockets.predecessor is None else sockets.release()
        raise
    return sockets


def _acquire_metrics(where: str, predecessor: PreviousRelay | None) -> socket.socket | None:
    """The predecessor's socket if it is at the same address, so that it is open all the time; else one of our own."""
    given = None if predecessor is None else predecessor.estate.metrics
    if given is not None:
        if predecessor is not None and predecessor.estate.metrics_listen == where:
            given.setblocking(False)
            return given
        given.close()
    return bind_address(where, "--metrics-listen")


def _acquire(settings: RelaySettings, endpoints: Endpoints, environ: MutableMapping[str, str]) -> Sockets:
    if settings.process.take_over:
        where = settings.admin.listen
        if where == "none" or isinstance(parse_listen(where, "--admin-listen"), TcpListen):
            raise ConfigError(f"--take-over needs a unix admin socket, --admin-listen is {where}")
        predecessor = request_takeover(where)
        if predecessor is not None:
            estate = predecessor.estate
            return Sockets(estate.listen, estate.admin, predecessor)
        _log.info("No relay to take over from", extra={"kv": {"admin": where}})
    activated = {passed.name: passed.sock for passed in named_listen_fds(environ)}
    admin_given = activated.pop("admin", None)
    if len(activated) > 1:
        names = ", ".join(sorted(activated))
        raise ConfigError(f"LISTEN_FDS: one CRI socket is expected beside one named admin, got {names}")
    given = next(iter(activated.values()), None)
    matched = True
    if given is not None:
        listen = adopt(given, None, given.getsockname(), owned=False)
    else:
        listen, matched = _bind(settings, endpoints)
    try:
        if admin_given is not None:
            admin = adopt(admin_given, None, admin_given.getsockname(), owned=False)
            return Sockets(listen, admin, matched=matched)
        return Sockets(listen, bind_admin(settings.admin.listen), matched=matched)
    except BaseException:
        listen.close()
        raise


def _bind(settings: RelaySettings, endpoints: Endpoints) -> tuple[BoundSocket, bool]:
    """The CRI socket, and whether it has the mode and owner it is meant to have."""
    matched = True
    path = parse_endpoint(settings.listen, "--listen")
    mode = settings.socket.mode
    owner = parse_owner(settings.socket.owner, "--socket-owner") if settings.socket.owner else None
    uid, gid = (owner.uid, owner.gid) if owner is not None else (None, None)
    if settings.socket.like_backend:
        try:
            mode, uid, gid = owner_like(endpoints.runtime)
        except FileNotFoundError:
            matched = False
            extra = {"kv": {"endpoint": endpoints.runtime, "mode": f"{mode:04o}"}}
            _log.warning("Backend socket does not exist yet, its mode will be copied when it appears", extra=extra)
    with name_setting_in_errors(listen=path):
        return bind_unix(path, mode=mode, uid=uid, gid=gid), matched


def copy_owner(listen: BoundSocket, backend: str) -> bool:
    """Give our socket the mode and owner of the backend's, which was not there when we bound; False: still not."""
    try:
        owner = owner_like(backend)
        os.chown(listen.path, owner.uid, owner.gid, follow_symlinks=False)
        Path(listen.path).chmod(owner.mode)
    except FileNotFoundError:
        return False
    except (OSError, ConfigError) as error:
        _log.error("Failed to copy mode and owner of the backend socket", extra={"kv": {"err": str(error)}})
    return True
