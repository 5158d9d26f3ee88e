"""What a kubelet tells is used when it comes, and nobody waits for it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.core.model.pod import Pod
from interpose.hooks.server.pods import kubelet_client
from interpose.hooks.server.pods.kubelet_client import KubeletPods, MetadataSource
from interpose.testing.eventually import eventually

POD = Pod(id="s", uid="u", name="web", namespace="shop", labels={"a": "old"})


class SlowKubelet(KubeletPods):
    """Tells what is in a file, when it is let."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"file://{path}")
        self.path = path
        self.let = asyncio.Event()
        self.let.set()
        self.tell("new")

    def tell(self, label: str) -> None:
        """A pod with this label."""
        meta = {"uid": "u", "name": "web", "namespace": "shop", "labels": {"a": label}}
        self.path.write_text(json.dumps({"kind": "PodList", "items": [{"metadata": meta, "spec": {}, "status": {}}]}))

    async def refresh(self) -> bool:
        """As soon as it is let."""
        await self.let.wait()
        return await super().refresh()


class Told:
    """A source, and how often it had news."""

    def __init__(self, kubelet: KubeletPods | None) -> None:
        self.news = 0
        self.source = MetadataSource(kubelet, self._more)

    def _more(self) -> None:
        self.news += 1


@pytest.fixture
def kubelet(tmp_path: Path) -> SlowKubelet:
    """One that answers at once."""
    return SlowKubelet(tmp_path / "pods.json")


@pytest.fixture
async def told(kubelet: SlowKubelet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Told]:
    """Asks it, and has no patience at all once it is held up."""
    made = Told(kubelet)
    yield made
    await made.source.close()


async def test_without_a_kubelet_a_pod_is_as_it_is() -> None:
    """And there is nothing to wait for."""
    source = Told(None).source
    found = await source.poll()
    assert found.known
    assert found.of(POD) is POD


async def test_what_the_kubelet_tells_is_laid_over_the_pod(told: Told) -> None:
    """It is asked each time, and what comes in time is no news."""
    assert told.source.of(POD) == POD
    found = await told.source.poll()
    assert (found.known, found.of(POD).labels, told.news) == (True, {"a": "new"}, 0)


async def test_a_kubelet_that_is_late_is_news_once(
    told: Told, kubelet: SlowKubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only if it tells something else: otherwise one round would cause the next for ever."""
    monkeypatch.setattr(kubelet_client, "_POLL_WAIT", 0.0)
    kubelet.let.clear()
    for _ in range(2):
        assert (await told.source.poll()).known is False
    kubelet.let.set()
    await eventually(lambda: told.news == 1, "the news")
    assert told.source.of(POD).labels == {"a": "new"}
    refreshed = kubelet.refreshes
    assert (await told.source.poll()).known
    await eventually(lambda: kubelet.refreshes > refreshed, "the kubelet to be asked again")
    assert told.news == 1


async def test_who_ends_does_not_wait(told: Told, kubelet: SlowKubelet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way is cut off, and is no news."""
    monkeypatch.setattr(kubelet_client, "_POLL_WAIT", 0.0)
    kubelet.let.clear()
    await told.source.poll()
    await told.source.close()
    assert told.news == 0
