"""Credentials from a program: it is run, and what it prints is kept until it expires.

Invariant: what it printed is in no message.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from interpose.errors import ConfigError
from interpose.kube.access import ExecPlugin
from interpose.kube.answers import shortened

# Such programs ask a cloud; they may be slow, but one that waits for a person never ends.
_TIMEOUT: Final = 60.0
# A token that ends while it travels is no use.
_MARGIN: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredential:
    """What the program gave; `expires` is in seconds since 1970, None if it does not say."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    expires: float | None = None


class PluginRunner:
    """Runs the program when its credentials are needed and the last ones are of no use any more."""

    def __init__(self, plugin: ExecPlugin, *, timeout: float = _TIMEOUT, wall: Callable[[], float] = time.time) -> None:
        self._plugin = plugin
        self._timeout = timeout
        self._wall = wall
        self._lock = asyncio.Lock()
        self._held: ExecCredential | None = None

    async def credential(self, *, refused: ExecCredential | None = None) -> ExecCredential:
        """Usable credentials, other ones than those that were `refused`; ConfigError says why there are none."""
        async with self._lock:
            held = self._held
            fresh = held is not None and (held.expires is None or held.expires - _MARGIN > self._wall())
            if held is None or not fresh or held is refused:
                held = self._held = await self._run()
            return held

    @property
    def held(self) -> ExecCredential | None:
        """What it gave last."""
        return self._held

    async def _run(self) -> ExecCredential:
        plugin = self._plugin
        where = f"credential program {plugin.command}"
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster:
            spec["cluster"] = json.loads(plugin.cluster)
        info = json.dumps({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec})
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env={**dict(plugin.environment), "KUBERNETES_EXEC_INFO": info},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that its children can be ended too
            )
        except (OSError, ValueError) as error:
            hint = f" ({shortened(plugin.hint.encode())})" if plugin.hint else ""
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"{where}: cannot be run: {reason}{hint}") from None
        try:
            async with asyncio.timeout(self._timeout):
                printed, said = await process.communicate()
        except TimeoutError:
            raise ConfigError(f"{where}: did not end within {self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.communicate()
        if process.returncode != 0:
            last = shortened(b" ".join(said.strip().splitlines()[-1:])) or "it said nothing"
            raise ConfigError(f"{where}: failed with exit code {process.returncode}: {last}")
        return read_credential(printed, plugin.api_version, where)


def read_credential(printed: bytes, api_version: str, where: str) -> ExecCredential:
    """What was printed, checked; ConfigError begins with `where`."""
    try:
        found = json.loads(printed)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
        raise ConfigError(f"{where}: did not print an ExecCredential in JSON")
    if found.get("apiVersion") != api_version:
        version = shortened(str(found.get("apiVersion")).encode(), 80)
        raise ConfigError(f"{where}: printed apiVersion {version!r}, {api_version!r} was asked for")
    status = found.get("status")
    if not isinstance(status, dict):
        raise ConfigError(f"{where}: printed no status")
    token, certificate, key = (
        _text(status, name, where) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key):
        raise ConfigError(f"{where}: printed a certificate without a key, or a key without a certificate")
    if not token and not certificate:
        raise ConfigError(f"{where}: printed neither a token nor a certificate")
    expires = _moment(_text(status, "expirationTimestamp", where), where)
    return ExecCredential(token=token, certificate=certificate, key=key, expires=expires)


def _text(status: dict[str, Any], name: str, where: str) -> str:
    value = status.get(name)
    if not isinstance(value, str | None):
        raise ConfigError(f"{where}: status.{name} is no text")
    return value or ""


def _moment(text: str, where: str) -> float | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        shown = shortened(text.encode(), 40)
        raise ConfigError(f"{where}: status.expirationTimestamp: {shown!r} is no time") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
