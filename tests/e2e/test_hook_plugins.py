"""Several hook servers, failing ones, and the ways in which they register, in front of a real containerd."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import LIFE, echo, response_to, set_shares
from tests.support.lab.hook_plugin import HookPlugin, Refusal
from tests.support.lab.pods import MEBIBYTE, described_pod
from tests.support.lab.processes import Child, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.cri import CriClient
    from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples" / "hook-plugin" / "plugin.py"


def test_chain_of_three(kubelet: CriClient, hooked_relay: Relay, scratch: Path) -> None:
    """Each sees what the one before it made; echoing and partial answers mix, and the last word is in the container."""
    with (
        HookPlugin(scratch / "1.sock", set_shares(10)) as partial,
        HookPlugin(scratch / "2.sock", set_shares(20, echo)) as echoing,
        HookPlugin(scratch / "3.sock", _memory) as last,
        hooked_relay.registered("last", last.socket, priority=200),
        hooked_relay.registered("echoing", echoing.socket),
        hooked_relay.registered("partial", partial.socket, priority=5),
        described_pod(kubelet) as pod,
    ):
        pod.run()
        pod.create()
        pod.start()
        asked = [one.last(HookPoint.PRE_CREATE_CONTAINER).container_resources for one in (partial, echoing, last)]
        assert [one.cpu_shares for one in asked] == [512, 10, 20]
        assert pod.cgroup_file("cpu", "cpu.shares").read_text() == "20\n"
        assert pod.cgroup_file("memory", "memory.limit_in_bytes").read_text() == f"{32 * MEBIBYTE}\n"
        assert pod.oom_score() == 500


def test_fail_refuses_and_nothing_is_made(
    kubelet: CriClient, runtime: CriClient, hooked_relay: Relay, plugin: HookPlugin
) -> None:
    """A plugin that says no, and one that is gone: the call never reaches containerd, and the kubelet reads why."""

    def no(_: Any) -> Any:
        raise Refusal(grpc.StatusCode.PERMISSION_DENIED, "not today")

    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = no
    with hooked_relay.registered("guard", plugin.socket, failure_policy="Fail"), described_pod(kubelet) as pod:
        pod.run()
        with pytest.raises(grpc.RpcError) as refused:
            pod.create()
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert refused.value.details() == (
            "hook server guard (failure policy Fail) at PreCreateContainer: PERMISSION_DENIED: not today"
        )
        mine = cri.ContainerFilter(pod_sandbox_id=pod.sandbox_id)
        assert not runtime.call("ListContainers", cri.ListContainersRequest(filter=mine)).containers
        plugin.leave()
        with described_pod(kubelet, "second") as second:
            with pytest.raises(grpc.RpcError) as refused:
                second.run()
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "hook server guard (failure policy Fail) at PreRunPodSandbox" in refused.value.details()
            selector = {"io.kubernetes.pod.uid": second.uid}
            listing = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=selector))
            assert not runtime.call("ListPodSandbox", listing).items


@pytest.mark.parametrize("how", ["hang", "crash"])
def test_ignore_goes_on(kubelet: CriClient, hooked_relay: Relay, plugin: HookPlugin, how: str) -> None:
    """A plugin that never answers, and one that is gone in the middle of a call, cost the call nothing."""
    plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = getattr(plugin, how)
    soft = hooked_relay.registered("soft", plugin.socket, failure_policy="Ignore", timeout="300ms")
    with soft, described_pod(kubelet) as pod:
        pod.run()
        pod.create()
        pod.start()
        assert HookPoint.PRE_CREATE_CONTAINER in plugin.points
        assert pod.cgroup_file("cpu", "cpu.shares").read_text() == "512\n"
        assert pod.exec("env").stdout.decode().splitlines().count("A=1") == 1


# -- how plugins register


def test_registration_as_a_koordlet_writes_it(kubelet: CriClient, hooked_relay: Relay, plugin: HookPlugin) -> None:
    """In place, in pieces, with tabs and a hook that nobody calls; half a file leaves the former one in force."""
    file = hooked_relay.hooks_dir / "koordlet.json"
    hooks = [point.value for point in LIFE[:4]] + ["PreRemoveRunPodSandbox"]
    listed = ",\n".join(f'\t\t"{name}"' for name in hooks)
    text = (
        f'{{\n\t"remote-endpoint": "{plugin.socket}",\n\t"failure-policy": "Ignore",\n'
        f'\t"runtime-hooks": [\n{listed}\n\t]\n}}'
    )
    former = text.replace(listed, '\t\t"PostStopPodSandbox"')

    def in_force() -> list[str]:
        return next((one["hooks"] for one in hooked_relay.hooks()["plugins"] if one["name"] == "koordlet"), [])

    plugin.default = _koordlet
    try:
        file.write_text(former)
        wait_for(lambda: in_force() == ["PostStopPodSandbox"], what="the first registration")
        with described_pod(kubelet) as pod:
            pod.container_config.linux.resources.cpuset_cpus = "0"
            with file.open("w") as writing:
                writing.write(text[:40])
                writing.flush()
                wait_for(lambda: _problem(hooked_relay, file.name), what="half a file to be noticed")
                assert in_force() == ["PostStopPodSandbox"]
                writing.write(text[40:])
            wait_for(lambda: set(in_force()) == set(hooks[:4]), what="the second registration")
            assert not _problem(hooked_relay, file.name)
            pod.run()
            pod.create()
            pod.start()
            assert plugin.points == LIFE[:4]
            resources = pod.info()["runtimeSpec"]["linux"]["resources"]
            assert "cpus" not in resources["cpu"]
            assert resources["cpu"]["shares"] == 512
    finally:
        file.unlink(missing_ok=True)
        hooked_relay.wait_hooks(koordlet=None)


def test_example_plugin(kubelet: CriClient, hooked_relay: Relay, scratch: Path) -> None:
    """It registers itself, has its effect on the pods it is for and on no others, and takes its leave."""
    with example_plugin(hooked_relay, scratch) as example:
        for tier, shares, variable in (("batch", "128", b"batch\n"), ("web", "512", b"none\n")):
            with described_pod(kubelet) as pod:
                pod.sandbox_config.labels["tier"] = tier
                pod.run()
                pod.create()
                pod.start()
                assert pod.cgroup_file("cpu", "cpu.shares").read_text().strip() == shares
                assert pod.exec("sh", "-c", "echo ${TIER:-none}").stdout == variable
                marked = pod.sandbox_status().status.annotations.get("example.com/batch")
                assert marked == ("true" if tier == "batch" else None)
                pod.stop()
        assert "Stopped web/main" in example.log_tail()
        example.stop()
        assert not (hooked_relay.hooks_dir / "batch.json").exists()
        hooked_relay.wait_hooks(batch=None)


def test_killed_plugin_process_comes_back(kubelet: CriClient, hooked_relay: Relay, scratch: Path) -> None:
    """After kill -9 its registration is still there: pods run without it, and with it again once it is back."""
    file = hooked_relay.hooks_dir / "batch.json"
    try:
        with example_plugin(hooked_relay, scratch) as example:
            example.kill()
            assert shares_of_a_batch_pod(kubelet) == 512
        with example_plugin(hooked_relay, scratch):
            assert shares_of_a_batch_pod(kubelet) == 128
    finally:
        file.unlink(missing_ok=True)
        hooked_relay.wait_hooks(batch=None)


@contextmanager
def example_plugin(relay: Relay, scratch: Path) -> Iterator[Child]:
    """The example as a process of its own, in force and connected at the start of the block."""
    hooks = str(relay.hooks_dir)
    argv = [sys.executable, str(EXAMPLE), "--socket", str(scratch / "batch.sock"), "--hooks-dir", hooks]
    with Child(argv, log=scratch / "example.log") as example:
        example.wait_listening(scratch / "batch.sock")
        relay.wait_hooks(batch="connected")
        yield example


def shares_of_a_batch_pod(client: CriClient) -> int:
    """What a container gets in a pod that the example is for."""
    with described_pod(client) as pod:
        pod.sandbox_config.labels["tier"] = "batch"
        pod.run()
        pod.create()
        pod.start()
        return int(pod.cgroup_file("cpu", "cpu.shares").read_text())


def _problem(relay: Relay, file: str) -> bool:
    return any(one["file"] == file and one["in_force"] for one in relay.hooks()["problems"])


def _memory(request: Any) -> Any:
    answer = response_to(request)
    if isinstance(answer, hook.ContainerResourceHookResponse):
        answer.container_resources.memory_limit_in_bytes = 32 * MEBIBYTE
    return answer


def _koordlet(request: Any) -> Any:
    """Everything repeated, and the CPU set left out: how a koordlet takes one away."""
    answer = echo(request)
    if isinstance(answer, hook.ContainerResourceHookResponse):
        answer.container_resources.cpuset_cpus = ""
    return answer
