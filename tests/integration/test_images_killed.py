"""Processes that are killed in the middle of their work leave nothing that counts in a store, and nothing for long."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from interpose.node.runtime.images.store import LocalImageStore
from tests.support.node.image_files import docker_archive, layer, make_image
from tests.support.node.registry import FakeRegistry

IMAGE = make_image(
    [
        layer({"etc/": 0o755, "etc/passwd": "root", "etc/shadow": "x", "bin/sh": "-> busybox", "bin/busybox": "b"}),
        layer({"etc/.wh.shadow": "", "bin/ls": "= bin/busybox", "etc/passwd": "me"}),
    ]
)


async def killed(root: Path, what: str, which: str, every: int = 1) -> list[dict[str, Any]]:
    """What is found after each kill, and after the same was done to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.node.image_kill",
        str(root),
        what,
        which,
        str(every),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_PROXY": "*"},
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return [json.loads(line) for line in output.splitlines()]


def check(found: list[dict[str, Any]], before: list[str], after: list[str]) -> None:
    """All or nothing each time, and no stray that stays."""
    assert len(found) > 10
    for one in found:
        assert one["images"] in (before, after)
        assert one["whole"]
        assert one["strays"] == one["work"] == []
        assert one["configs"] == len(one["images"])
        then = one["then"]
        assert then["images"] == after
        assert then["whole"]
        assert then["strays"] == then["work"] == []
    assert found[0]["images"] == before
    assert found[-1]["images"] == after


async def test_a_killed_import_leaves_nothing(tmp_path: Path) -> None:
    """At each of its steps; the same import again works."""
    file = tmp_path / "image.tar"
    file.write_bytes(docker_archive({"x:1": IMAGE}))
    check(await killed(tmp_path / "images", "import", str(file)), [], [IMAGE.id])


async def test_a_killed_removal_can_be_done_again(tmp_path: Path) -> None:
    """An image is there whole, or not at all."""
    file = tmp_path / "image.tar"
    file.write_bytes(docker_archive({"x:1": IMAGE}))
    store = LocalImageStore(tmp_path / "images", durable=False)
    store.load()
    await store.import_file(file)
    await store.close()
    check(await killed(tmp_path / "images", "rm", "x:1"), [IMAGE.id], [])


async def test_a_killed_pull_leaves_nothing(tmp_path: Path) -> None:
    """At some of its steps, since most are those of an import; the same pull again works."""
    async with FakeRegistry() as registry:
        found = await killed(tmp_path / "images", "pull", registry.put("app", "1", IMAGE), every=4)
    check(found, [], [IMAGE.id])
