"""What asking leaves behind: counters, and log lines that say who changed what without telling secrets."""

import logging

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.client import FailureReason, HookCallError
from interpose.net.grpc.status import Code
from interpose.testing import pods
from tests.support.hooks.fakes import Bench, registration

CONFIG = pods.pod_config("web", "shop")
CREATE = pods.create_request("p1", CONFIG, pods.container_config(CONFIG, envs={"TOKEN": "old-secret"}))
POINT = HookPoint.PRE_CREATE_CONTAINER


def answer(_point: HookPoint, _request: object) -> hook.ContainerResourceHookResponse:
    """Changes a number, an environment variable, and tries what it may not."""
    return hook.ContainerResourceHookResponse(
        container_resources=hook.LinuxContainerResources(cpu_shares=2),
        container_envs={"TOKEN": "new-secret"},
        container_annotations={"io.kubernetes.container.hash": "0"},
    )


def fields(record: logging.LogRecord) -> dict[str, object]:
    """The structured part of a log line."""
    kv: dict[str, object] = record.__dict__.get("kv", {})
    return kv


async def test_debug_log_tells_each_change_and_hides_environment_values(caplog: pytest.LogCaptureFixture) -> None:
    """Who, where, which field, from what to what."""
    caplog.set_level(logging.DEBUG)
    bench = Bench()
    bench.plugin(registration("a"), answer)
    await bench.call(CREATE)
    lines = {str(fields(one)["field"]): fields(one) for one in caplog.records if "field" in fields(one)}
    assert lines["container_resources.cpu_shares"] == {
        "plugin": "a",
        "hook": "PreCreateContainer",
        "field": "container_resources.cpu_shares",
        "pod": "shop/web",
        "container": "app",
        "before": 102,
        "after": 2,
    }
    assert lines["container_envs[TOKEN]"]["after"] == "(hidden)"
    assert "secret" not in caplog.text
    assert not any("secret" in str(fields(one)) for one in caplog.records)


async def test_changes_and_refused_changes_are_counted() -> None:
    """Two fields were changed, one belongs to the kubelet."""
    bench = Bench()
    bench.plugin(registration("a"), answer)
    await bench.call(CREATE)
    assert bench.plugins.all[0].stats.points[POINT].changes == 2
    assert bench.dispatcher.hook_calls.refused_changes == {"a": 1}


async def test_results_are_counted_by_reason() -> None:
    """Each call once, and the last error is kept for people."""

    def refusing(_point: HookPoint, _request: object) -> object:
        raise HookCallError(Code.PERMISSION_DENIED, "no!", FailureReason.REFUSED)

    bench = Bench()
    caller = bench.plugin(registration("a"))
    await bench.call(CREATE)
    caller.answer = refusing
    await bench.call(CREATE)
    caller.answer = lambda *_: b"\xff"
    await bench.call(CREATE)
    stats = bench.plugins.all[0].stats
    assert stats.points[POINT].results == {"ok": 1, "refused": 1, "garbage": 1}
    assert stats.last_error.startswith("PreCreateContainer: its answer cannot be read")
    assert len(caller.garbage) == 1


async def test_repeated_failures_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A plugin that is away must not fill the log."""
    bench = Bench()
    bench.plugin(registration("a"), lambda *_: b"\xff")
    for _ in range(5):
        await bench.call(CREATE)
    assert len([one for one in caplog.records if one.getMessage() == "Hook server failed"]) == 1
    bench.clock += 61.0
    await bench.call(CREATE)
    assert len([one for one in caplog.records if one.getMessage() == "Hook server failed"]) == 2


async def test_answer_that_is_far_too_large_is_bad() -> None:
    """It is not even parsed."""
    bench = Bench()
    bench.plugin(registration("a"), lambda *_: bytes(400_000))
    await bench.call(CREATE)
    stats = bench.plugins.all[0].stats
    assert stats.points[POINT].results == {"bad-answer": 1}
    assert "it has 400000 bytes" in stats.last_error
