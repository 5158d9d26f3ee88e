"""The address of an API server, and the proxy in front of it, if any. Pure."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

_PORTS: Final[Mapping[str, int]] = {"https": 443, "http": 80}
# By scheme of the server; the lower-case spelling counts first, as with curl.
_PROXY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "https": ("https_proxy", "HTTPS_PROXY"),
    "http": ("http_proxy",),  # not in capitals: a CGI request could have set that one
}
_NO_PROXY_VARIABLES: Final = ("no_proxy", "NO_PROXY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Scheme, host (without brackets), port, and a path that stands before every other: "" or "/k8s/clusters/c1"."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy that makes tunnels; `authorization` is the value of the header, or empty."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_server(text: str) -> Server:
    """The address of an API server; ValueError says what is wrong with it, without what may be a password."""
    url, host = _split(text, "https://HOST:PORT")
    if url.scheme not in _PORTS:
        raise ValueError("it does not begin with https:// or http://")
    if url.username is not None or url.password is not None:
        raise ValueError("an address with a user or a password in it is not supported")
    if url.query or url.fragment:
        raise ValueError("it has more than an address and a path: a '?' or a '#' and what follows")
    port = _PORTS[url.scheme] if url.port is None else url.port
    return Server(scheme=url.scheme, host=host, port=port, prefix=url.path.rstrip("/"))


def parse_proxy(text: str) -> Proxy:
    """The address of a proxy; ValueError says what is wrong with it, without what may be a password."""
    url, host = _split(text if "://" in text else f"http://{text}", "http://HOST:PORT")
    if url.scheme != "http":
        raise ValueError(f"a proxy of kind {url.scheme}:// is not supported, only http:// (with CONNECT)")
    authorization = ""
    if url.username is not None:
        words = f"{unquote(url.username)}:{unquote(url.password or '')}"
        authorization = "Basic " + base64.b64encode(words.encode()).decode()
    return Proxy(host=host, port=80 if url.port is None else url.port, authorization=authorization)


def _split(text: str, like: str) -> tuple[SplitResult, str]:
    """The parts of a URL, and its host."""
    try:
        url = urlsplit(text)
        if url.hostname and url.port != 0 and text.isprintable() and " " not in text:
            return url, url.hostname
    except ValueError:
        pass  # brackets or a port that are none
    raise ValueError(f"it is not an address such as {like}")


def proxy_from(env: Mapping[str, str], server: Server) -> Proxy | None:
    """The proxy that the environment names for this server, if any; ValueError names the variable."""
    name = next((name for name in _PROXY_VARIABLES[server.scheme] if env.get(name)), None)
    if name is None or _goes_direct(env, server):
        return None
    try:
        return parse_proxy(env[name])
    except ValueError as error:
        raise ValueError(f"variable {name}: {error}") from None


def _goes_direct(env: Mapping[str, str], server: Server) -> bool:
    host = server.host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    exceptions = next((env[name] for name in _NO_PROXY_VARIABLES if env.get(name)), "")
    return any(_excepts(entry.strip().lower(), host, address, server.port) for entry in exceptions.split(","))


def _excepts(entry: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    """One entry of NO_PROXY: *, an address, a network, or a domain with all below it; a port may follow."""
    if entry == "*":
        return True
    name, colon, number = entry.rpartition(":")
    if colon and number.isdecimal() and (":" not in name or name.startswith("[")):
        if int(number) != port:
            return False
        entry = name
    entry = entry.removeprefix("[").removesuffix("]")
    if not entry:
        return False
    if address is not None:
        try:
            return address in ip_network(entry, strict=False)
        except ValueError:
            return False
    domain = entry.removeprefix("*").removeprefix(".")
    return host.endswith("." + domain) or (host == domain and not entry.startswith((".", "*")))


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
