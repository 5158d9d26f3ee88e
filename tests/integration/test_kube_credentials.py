"""Credentials of the client as they change: tokens that are replaced, programs that give them."""

import asyncio
import os
from pathlib import Path

import pytest

from interpose.kube.client.access import ClientIdentity, ExecPlugin
from interpose.kube.client.api import EVENTS, NODES, ApiError
from interpose.net.http.errors import UnreachableError
from interpose.testing.eventually import eventually
from tests.support.kube.scripted_api import NODE, serving
from tests.support.net.scripted_server import Peer, Script


def keeper(valid: list[str]) -> Script:
    """Lets in who has the token in `valid`."""

    async def script(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            good = asked.headers.get("authorization") == f"Bearer {valid[0]}"
            status = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "no"}
            await (peer.answer(NODE) if good else peer.answer(status, 401))

    return script


async def test_rotated_token_file(tmp_path: Path) -> None:
    """A token that was replaced is used for the next request; nobody is asked twice."""
    valid = ["one"]
    file = tmp_path / "token"
    file.write_text("one\n")
    async with serving(keeper(valid), ClientIdentity(token_file=str(file))) as (server, client):
        await client.get(NODES, "n1")
        valid[0] = "second"
        file.write_text("second\n")
        await client.get(NODES, "n1")
    assert len(server.asked) == 2


async def test_token_file_that_looks_the_same(tmp_path: Path) -> None:
    """After a 401 the file is read in any case, and a write is sent again: it was not carried out."""
    valid = ["one"]
    file = tmp_path / "token"
    file.write_text("one")
    async with serving(keeper(valid), ClientIdentity(token_file=str(file))) as (server, client):
        await client.get(NODES, "n1")
        valid[0] = "two"
        file.write_text("two")
        client._credentials._token_stamp = (file.stat().st_ino, file.stat().st_mtime_ns, 3)
        await client.create(EVENTS, {}, namespace="default")
    assert [asked.method for asked in server.asked] == ["GET", "POST", "POST"]
    assert client.requests == {("get", "200"): 1, ("create", "401"): 1, ("create", "200"): 1}


async def test_token_that_is_refused(tmp_path: Path) -> None:
    """Without a newer one there is nothing to try again."""
    file = tmp_path / "token"
    file.write_text("old")
    async with serving(keeper(["new"]), ClientIdentity(token_file=str(file))) as (server, client):
        with pytest.raises(ApiError, match=r"no \(401 Unauthorized\)"):
            await client.get(NODES, "n1")
    assert len(server.asked) == 1


async def test_token_file_that_is_missing(tmp_path: Path) -> None:
    """It may come later: that is no reason to end."""
    file = tmp_path / "token"
    async with serving(keeper(["new"]), ClientIdentity(token_file=str(file))) as (server, client):
        with pytest.raises(UnreachableError, match=f"file {file}: cannot be read: No such file"):
            await client.get(NODES, "n1")
        file.write_text("new")
        await client.get(NODES, "n1")
    assert len(server.asked) == 1


async def test_credential_program(tmp_path: Path) -> None:
    """It is run once, and again after a 401; a watch is begun with the new token too."""
    program = tmp_path / "plugin"
    program.write_text(
        "#!/bin/sh\n"
        f"echo run >>{tmp_path}/runs\n"
        f'echo "{{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",'
        f'\\"status\\":{{\\"token\\":\\"$(cat {tmp_path}/token)\\"}}}}"\n'
    )
    program.chmod(0o755)
    plugin = ExecPlugin(
        api_version="client.authentication.k8s.io/v1", command=str(program), environment=(("PATH", "/usr/bin:/bin"),)
    )
    valid = ["one"]
    (tmp_path / "token").write_text("one")
    async with serving(keeper(valid), ClientIdentity(plugin=plugin)) as (_server, client):
        await client.get(NODES, "n1")
        await client.get(NODES, "n1")
        assert (tmp_path / "runs").read_text() == "run\n"
        valid[0] = "two"
        (tmp_path / "token").write_text("two")
        await asyncio.gather(client.get(NODES, "n1"), client.get(NODES, "n1"))
        assert (tmp_path / "runs").read_text() == "run\nrun\n"


async def test_credential_program_that_is_slow(tmp_path: Path) -> None:
    """It takes of the request's time, and one run serves all; what it gives at last is there for the next."""
    os.mkfifo(tmp_path / "gate")
    printed = '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"one"}}'
    script = f"echo run >>{tmp_path}/runs; cat {tmp_path}/gate; echo '{printed}'"
    environment = (("PATH", "/usr/bin:/bin"),)
    plugin = ExecPlugin(
        api_version="client.authentication.k8s.io/v1", command="sh", args=("-c", script), environment=environment
    )
    async with serving(keeper(["one"]), ClientIdentity(plugin=plugin), timeout=0.3) as (server, client):
        asked = await asyncio.gather(*(client.get(NODES, "n1") for _ in range(5)), return_exceptions=True)
        assert {str(error) for error in asked} == {f"{server.url}/k8s: no credentials within 0.3 s"}
        assert client.requests == {("get", "unreachable"): 5}
        await asyncio.to_thread((tmp_path / "gate").write_text, "")
        runner = client._credentials._runner
        await eventually(lambda: runner is not None and runner.held is not None, "the end of the program")
        assert await client.get(NODES, "n1") == NODE
    assert (tmp_path / "runs").read_text() == "run\n"
