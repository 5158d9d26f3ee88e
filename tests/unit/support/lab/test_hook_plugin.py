"""The hook server on grpcio does what the tests of others rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import set_shares
from tests.support.lab.hook_plugin import HookPlugin, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POINT = HookPoint.PRE_CREATE_CONTAINER
REQUEST = hook.ContainerResourceHookRequest(container_envs={"A": "1"})


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[HookPlugin]:
    """A running one."""
    with HookPlugin(tmp_path / "p.sock") as running:
        yield running


def ask(plugin: HookPlugin, timeout: float = 10.0) -> Any:
    """One call of the hook point."""
    with grpc.insecure_channel(f"unix:{plugin.socket}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.unary_unary(
            POINT.rpc.decode(),
            request_serializer=hook.ContainerResourceHookRequest.SerializeToString,
            response_deserializer=hook.ContainerResourceHookResponse.FromString,
        )
        return call(REQUEST, timeout=timeout, metadata=(("some-key", "value"),))


def test_notes_and_answers(plugin: HookPlugin) -> None:
    """An empty answer unless told otherwise; requests are kept with their metadata."""
    assert ask(plugin) == hook.ContainerResourceHookResponse()
    plugin.answers[POINT] = set_shares(7)
    assert ask(plugin).container_resources.cpu_shares == 7
    assert plugin.points == [POINT, POINT]
    assert plugin.last(POINT) == REQUEST
    assert plugin.calls[0].metadata["some-key"] == "value"


def test_refuses(plugin: HookPlugin) -> None:
    """With the code and text it was told."""

    def no(_: Any) -> Any:
        raise Refusal(grpc.StatusCode.ABORTED, "no")

    plugin.answers[POINT] = no
    with pytest.raises(grpc.RpcError) as refused:
        ask(plugin)
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.ABORTED, "no")


@pytest.mark.parametrize("how", ["hang", "crash"])
def test_does_not_answer(plugin: HookPlugin, how: str) -> None:
    """It was asked, and no answer came; its socket is gone only after a crash."""
    plugin.answers[POINT] = getattr(plugin, how)
    with pytest.raises(grpc.RpcError) as failed:
        ask(plugin, timeout=0.5 if how == "hang" else 10.0)
    assert (failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED) == (how == "hang")
    assert plugin.points == [POINT]
    assert plugin.socket.exists() == (how == "hang")
