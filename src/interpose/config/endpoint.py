"""Where things listen and connect: endpoint text in, a path or address out.

Endpoints are written as `/path`, `unix:///path` or `unix:/path`. Everything else is refused here, with a message that
names the flag or key, because clients fail later in confusing ways: the kubelet silently dials `/x.sock` for
`unix://run/x.sock`, and cannot use abstract sockets at all. No IO: whether a path exists is asked elsewhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from interpose.errors import ConfigError

# sun_path has 108 bytes on Linux and the last one is a NUL.
MAX_PATH_BYTES = 107

# The first of these that exists is the backend when none is named. Single-purpose distributions come last: a node that
# has one of the standard sockets as well was set up by hand, and its owner names the other one.
WELL_KNOWN_RUNTIMES = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/var/run/cri-dockerd.sock",
    "/var/run/dockershim.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
)

# The same for dockerd.
WELL_KNOWN_DOCKER = ("/var/run/docker.sock", "/run/docker.sock")
# By the setting `backend`.
WELL_KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType({"cri": WELL_KNOWN_RUNTIMES, "docker": WELL_KNOWN_DOCKER})

_FORMS = "/path, unix:///path or unix:/path"
# What a name or a literal of either family is made of; whether there is such a host is asked when it is bound.
_HOST = re.compile(r"[A-Za-z0-9._:%-]*")
_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "[::1]": "::1"}


@dataclass(frozen=True, slots=True)
class UnixListen:
    """Listen on a unix socket at an absolute path."""

    path: str


@dataclass(frozen=True, slots=True)
class TcpListen:
    """Listen on an address; `host` has no brackets and is empty for all of the machine, port 0 means any free one."""

    host: str
    port: int


def parse_endpoint(text: str, where: str) -> str:
    """The absolute socket path `text` names; `where` is the flag or key it came from, for the message."""
    if not text:
        raise ConfigError(f"{where}: the endpoint is empty, expected {_FORMS}")
    if "\0" in text:
        raise _refused(
            text, where, "contains a NUL byte (abstract sockets are not supported: they have no permissions)"
        )
    if text != text.strip():
        raise _refused(text, where, "begins or ends with white space")
    path = _path_of(text, where)
    if path.startswith("@"):
        raise _refused(text, where, "names an abstract socket, which has no permissions and which kubelets cannot use")
    if not path.startswith("/"):
        raise _refused(text, where, f"is not absolute, expected {_FORMS}")
    if path.endswith("/"):
        raise _refused(text, where, "names a directory, not a socket")
    check_path_length(path, where)
    return path


def check_path_length(path: str, where: str) -> None:
    """Refuse a path no client could ever connect to."""
    size = len(path.encode("utf-8", "surrogateescape"))
    if size > MAX_PATH_BYTES:
        raise _refused(path, where, f"is {size} bytes long, a unix socket path may have at most {MAX_PATH_BYTES}")


def parse_listen(text: str, where: str) -> UnixListen | TcpListen:
    """Where an unauthenticated local interface may listen: a unix socket, or a loopback address with a port."""
    if text.startswith(("/", "@")) or text[:5].lower() == "unix:" or "\0" in text:
        return UnixListen(parse_endpoint(text, where))
    host, colon, port = text.rpartition(":")
    if not colon or "/" in text:
        raise _refused(text, where, f"is neither {_FORMS} nor a loopback address such as 127.0.0.1:9090")
    if host.lower() not in _LOOPBACK:
        raise _refused(
            text,
            where,
            "is not a loopback address: this interface has no authentication, so other machines must not reach it "
            "(allowed hosts are 127.0.0.1, [::1] and localhost)",
        )
    return TcpListen(_LOOPBACK[host.lower()], _port(port, text, where))


def parse_address(text: str, where: str) -> TcpListen:
    """Where something may listen that others shall reach: HOST:PORT, [IPV6]:PORT, or :PORT on all addresses."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or (":" in bare) != (bare != host) or not _HOST.fullmatch(bare):
        raise _refused(text, where, "is not an address such as 0.0.0.0:9090, [::]:9090 or :9090")
    return TcpListen(bare, _port(port, text, where))


def _port(port: str, text: str, where: str) -> int:
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise _refused(text, where, f"has the port {port!r}, expected a number from 0 to 65535")
    return int(port)


def _path_of(text: str, where: str) -> str:
    """Strip the scheme, refusing any other than unix and the two-slash mistake."""
    if text[:5].lower() != "unix:":
        scheme, separator, _ = text.partition("://")
        if separator and "/" not in scheme:
            raise _refused(text, where, f"has the scheme {scheme}, only unix sockets are supported: {_FORMS}")
        return text
    rest = text[5:]
    if not rest.startswith("//"):
        return rest
    rest = rest[2:]
    if rest and not rest.startswith(("/", "@")):
        # In a URL what follows the two slashes is a host name, and clients drop it without a word.
        host = rest.partition("/")[0]
        raise _refused(text, where, f"takes {host!r} for a host name, did you mean unix:///{rest}?")
    return rest


def _refused(text: str, where: str, why: str) -> ConfigError:
    return ConfigError(f"{where}: {text!r} {why}")
