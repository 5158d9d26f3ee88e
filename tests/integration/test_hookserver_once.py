"""`interpose hookserver` for a moment: --once, --dry-run, --restore, --deregister; what they tell, and exit codes."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.qospods import be_pod
from interpose.testing.serve import serve_runtime
from tests.support.hooks.node import node_document, write_cpus
from tests.support.lab.hookserver import HookServer

FakeNodeStart = Callable[..., Path]
Make = Callable[..., HookServer]
FAILED, USAGE, CONFIG = 1, 2, 78
SUMMARY = "values as wanted"


def content(root: Path) -> dict[str, str]:
    """Every file below a directory."""
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def values(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What JSON tells of values."""
    return [one for one in json.loads(done.stdout) if one["kind"] == "value"]


def problems(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is told on stderr besides the log."""
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


@pytest.fixture
def server(fake_node: FakeNodeStart, hookserver: Make) -> HookServer:
    """For a node with an LSR, a BE and an LS pod."""
    fake_node(pods=3)
    made = hookserver()
    made.tell(node_document())
    return made


# -- one round


def test_dry_run_changes_nothing(
    server: HookServer, memory: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells for each value what is there, what shall be and why. Not even a journal is made."""
    monkeypatch.setenv("COLUMNS", "120")
    before = content(memory / "cgroup")
    done = server.single("--once", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["WHAT", "NOW", "WANTED", "ACTION", "WHY"]
    assert any(line.split()[:4] == ["cpu.cfs_quota_us", "unlimited", "50100", "set"] for line in lines)
    assert lines[-1] == f"3 {SUMMARY}, 12 to change, 0 to restore, 0 unsupported"
    assert "\x1b" not in done.stdout
    assert content(memory / "cgroup") == before
    assert not (scratch / "state").exists()


def test_once_puts_values_in_place(server: HookServer, memory: Path) -> None:
    """And the next time there is nothing to do."""
    first = server.single("--once", "--output", "json")
    assert (first.returncode, first.stderr) == (0, "")
    assert {one["action"] for one in values(first)} == {"set", "keep"}
    (quota,) = [
        one for one in values(first) if one["name"] == "batch/load-0001/main" and one["parameter"] == "cpu.cfs_quota_us"
    ]
    assert (quota["level"], quota["now"], quota["wanted"], quota["qos"]) == ("container", "unlimited", 50_100, "BE")
    assert (quota["plugin"], EXTENDED_RESOURCES in quota["why"]) == ("BatchResource", True)
    assert (memory / "cgroup/cpu,cpuacct" / quota["directory"] / "cpu.cfs_quota_us").read_text() == "50100"
    after = content(memory / "cgroup")
    second = server.single("--once", "--output", "json")
    assert {one["action"] for one in values(second)} == {"keep"}
    assert content(memory / "cgroup") == after


def test_restore_puts_everything_back(server: HookServer, memory: Path) -> None:
    """A dry run tells it first and changes nothing."""
    before = {path: text.strip() for path, text in content(memory / "cgroup").items()}
    server.single("--once")
    changed = content(memory / "cgroup")
    told = server.single("--restore", "--dry-run")
    assert told.stdout.splitlines()[-1] == f"0 {SUMMARY}, 0 to change, 12 to restore, 0 unsupported"
    assert content(memory / "cgroup") == changed
    done = server.single("--restore", "--output", "json")
    assert (done.returncode, {one["action"] for one in values(done)}) == (0, {"restore"})
    after = {path: text.strip() for path, text in content(memory / "cgroup").items()}
    # Written, no limit is -1; read from a kernel it is a very large number. Plain files have what was written.
    unlimited = {path for path, text in after.items() if path.endswith("memory.limit_in_bytes") and text == "-1"}
    assert {path: text for path, text in after.items() if path not in unlimited} == {
        path: text for path, text in before.items() if path not in unlimited
    }
    assert {before[path] for path in unlimited} == {str((1 << 63) - 4096)}
    assert "Nothing to show" in server.single("--restore").stdout


def test_summary_tells_what_was_done(server: HookServer) -> None:
    """And not what would be."""
    told = server.single("--once").stdout.splitlines()[-1]
    assert told == f"3 {SUMMARY}, 12 changed, 0 restored, 0 unsupported"
    told = server.single("--restore").stdout.splitlines()[-1]
    assert told == f"0 {SUMMARY}, 0 changed, 12 restored, 0 unsupported"


@pytest.mark.parametrize("document", ["{", None])
def test_restore_needs_no_policy(server: HookServer, document: str | None) -> None:
    """One that is broken or gone is no obstacle, and no problem; a kubelet is not asked either."""
    server.single("--once")
    if document is None:
        server.nodeslo.unlink()
    else:
        server.nodeslo.write_text(document)
    done = server.single("--restore", "--kubelet-url", "http://127.0.0.1:1/pods", "--output", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["action"] for one in values(done)] == ["restore"] * 12


def test_plugins_can_be_left_out(server: HookServer) -> None:
    """A plugin that is switched off wants nothing, and what it wanted is restored."""
    server.single("--once")
    done = server.single("--once", "--no-batch-resource", "--output", "json")
    restored = {one["plugin"] for one in values(done) if one["action"] == "restore"}
    assert (done.returncode, restored) == (0, {"BatchResource"})


async def test_pod_whose_annotation_makes_no_sense(scratch: Path, memory: Path, hookserver: Make) -> None:
    """It is told with pod, annotation and value; the others get theirs."""
    write_cpus(memory / "sys", ["0-7"])
    node = FakeNode(PlainCgroups(memory / "cgroup", 2))
    be_pod(node, "fine")
    be_pod(node, "broken", annotations={EXTENDED_RESOURCES: '{"containers": {"main": {"limits": {"x": "much"}}}}'})
    async with serve_runtime(scratch / "runtime.sock", node.runtime):
        server = hookserver()
        done = await asyncio.to_thread(server.single, "--once", "--output", "json")
        assert done.returncode == FAILED
        failures = [one for one in json.loads(done.stdout) if one["kind"] == "failure"]
        assert {one["plugin"] for one in failures} == {"BatchResource"}
        assert all("default/broken" in str(one) and "much" in str(one) for one in failures)
        assert {one["name"] for one in values(done) if one["action"] == "set"} == {"default/fine", "default/fine/main"}
        text = await asyncio.to_thread(server.single, "--once")
        assert "default/broken" in text.stdout
        assert "much" in text.stdout


# -- what can be wrong


def test_without_the_runtime(server: HookServer, scratch: Path) -> None:
    """Exit code 1, and the socket is named."""
    done = server.single("--once", "--runtime-endpoint", str(scratch / "nobody.sock"))
    assert done.returncode == FAILED
    assert problems(done) == [f"error: runtime {scratch}/nobody.sock: No such file or directory"]


def test_nodeslo_that_cannot_be_used(server: HookServer) -> None:
    """It is named with key and value, exit code 1; what does not depend on it is done all the same."""
    broken = node_document()
    broken["nodeSLO"]["spec"]["resourceUsedThresholdWithBE"]["enable"] = "maybe"
    server.tell(broken)
    done = server.single("--once", "--output", "json")
    assert done.returncode == FAILED
    (problem,) = problems(done)
    assert f"{server.nodeslo}" in problem
    assert "resourceUsedThresholdWithBE.enable" in problem
    assert "'maybe'" in problem
    assert {"BatchResource", "CPUSetAllocator"} == {one["plugin"] for one in values(done)}


def test_nodeslo_that_is_missing(server: HookServer) -> None:
    """It is named."""
    server.nodeslo.unlink()
    done = server.single("--once")
    assert done.returncode == FAILED
    assert str(server.nodeslo) in problems(done)[0]


def test_rule_that_cannot_be_made(server: HookServer) -> None:
    """It is told with its plugin, exit code 1."""
    document = node_document()
    document["node"]["annotations"] = {"node.koordinator.sh/cpu-normalization-ratio": "fast"}
    server.tell(document)
    done = server.single("--once", "--dry-run", "--cpu-normalization", "--output", "json")
    assert done.returncode == FAILED
    failed = {one["plugin"]: one["error"] for one in json.loads(done.stdout) if one["kind"] == "problem"}
    assert "CPUNormalization" in failed
    assert "fast" in failed["CPUNormalization"]


async def test_problems_cannot_move_the_cursor(scratch: Path, memory: Path, hookserver: Make) -> None:
    """Whoever wrote what is in them: here the name of a pod."""
    write_cpus(memory / "sys", ["0-7"])
    node = FakeNode(PlainCgroups(memory / "cgroup", 2))
    be_pod(node, "evil\x1b[2J")
    for path in (memory / "cgroup").glob("**/*pod*/cpu.max"):
        path.rename(memory / "elsewhere")
        path.symlink_to(memory / "elsewhere")
    async with serve_runtime(scratch / "runtime.sock", node.runtime):
        done = await asyncio.to_thread(hookserver().single, "--once", "--log-level", "error")
    assert (done.returncode, done.stderr.count("\x1b"), done.stdout.count("\x1b")) == (FAILED, 0, 0)
    assert "error: default/evil?[2J: cpu.cfs_quota_us: Too many levels of symbolic links (ELOOP)" in problems(done)


def test_roots_that_are_links(server: HookServer, scratch: Path) -> None:
    """Values are written all the same: only below them no link is followed."""
    argv, links = server.argv(), list[str]()
    for flag in ("--cgroup-root", "--proc-root", "--sys-root"):
        link = scratch / flag.strip("-")
        link.symlink_to(argv[argv.index(flag) + 1])
        links += [flag, str(link)]
    done = server.single("--once", *links)
    assert (done.returncode, problems(done)) == (0, [])


def test_value_that_cannot_be_written(server: HookServer, memory: Path) -> None:
    """A value that cannot be written: told with target and reason, exit code 1, the others are done."""
    quota = next((memory / "cgroup/cpu,cpuacct/kubepods/besteffort").glob("pod*/cpu.cfs_quota_us"))
    (memory / "elsewhere").write_text(quota.read_text())
    quota.unlink()
    quota.symlink_to(memory / "elsewhere")
    done = server.single("--once")
    assert done.returncode == FAILED
    assert problems(done) == ["error: batch/load-0001: cpu.cfs_quota_us: Too many levels of symbolic links (ELOOP)"]
    assert (memory / "elsewhere").read_text() == "-1\n"
    assert done.stdout.splitlines()[-1] == f"3 {SUMMARY}, 11 changed, 0 restored, 0 unsupported, 1 not done"
    shares = next((memory / "cgroup/cpu,cpuacct/kubepods/besteffort").glob("pod*/cpu.shares"))
    assert shares.read_text() == "513"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mode", "sometimes"], "flag --mode: 'sometimes' is not one of proxy, standalone, both"),
        (["--priority", "first"], "flag --priority: 'first' is not a whole number"),
        (["--reconcile-interval", "0"], "flag --reconcile-interval: "),
        (["--group-identity-fallback", "luck"], "flag --group-identity-fallback: 'luck' is not one of"),
        (["--cgroup-root", "/nowhere"], "cgroup root /nowhere: holds neither cgroup v2"),
        (["--config", "/nowhere/settings.yaml"], "/nowhere/settings.yaml"),
    ],
)
def test_settings_that_cannot_be_used(hookserver: Make, options: list[str], said: str) -> None:
    """Exit code 78; the flag, its value and what would do are named."""
    done = hookserver().single("--once", *options)
    assert (done.returncode, done.stdout) == (CONFIG, "")
    (problem,) = problems(done)
    assert said in problem


def test_all_problems_of_a_settings_file_at_once(hookserver: Make, scratch: Path) -> None:
    """Each with its key."""
    path = scratch / "settings.yaml"
    path.write_text("mode: sometimes\nplugins:\n  cpuset: maybe\nsurprise: 1\n")
    path.chmod(0o644)
    done = hookserver().single("--once", "--config", str(path))
    assert done.returncode == CONFIG
    told = "\n".join(problems(done))
    assert all(word in told for word in ("mode", "plugins.cpuset", "surprise", str(path)))


def test_dry_run_alone_is_wrong_usage(hookserver: Make) -> None:
    """There is nothing it could be a rehearsal of."""
    done = hookserver().single("--dry-run")
    assert done.returncode == USAGE
    assert "--dry-run goes with --once or --restore" in done.stderr


def test_wrong_output_is_wrong_usage(hookserver: Make) -> None:
    """The forms are named."""
    done = hookserver().single("--once", "--output", "xml")
    assert done.returncode == USAGE
    assert "'text', 'json'" in done.stderr


def test_state_directory_that_is_a_file(server: HookServer, scratch: Path) -> None:
    """Nothing is changed without a journal: 78, and the file is named."""
    (scratch / "state").write_text("")
    done = server.single("--once")
    assert done.returncode == CONFIG
    assert str(scratch / "state") in problems(done)[0]


def test_beside_a_hook_server_that_runs(server: HookServer) -> None:
    """A dry run can always be had; what acts is refused, since two would not know of each other."""
    server.start()
    told = server.single("--once", "--dry-run", "--output", "json")
    assert (told.returncode, {one["action"] for one in values(told)}) == (0, {"keep"})
    for option in ("--once", "--restore"):
        done = server.single(option)
        assert done.returncode == FAILED
        assert "is in use by another process" in problems(done)[0]
    assert server.child.running


# -- the rest


def test_print_config(hookserver: Make) -> None:
    """Every setting with its value and where it comes from; nothing else happens."""
    done = hookserver().single("--print-config", "--priority", "7")
    assert done.returncode == 0
    (line,) = [line for line in done.stdout.splitlines() if "registration.priority" in line]
    assert "7" in line
    assert "--priority" in line


def test_deregister(server: HookServer) -> None:
    """The file goes, whatever its policy says; that there is none is fine."""
    server.start("--failure-policy", "Fail")
    server.stop()
    assert server.registration.exists()
    assert server.single("--deregister").returncode == 0
    assert not server.registration.exists()
    assert server.single("--deregister").returncode == 0


def test_deregister_beside_a_hook_server_that_runs(server: HookServer) -> None:
    """It would write the file again, so nothing is removed: exit code 1, and the socket is named."""
    server.start()
    done = server.single("--deregister")
    assert done.returncode == FAILED
    (problem,) = problems(done)
    assert f"{server.socket}" in problem
    assert "would register again" in problem
    assert server.registration.exists()


def test_hook_server_without_plugins_is_not_registered(server: HookServer) -> None:
    """It runs, says so once, and what was registered before is gone."""
    server.start("--failure-policy", "Fail")
    server.stop()
    assert server.registration.exists()
    server.start("--no-batch-resource", "--no-group-identity", "--no-cpuset")
    assert not server.registration.exists()
    assert server.status()["registration"]["problem"] == ""
    assert server.log.read_text().count("not registering") == 1


def test_settings_from_the_environment(server: HookServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count where no flag is."""
    monkeypatch.setitem(os.environ, "INTERPOSE_HOOKSERVER_CPUSET", "false")
    done = server.single("--once", "--dry-run", "--output", "json")
    assert {one["plugin"] for one in values(done)} == {"BatchResource"}
