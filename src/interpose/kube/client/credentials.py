"""What requests show the API server: an Authorization header and a TLS context, always those of now.

Files are looked at for each request, and read when they changed: tokens and certificates rotate while we run.
Invariant: something that cannot be used, such as a half-written file, never displaces what worked.
"""

import base64
import logging
import os
import ssl
from dataclasses import dataclass, field
from typing import Final

from interpose.config.documents.yaml import read_text
from interpose.errors import ConfigError
from interpose.kube.client.access import Access
from interpose.kube.client.exec_credential import ExecCredential
from interpose.kube.client.exec_plugin import PluginRunner
from interpose.log import RateLimited
from interpose.net.http.tls import Pem, make_context

_log = logging.getLogger(__name__)
_MAX_TOKEN: Final = 1 << 16  # those with many groups in them have some KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCredentials:
    """What one request is made with. `context` is None without TLS; another one means other connections."""

    authorization: str = field(default="", repr=False)
    context: ssl.SSLContext | None = None


class CredentialSource:
    """Makes the credentials of requests. ConfigError says why there are none."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._limited = RateLimited(_log)
        self._runner = PluginRunner(access.user.plugin) if access.user.plugin is not None else None
        self._token = ""
        self._token_stamp: object = None
        self._context: ssl.SSLContext | None = None
        self._context_stamp: object = None

    async def current(self) -> RequestCredentials:
        """The credentials for a request that is made now."""
        credential = await self._runner.credential() if self._runner is not None else None
        return self._make(credential)

    async def renew(self, refused: RequestCredentials) -> RequestCredentials | None:
        """After a 401: newer credentials than the refused ones, or None if there are none."""
        credential = None
        if self._runner is not None:
            held = self._runner.held
            # Somebody else may have had the same answer and asked the program already.
            same = held is not None and self._make(held) == refused
            credential = await self._runner.credential(refused=held if same else None)
        self._token_stamp = None  # files are read again, even if they look the same
        newer = self._make(credential)
        return None if newer == refused else newer

    async def close(self) -> None:
        """End the credential program, if one runs."""
        if self._runner is not None:
            await self._runner.close()

    def _make(self, credential: ExecCredential | None) -> RequestCredentials:
        context = self._tls(credential) if self._access.server.scheme == "https" else None
        return RequestCredentials(authorization=self._authorization(credential), context=context)

    def _authorization(self, credential: ExecCredential | None) -> str:
        user = self._access.user
        if user.token_file:
            return _bearer(self._file_token(user.token_file), user.token_file)
        if user.token:
            return _bearer(user.token, self._access.source)
        if user.name:
            return "Basic " + base64.b64encode(f"{user.name}:{user.password}".encode()).decode()
        if credential is not None and credential.token and user.plugin is not None:
            return _bearer(credential.token, user.plugin.command)
        return ""

    def _file_token(self, path: str) -> str:
        stamp = _stamp(path)
        if stamp is None or stamp != self._token_stamp:
            try:
                token = read_text(path, _MAX_TOKEN).strip()
                if not token:
                    raise ConfigError(f"file {path}: is empty, a token was expected")
                _bearer(token, path)
            except ConfigError as error:
                if not self._token:
                    raise
                self._limited.log(logging.WARNING, "Failed to read token, keeping the last one", err=str(error))
                return self._token
            self._token, self._token_stamp = token, stamp
        return self._token

    def _tls(self, credential: ExecCredential | None) -> ssl.SSLContext:
        access, user = self._access, self._access.user
        certificate, key = user.certificate, user.key
        if credential is not None and credential.certificate:
            certificate, key = Pem(text=credential.certificate), Pem(text=credential.key)
        stamp = tuple(pem.text or _stamp(pem.file) for pem in (access.authorities, certificate, key))
        if self._context is None or stamp != self._context_stamp:
            try:
                context = make_context(
                    authorities=access.authorities, insecure=access.insecure, certificate=certificate, key=key
                )
            except ConfigError as error:
                if self._context is None:
                    raise
                self._limited.log(logging.WARNING, "Invalid certificates, keeping the last ones", err=str(error))
                return self._context
            self._context, self._context_stamp = context, stamp
        return self._context


def _bearer(token: str, where: str) -> str:
    # Checked here: a header that cannot be sent would be shown, with the token in it.
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"the token of {where} has characters that no token has")
    return f"Bearer {token}"


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What tells a file from the one that was there before, also behind links that are swapped."""
    try:
        found = os.stat(path) if path else None  # noqa: PTH116 - once per request
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found is not None else None
