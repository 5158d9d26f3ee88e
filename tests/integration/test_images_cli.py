"""`interpose image pull` as a process, from a registry on loopback."""

import asyncio
import base64
import json
import os
import sys
from pathlib import Path

from tests.support.node.image_files import layer, make_image
from tests.support.node.registry import Door, FakeRegistry

IMAGE = make_image([layer({"a": "1"})])


async def pull(*arguments: str, root: Path, text: str = "", env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The command: its exit code and what it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from interpose.cli.main import main; main()",
        "image",
        "pull",
        *arguments,
        "--root",
        str(root),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "DOCKER_CONFIG": str(root), **(env or {})},
    )
    out, err = await process.communicate(text.encode())
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_password_comes_from_standard_input(tmp_path: Path) -> None:
    """So that no list of processes shows it."""
    async with FakeRegistry(door=Door.BASIC, users={"me": "pw"}) as registry:
        name = registry.put("app", "1", IMAGE)
        code, out, err = await pull(name, "--username", "me", "--password-stdin", root=tmp_path, text="pw\n")
        assert (code, name in out) == (0, True), err
        code, _, err = await pull(name, "--username", "me", "--password-stdin", root=tmp_path, text="wrong\n")
        assert code == 1
        assert "authorization failed" in err
        assert "wrong" not in err


async def test_credentials_of_docker_and_settings_of_registries_are_used(tmp_path: Path) -> None:
    """TLS with a certificate that a file names, and the token that credentials give."""
    async with FakeRegistry(tls=True, door=Door.TOKEN, users={"me": "pw"}) as registry:
        assert registry.authority is not None
        name = registry.put("app", "1", IMAGE)
        (tmp_path / "ca.pem").write_text(registry.authority.pem)
        settings = {"registries": {registry.host: {"ca": str(tmp_path / "ca.pem")}}}
        (tmp_path / "registries.json").write_text(json.dumps(settings))
        word = base64.b64encode(b"me:pw").decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": word}}}))
        code, out, err = await pull(
            name, "-o", "json", "--registries", str(tmp_path / "registries.json"), root=tmp_path
        )
        assert code == 0, err
        assert json.loads(out)[0]["tags"] == [name]


async def test_an_image_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    """With its whole name."""
    async with FakeRegistry() as registry:
        registry.faults.statuses["1"] = [404] * 9
        code, _, err = await pull(f"{registry.host}/app:1", root=tmp_path)
        assert code == 1
        assert f'failed to pull image "{registry.host}/app:1"' in err
        assert "Traceback" not in err
