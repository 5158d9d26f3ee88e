"""How to get to an API server and who we are there: values, as files and environment say them. Pure.

Invariant: the text of a value (`repr`) never has a secret in it.
"""

from dataclasses import dataclass, field
from typing import Final

from interpose.net.http.address import Proxy, Server
from interpose.net.http.tls import Pem

_NO_PEM: Final = Pem()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that prints credentials."""

    api_version: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)  # some are given passwords in them
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # all of it, not only what is added
    hint: str = ""  # how to get the program, for whoever has not
    cluster: str = field(default="", repr=False)  # JSON for a program that asks where it is to be used


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """Who we are. What counts first: token file, token, name with password, program. A certificate counts too."""

    token: str = field(default="", repr=False)
    token_file: str = ""
    name: str = ""
    password: str = field(default="", repr=False)
    certificate: Pem = _NO_PEM
    key: Pem = _NO_PEM
    plugin: ExecPlugin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An API server and us. `source` says where this was found, for logs and messages."""

    server: Server
    source: str
    namespace: str = "default"
    authorities: Pem = _NO_PEM  # none: those that the system trusts
    insecure: bool = False
    server_name: str = ""  # that the certificate has to be for, if it is not the host's
    proxy: Proxy | None = None
    user: ClientIdentity = ClientIdentity()
