"""What the admin socket answers about the policy of a relay."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interpose.cli.relay.policy_views import PolicyViews
from interpose.core.policy.decision import Action, Decision, Refusal, RefusalKind
from interpose.core.policy.request import Key
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.net.httpd.routes import ServerRequest, ServerResponse
from interpose.resmgr.admin_view import find_allocations
from interpose.resmgr.counters import RefusedRequest
from interpose.resmgr.state.checkpoint import Checkpoint
from tests.support.policy.node import PolicyNode, running


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """A node with two containers."""
    async with running(("db", 2000, "guaranteed"), ("web", 100, "burstable")) as node:
        yield node


async def ask(node: PolicyNode, folder: Path, path: str, rest: str = "") -> tuple[int, Any]:
    """Status and answer."""
    checkpoint = Checkpoint(str(folder / "state"), now=time.time)

    def cgroups() -> CgroupTree:
        root = str(folder / "sys/fs/cgroup")
        return CgroupTree(KernelFiles(), root, version=detect_version(KernelFiles(), root))

    views = PolicyViews(node.interceptor, checkpoint, cgroups, lambda: ["something is wrong"])
    request = ServerRequest(method="GET", path=path, rest=rest)
    response = await views.routes()["GET", path](request)
    assert isinstance(response, ServerResponse)
    return response.status, json.loads(response.body)


async def explain(node: PolicyNode, folder: Path, ref: str) -> tuple[int, Any]:
    """About one container."""
    return await ask(node, folder, "/v1/policy/containers/*", ref)


def refuse(node: PolicyNode, pod: str, name: str = "app") -> None:
    """A container of this name was refused."""
    request = replace(find_allocations(node.tracker, "db/app")[0].request, key=Key(pod, name), pod=pod)
    refusal = Refusal(kind=RefusalKind.EXHAUSTED, message="full")
    decision = Decision(action=Action.ALLOCATE, key=request.key, refusal=refusal, reason="full")
    node.interceptor.counters.refused.append(RefusedRequest(0.0, request, decision, refusal))


async def test_the_policy_with_its_problems(node: PolicyNode, tmp_path: Path) -> None:
    """And where its state is."""
    status, answer = await ask(node, tmp_path, "/v1/policy")
    assert (status, answer["policy"], answer["problems"]) == (200, "static", ["something is wrong"])
    assert answer["state_file"]["path"] == f"{tmp_path}/state"


async def test_what_it_owns(node: PolicyNode, tmp_path: Path) -> None:
    """For other programs on the node, with the version of the form."""
    own = find_allocations(node.tracker, "db/app")[0]
    assert await ask(node, tmp_path, "/v1/policy/owned") == (
        200,
        {
            "version": 1,
            "policy": "static",
            "owns": ["cpuset_cpus"],
            "containers": {own.id: ["cpu_quota"]},
            "pods": {node.tracker.quota_directory(own.request.key): ["cpu_quota"]},
        },
    )


async def test_the_machine(node: PolicyNode, tmp_path: Path) -> None:
    """As the policy sees it."""
    status, answer = await ask(node, tmp_path, "/v1/topology")
    assert (status, answer["name"]) == (200, "n4c16")


async def test_one_container(node: PolicyNode, tmp_path: Path) -> None:
    """With what its cgroup says, or why that is not known."""
    status, answer = await explain(node, tmp_path, "db/app")
    assert (status, answer["holds"]["exclusive"]) == (200, "2-3")
    assert "error" in answer["cgroup"]


async def test_one_that_was_refused(node: PolicyNode, tmp_path: Path) -> None:
    """As long as there is none of that name."""
    refuse(node, "big")
    refuse(node, "web")
    status, answer = await explain(node, tmp_path, "big/app")
    assert (status, answer["state"], answer["decision"]["refusal"]["message"]) == (200, "refused", "full")
    assert (await explain(node, tmp_path, "web/app"))[1]["state"] == "in step"


async def test_names_of_none_or_several_are_told(node: PolicyNode, tmp_path: Path) -> None:
    """With those that are meant perhaps."""
    status, answer = await explain(node, tmp_path, "nobody")
    assert (status, answer["matches"]) == (404, [])
    assert answer["error"] == "no container or pod under the policy is called 'nobody'"
    status, answer = await explain(node, tmp_path, "app")
    assert (status, len(answer["matches"])) == (404, 2)
    assert answer["error"] == "more than one container is called 'app'"
    refuse(node, "big", "main")
    refuse(node, "huge", "main")
    status, answer = await explain(node, tmp_path, "main")
    assert (status, answer["matches"]) == (404, ["default/big/main (refused)", "default/huge/main (refused)"])


async def test_a_pod_is_answered_with_its_containers(node: PolicyNode, tmp_path: Path) -> None:
    """By its name, with and without the namespace."""
    for ref in ("db", "default/db"):
        status, answer = await explain(node, tmp_path, ref)
        assert (status, answer["pods"], len(answer["containers"])) == (200, ["default/db"], 1)
        assert answer["containers"][0]["container"] == "default/db/app"


async def test_nothing_is_missing_before_the_runtime_was_listed(node: PolicyNode, tmp_path: Path) -> None:
    """That a container is not found then says nothing; one that is known is told."""
    node.tracker.ready.clear()
    status, answer = await explain(node, tmp_path, "nobody")
    assert (status, answer["error"].partition(":")[0]) == (503, "it is not known yet which containers run")
    assert (await explain(node, tmp_path, "db/app"))[0] == 200
