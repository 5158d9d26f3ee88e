"""Runs CNI plugins: a program with a JSON document on its standard input, and one as its answer."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interpose.node.runtime.network.results import error_message, parse_result
from interpose.node.runtime.network.types import INTERFACE, NetworkError

TIMEOUT: Final = 60.0
CONTAINER_ID: Final = "CNI_CONTAINERID"
_LARGEST: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The attachment of a sandbox: its id, network namespace (empty if it is gone), and CNI_ARGS."""

    sandbox_id: str
    netns: str
    arguments: str


class CniPlugins:
    """Finds and runs the CNI plugins in some folders."""

    def __init__(self, folders: Sequence[str], *, timeout: float = TIMEOUT) -> None:
        self._folders = tuple(folders)
        self._timeout = timeout

    def find(self, kind: str) -> str:
        """The path of a plugin; NetworkError names it and the folders."""
        for folder in self._folders:
            if os.access(path := f"{folder}/{kind}", os.X_OK) and Path(path).is_file():
                return path
        raise NetworkError(f"network plugin {kind!r} is not in {', '.join(self._folders)}")

    async def run(self, command: str, kind: str, document: Mapping[str, Any], attachment: Attachment) -> dict[str, Any]:
        """Run a plugin; returns its answer. NetworkError if it fails or does not end in time."""
        program = self.find(kind)
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "CNI_COMMAND": command,
            CONTAINER_ID: attachment.sandbox_id,
            "CNI_NETNS": attachment.netns,
            "CNI_IFNAME": INTERFACE,
            "CNI_ARGS": attachment.arguments,
            "CNI_PATH": ":".join(self._folders),
        }
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                program, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
            )
        except OSError as error:
            raise NetworkError(f"network plugin {kind!r} cannot be started: {error}") from None
        try:
            async with asyncio.timeout(self._timeout):
                stdout, stderr = await process.communicate(json.dumps(document).encode())
        except TimeoutError:
            raise NetworkError(f"network plugin {kind!r} did not finish {command} in {self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with the plugins that it has started itself
                await process.wait()
        answer, errors = stdout[:_LARGEST].decode("utf-8", "replace"), stderr[:_LARGEST].decode("utf-8", "replace")
        if process.returncode != 0:
            raise NetworkError(f"network plugin {kind!r} failed ({command}): {error_message(answer, errors)}")
        try:
            return parse_result(answer)
        except ValueError as error:
            raise NetworkError(f"network plugin {kind!r} answered nonsense ({command}): {error}") from None
