"""Calls a webhook over HTTPS as an API server does: its certificate has to be signed by the caBundle."""

import asyncio
import contextlib
import json
import ssl
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import h11

from tests.support.apiserver.admission import CallFailedError, timeout_of

_CHUNK = 65536


class WebhookCaller:
    """Knows where services are: `services` maps (namespace, name) to host and port, which a test fills."""

    def __init__(self) -> None:
        self.services: dict[tuple[str, str], tuple[str, int]] = {}

    async def __call__(self, webhook: Mapping[str, Any], review: Mapping[str, Any]) -> Any:
        """The parsed answer; CallFailedError for everything else."""
        config = webhook.get("clientConfig") or {}
        timeout = timeout_of(webhook)
        host, port, name, path = self._place(config)
        try:
            context = ssl.create_default_context()
            if config.get("caBundle"):
                context = ssl.create_default_context(cadata=b64decode(config["caBundle"]).decode())
            async with asyncio.timeout(timeout):
                code, raw = await _post(
                    (host, port), f"{path}?timeout={timeout}s", name, context, json.dumps(review).encode()
                )
        except TimeoutError:
            raise CallFailedError(f"Post https://{name}{path}: context deadline exceeded") from None
        except (OSError, ValueError, h11.ProtocolError) as error:
            raise CallFailedError(f"Post https://{name}{path}: {error}") from None
        if code != 200:
            raise CallFailedError(f"the webhook answered {code}")
        try:
            return json.loads(raw)
        except ValueError as error:
            raise CallFailedError(f"the answer is not JSON: {error}") from None

    def _place(self, config: Mapping[str, Any]) -> tuple[str, int, str, str]:
        """Where to connect, which name has to be in the certificate, and the path."""
        if url := config.get("url"):
            parts = urlsplit(url)
            return parts.hostname or "", parts.port or 443, parts.hostname or "", parts.path or "/"
        service = config["service"]
        key = (service["namespace"], service["name"])
        name = f"{key[1]}.{key[0]}.svc"
        if key not in self.services:
            raise CallFailedError(f"no endpoints available for service {key[1]!r}")
        return *self.services[key], name, service.get("path") or "/"


async def _post(
    place: tuple[str, int], target: str, name: str, context: ssl.SSLContext, body: bytes
) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(*place, ssl=context, server_hostname=name)
    try:
        http = h11.Connection(h11.CLIENT)
        headers = [("host", name), ("content-type", "application/json"), ("accept", "application/json")]
        headers += [("content-length", str(len(body))), ("user-agent", "kube-apiserver-admission")]
        head = http.send(h11.Request(method="POST", target=target, headers=headers)) or b""
        end = (http.send(h11.Data(data=body)) or b"") + (http.send(h11.EndOfMessage()) or b"")
        writer.write(head + end)
        await writer.drain()
        code, answer = 0, bytearray()
        while not isinstance(event := http.next_event(), h11.EndOfMessage | h11.ConnectionClosed):
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(_CHUNK))
            elif isinstance(event, h11.Response):
                code = event.status_code
            elif isinstance(event, h11.Data):
                answer += event.data
        return code, bytes(answer)
    finally:
        # A transport with TLS that is closed waits for the other side, perhaps for longer than this loop runs.
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
