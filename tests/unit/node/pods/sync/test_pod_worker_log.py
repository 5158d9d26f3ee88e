"""What the log tells of pods."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.node.kept_node import KeptNode
from tests.support.node.managed_node import pod


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[KeptNode]:
    made = KeptNode(tmp_path)
    yield made
    await made.keeper.close()


async def test_ends_of_containers_are_in_the_log(node: KeptNode, caplog: pytest.LogCaptureFixture) -> None:
    """With the code, once."""
    caplog.set_level("INFO")
    await node.keeps(pod())
    node.crash(code=7)
    await node.pass_time(2)
    told = [one for one in caplog.records if one.message == "Container terminated"]
    assert [one.__dict__["kv"]["exit_code"] for one in told] == [7]
    assert [one.message for one in caplog.records].count("Pod is ready") == 1  # it was up again at once


async def test_waits_of_containers_are_in_the_log(node: KeptNode, caplog: pytest.LogCaptureFixture) -> None:
    """Once for each wait, with how long it is; the first start again does not wait."""
    caplog.set_level("INFO")
    await node.keeps(pod())
    for _ in range(2):
        node.crash(code=7)
        await node.pass_time(2)
    told = [one for one in caplog.records if one.message == "Container restart delayed (back-off)"]
    assert len(told) == 1
    assert "back-off 10 s" in told[0].__dict__["kv"]["reason"]
