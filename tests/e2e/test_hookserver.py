"""The real hook server behind the real relay, with a real containerd on cgroup v1: proxy mode.

Pods are made as a kubelet and Koordinator make them; what counts is what the kernel says.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.support.lab.hookserver import HookServer, node_state
from tests.support.lab.pods import MEBIBYTE
from tests.support.lab.qos_pods import BE, BE_ASKED, LS, LS_ASKED, RATIO, SCALED, Kubepods, QosPod, be_pod, ls_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.cri import CriClient
    from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e

LIMITED_TOGETHER = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}


@contextmanager
def served(scratch: Path, relay: Relay, kubepods: Kubepods, *options: str) -> Iterator[HookServer]:
    """A hook server that the relay asks."""
    options = ("--cpu-normalization", *options)
    server = HookServer(scratch, relay.socket, kubepods=kubepods.name, registrations=relay.hooks_dir, options=options)
    server.tell(node_state(ratio=RATIO))
    try:
        with server:
            relay.wait_hooks(qos="connected")
            yield server
    finally:
        relay.wait_hooks(qos=None)


# -- creating


@pytest.mark.parametrize(
    ("mode", "made"),
    [("proxy", True), ("proxy", False), ("both", True)],
    ids=["cgroup made before", "cgroup made by the runtime", "both modes"],
)
def test_values_are_there_for_the_first_process(
    scratch: Path,
    hooked_relay: Relay,
    kubelet: CriClient,
    runtime: CriClient,
    kubepods: Kubepods,
    mode: str,
    made: bool,
) -> None:
    """The first process of each container finds them in its own cgroup; the pod's cgroup has those of the pod."""
    with (
        served(scratch, hooked_relay, kubepods, "--mode", mode),
        be_pod(kubelet, kubepods, made=made) as batch,
        ls_pod(kubelet, kubepods, made=made) as web,
    ):
        everything = web.pod_has("cpuset.cpus")
        assert batch.noted()[:4] == [*BE, everything]
        assert web.noted()[:4] == [*LS, everything]
        assert (batch.values, web.values) == (BE, LS)
        assert batch.pod_values == BE
        if made:
            assert web.pod_values == LS_ASKED
        # Nobody writes behind the runtime's back: it knows what it runs.
        batch.client = web.client = runtime
        cpu = batch.info()["runtimeSpec"]["linux"]["resources"]["cpu"]
        assert (cpu["shares"], cpu["quota"]) == BE[:2]
        assert web.info()["runtimeSpec"]["linux"]["resources"]["cpu"]["quota"] == SCALED
        # And the kubelet sees what it asked for.
        web.client = batch.client = kubelet
        seen = web.status().resources.linux
        assert (seen.cpu_quota, seen.cpu_shares) == (100_000, 512)
        assert batch.status().resources.linux.cpu_shares == 2


def test_oom_score_of_the_annotation_is_in_the_create_request(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, kubepods: Kubepods
) -> None:
    """The one of the container beats the one of the pod. Only raised here: to lower it takes a capability."""
    for_all = {"koordinator.sh/oom-score-adj": "950"}
    for_one = {**for_all, "koordinator.sh/oom-score-adj-spec": '{"main": 970}'}
    with (
        served(scratch, hooked_relay, kubepods, "--mode", "proxy", "--oom-score"),
        ls_pod(kubelet, kubepods, "all", annotations=for_all) as common,
        ls_pod(kubelet, kubepods, "one", annotations=for_one) as own,
        ls_pod(kubelet, kubepods, "none") as asked,
    ):
        assert [pod.noted()[-1] for pod in (common, own, asked)] == [950, 970, 900]


def test_a_plugin_of_an_installed_package(
    scratch: Path,
    hooked_relay: Relay,
    kubelet: CriClient,
    kubepods: Kubepods,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The example of the documentation, in the same place as our own plugins: its score is there at the start."""
    source = Path(__file__).parents[2] / "examples/in-process-plugin/src"
    info = scratch / "packages/night_shift-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: night-shift\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[interpose.hook_plugins]\nnight-shift = night_shift:NightShift\n")
    monkeypatch.setenv("PYTHONPATH", f"{info.parent}:{source}")
    wait = {"example.com/may-wait": "true"}
    with (
        served(scratch, hooked_relay, kubepods, "--mode", "both", "--external-plugins", "night-shift"),
        ls_pod(kubelet, kubepods, "waits", annotations=wait) as waits,
        ls_pod(kubelet, kubepods, "other") as other,
    ):
        assert (waits.noted()[-1], waits.cpu[0]) == (1000, 64)
        assert (other.noted()[-1], other.cpu[0]) == (900, LS_ASKED[0])


# -- updating


def test_updates_start_from_what_was_asked_for(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, runtime: CriClient, kubepods: Kubepods
) -> None:
    """However often a kubelet updates shares, the quota is not scaled again; a new quota is scaled once."""
    with (
        served(scratch, hooked_relay, kubepods, "--mode", "proxy"),
        ls_pod(kubelet, kubepods) as web,
        be_pod(kubelet, kubepods) as batch,
    ):
        for shares in (2048, 700, 900):
            web.update(cpu_shares=shares)
            assert web.cpu == (shares, SCALED)
            batch.update(cpu_shares=2)
            assert batch.values == BE
        web.update(cpu_quota=60_000, cpu_period=100_000)
        assert web.cpu == (900, 50_000)
        web.update(cpu_shares=901)
        assert web.cpu == (901, 50_000)
        seen = web.status().resources.linux
        assert (seen.cpu_quota, seen.cpu_shares) == (60_000, 901)
        web.client = runtime
        assert web.status().resources.linux.cpu_quota == 50_000


# -- rules that change


def test_running_pods_follow_the_document(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, kubepods: Kubepods
) -> None:
    """Another ratio, then limits for all best-effort pods together, then nothing of it: quotas as asked for."""
    with (
        served(scratch, hooked_relay, kubepods, "--mode", "proxy") as server,
        ls_pod(kubelet, kubepods) as web,
        be_pod(kubelet, kubepods) as batch,
    ):

        def quotas(*expected: int) -> bool:
            return (web.cpu[1], batch.cpu[1], batch.pod_has("cpu.cfs_quota_us")) == expected

        assert quotas(SCALED, SCALED, SCALED)
        server.tell(node_state(ratio=1.5))
        server.soon("another ratio", lambda: quotas(66_667, 66_667, 66_667))
        server.tell(node_state(LIMITED_TOGETHER, ratio=1.5))
        server.soon("cfsQuota on", lambda: quotas(66_667, -1, -1))
        server.tell(node_state(LIMITED_TOGETHER, ratio=1.1))
        server.soon("another ratio", lambda: quotas(90_910, -1, -1))
        server.tell(node_state())
        server.soon("all off", lambda: quotas(100_000, 100_000, 100_000))
        assert (web.values, batch.values) == (LS_ASKED, (512, 100_000, 64 * MEBIBYTE))
        assert web.status().resources.linux.cpu_quota == 100_000


@pytest.mark.parametrize("how", ["switched off", "--restore"])
def test_everything_goes_back_to_what_it_was(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, kubepods: Kubepods, how: str
) -> None:
    """Pods and containers have what a kubelet gave them, and nothing is left in the journal."""
    with (
        served(scratch, hooked_relay, kubepods, "--mode", "proxy") as server,
        ls_pod(kubelet, kubepods) as web,
        be_pod(kubelet, kubepods) as batch,
    ):
        assert (web.values, batch.values, batch.pod_values) == (LS, BE, BE)
        server.stop()
        if how == "--restore":
            done = server.single("--restore")
            assert (done.returncode, done.stderr) == (0, "")
            assert_original(web, batch)
        server.start("--no-cpu-normalization", "--no-batch-resource", "--no-cpuset")
        assert_original(web, batch)
        assert server.status()["journal_entries"] == 0


def assert_original(web: QosPod, batch: QosPod) -> None:
    """What a kubelet asked for, and what it wrote to the cgroups of pods."""
    assert (web.values, web.pod_values) == (LS_ASKED,) * 2
    assert (batch.values, batch.pod_values) == (BE_ASKED,) * 2


@pytest.mark.parametrize(("batch_resource", "shares"), [(False, 2), (True, 512)], ids=["alone", "with batch resources"])
def test_idle_stands_in_for_group_identity(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, kubepods: Kubepods, batch_resource: bool, shares: int
) -> None:
    """Directories of BE pods only. Containers can still be updated, and shares are back when it ends."""
    on = {"resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True}}, "lsClass": {"cpuQOS": {"enable": True}}}}
    switch = "--batch-resource" if batch_resource else "--no-batch-resource"
    options = ("--mode", "both", "--group-identity-fallback", "idle", switch)
    with (
        served(scratch, hooked_relay, kubepods, *options) as server,
        ls_pod(kubelet, kubepods) as web,
        be_pod(kubelet, kubepods, "before") as before,
    ):
        assert before.pod_has("cpu.idle") == 0
        server.tell(node_state(on))
        server.soon("idle", lambda: before.pod_has("cpu.idle") == 1)
        with be_pod(kubelet, kubepods, "after") as after:
            for pod in (before, after):
                assert (pod.pod_has("cpu.idle"), pod.has("cpu.idle")) == (1, 0)
                pod.update(cpu_shares=77)
                assert pod.has("cpu.shares") == (shares if batch_resource else 77)
            assert (web.pod_has("cpu.idle"), web.has("cpu.idle"), web.pod_has("cpu.shares")) == (0, 0, 512)
            for directory in ("", "/besteffort", "/burstable"):
                assert kubepods.file(kubepods.name + directory, "cpu.idle").read_text() == "0\n"
            server.tell(node_state())
            for pod in (before, after):
                server.soon("not idle", lambda pod=pod: pod.pod_has("cpu.idle") == 0)  # type: ignore[misc]
                server.soon("shares", lambda pod=pod: pod.pod_has("cpu.shares") == shares)  # type: ignore[misc]


# -- registration and single rounds


def test_nothing_passes_it_under_fail(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, kubepods: Kubepods
) -> None:
    """Killed or stopped it is still in force, until somebody deregisters it; started again it serves."""
    with served(scratch, hooked_relay, kubepods, "--mode", "proxy", "--failure-policy", "Fail") as server:
        server.kill()
        refused(kubelet, kubepods)
        server.start()
        hooked_relay.wait_hooks(qos="connected")
        with be_pod(kubelet, kubepods) as batch:
            assert batch.noted()[:3] == [*BE]
            server.stop()
            assert server.registration.exists()
            refused(kubelet, kubepods)
            done = server.single("--deregister")
            assert done.returncode == 0
            assert not server.registration.exists()
            hooked_relay.wait_hooks(qos=None)
            with be_pod(kubelet, kubepods, "unhooked") as unhooked:
                assert unhooked.cpu == (2, -1)


def refused(kubelet: CriClient, kubepods: Kubepods) -> None:
    """No pod can be made, and the kubelet reads who is missing."""
    pod = be_pod(kubelet, kubepods, "refused")
    try:
        with pytest.raises(grpc.RpcError) as error:
            pod.run()
        assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "hook server qos (failure policy Fail) at PreRunPodSandbox" in (error.value.details() or "")
    finally:
        pod.remove()


def test_pods_start_without_it_under_ignore(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, kubepods: Kubepods
) -> None:
    """Killed, pods get what they asked for, and are put right when it is back. Stopped, it is not registered."""
    with served(scratch, hooked_relay, kubepods, "--mode", "proxy") as server:
        server.kill()
        with be_pod(kubelet, kubepods) as batch:
            assert (batch.values, batch.pod_values) == (BE_ASKED,) * 2
            server.start()
            server.soon("pods made meanwhile", lambda: batch.values == BE and batch.pod_values == BE)
            server.stop()
            assert not server.registration.exists()
            assert batch.values == BE


def test_a_dry_run_beside_the_daemon_changes_nothing(
    scratch: Path, hooked_relay: Relay, kubelet: CriClient, kubepods: Kubepods
) -> None:
    """It tells what there is, what there shall be and why; a round that acts is the daemon's alone."""
    with (
        served(scratch, hooked_relay, kubepods, "--mode", "proxy") as server,
        be_pod(kubelet, kubepods) as batch,
        ls_pod(kubelet, kubepods) as web,
    ):
        batch.write("cpu.shares", 99)
        web.write("cpu.cfs_quota_us", 70_000)
        state = {file: file.read_bytes() for file in server.state.iterdir()}
        told = server.single("--once", "--dry-run")
        assert (told.returncode, told.stderr) == (0, "")
        assert re.search(r"cpu\.shares +99 +512 +set\s+BatchResource: CPU request 500m in", told.stdout)
        assert re.search(r"cpu\.cfs_quota_us +70000 +83334 +set\s+CPUNormalization: 100000 on CPUs", told.stdout)
        items = json.loads(server.single("--once", "--dry-run", "--output", "json").stdout)
        changes = [
            (one["name"], one["parameter"], one["now"], one["wanted"]) for one in items if one.get("action") == "set"
        ]
        assert changes == [
            ("lab/batch/main", "cpu.shares", 99, 512),
            ("lab/web/main", "cpu.cfs_quota_us", 70_000, SCALED),
        ]
        busy = server.single("--once")
        assert busy.returncode == 1
        assert "in use by another process" in busy.stderr
        assert (batch.cpu, web.cpu) == ((99, SCALED), (512, 70_000))
        assert {file: file.read_bytes() for file in server.state.iterdir()} == state
