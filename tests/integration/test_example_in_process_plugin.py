"""The example package with an in-process plugin: installed by pip, found by its entry point, asked by a hook call."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.client import HookCallError, HookClient
from interpose.net.grpc.transport import Hub
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.hookserver import HookServer
from tests.support.lab.relay import program
from tests.support.packages import install_example, pretend_package, run_own_tests

BROKEN = "[interpose.hook_plugins]\nbroken = broken_module:Plugin\n"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example and another package whose module cannot be imported."""
    pytest.importorskip("pip", reason="the example is installed by pip")
    folder = tmp_path_factory.mktemp("packages")
    install_example("in-process-plugin", folder)
    (folder / "broken_module.py").write_text("import there_is_no_such_module\n")
    pretend_package(folder, "broken-package", "0.3", BROKEN)
    return folder


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both packages are on the path of whatever is started."""
    monkeypatch.setenv("PYTHONPATH", str(packages))


async def shares_and_score(server: HookServer, said: str) -> tuple[int, int]:
    """What a container gets of a pod with that annotation."""
    client = HookClient(str(server.socket), name="example", hub=Hub())
    request = hook.ContainerResourceHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="pod", namespace="default", uid="u"),
        pod_annotations={"example.com/may-wait": said},
        container_meta=hook.ContainerMetadata(name="main"),
        container_resources=hook.LinuxContainerResources(cpu_shares=1024, oom_score_adj=3),
    )
    try:
        answer = await client.call(HookPoint.PRE_CREATE_CONTAINER, request.SerializeToString(), timeout=30)
    finally:
        await client.close()
    resources = hook.ContainerResourceHookResponse.FromString(answer).container_resources
    return resources.cpu_shares, resources.oom_score_adj


@pytest.mark.usefixtures("installed")
async def test_it_decides_and_a_broken_neighbour_costs_only_itself(
    fake_node: Callable[..., Path], hookserver: Callable[..., HookServer]
) -> None:
    """In the daemon: hook calls, status, readiness and the log."""
    fake_node(pods=1)
    server = hookserver("--external-plugins", "broken,night-shift")
    server.start()
    assert await shares_and_score(server, "true") == (64, 1000)
    assert await shares_and_score(server, "false") == (1024, 3)
    plugins = {one["name"]: one for one in server.status()["plugins"]}
    assert list(plugins) == ["BatchResource", "CPUSetAllocator", "GroupIdentity", "broken", "night-shift"]
    assert plugins["night-shift"] | {"left_out": False} == {
        "name": "night-shift",
        "module": "night_shift",
        "rule": True,
        "problem": "",
        "left_out": False,
    }
    reason = "distribution broken-package 0.3, entry point broken = broken_module:Plugin: ModuleNotFoundError: "
    assert plugins["broken"]["problem"].startswith(reason)
    assert "Plugin cannot be loaded" in server.log.read_text()


@pytest.mark.usefixtures("installed")
async def test_under_fail_no_call_passes_without_it(
    fake_node: Callable[..., Path], hookserver: Callable[..., HookServer]
) -> None:
    """A plugin that must be asked and could not be loaded refuses what it would have been asked about."""
    fake_node(pods=1)
    server = hookserver("--external-plugins", "broken", "--plugin-failure-policy", "Fail")
    server.start()
    with pytest.raises(HookCallError, match=r"FAILED_PRECONDITION.*plugin broken: has no rule: distribution broken"):
        await shares_and_score(server, "false")


@pytest.mark.usefixtures("installed")
def test_what_is_installed_is_listed() -> None:
    """Off until a setting names it; with an exit code that tells of one that is on and broken."""

    def listed(*wanted: str) -> tuple[int, dict[str, tuple[str, str]], str]:
        env = {"INTERPOSE_HOOKSERVER_EXTERNAL_PLUGINS": ",".join(wanted)} if wanted else {}
        command = ["env", *(f"{name}={value}" for name, value in env.items()), str(program()), "hookserver", "plugins"]
        done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
        rows = json.loads(done.stdout)
        assert not done.stderr
        text = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
        return done.returncode, {one["name"]: (one["state"], one["package"]) for one in rows}, text.stderr

    code, rows, errors = listed()
    assert (code, rows["night-shift"], rows["broken"]) == (0, ("off", "night-shift 1.0"), ("off", "broken-package 0.3"))
    assert rows["OOMScoreAdj"] == ("off", "interpose")
    assert errors.startswith("error: plugin broken: distribution broken-package 0.3, entry point broken = ")
    code, rows, _ = listed("night-shift")
    assert (code, rows["night-shift"][0], rows["broken"][0]) == (0, "on", "off")
    assert listed("night-shift", "broken")[0] == 1


@pytest.mark.usefixtures("installed")
def test_its_own_tests_pass() -> None:
    """They show how a plugin is tested without a node."""
    run_own_tests("in-process-plugin")
