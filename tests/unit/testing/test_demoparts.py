"""The demo's parts change what they say, and the words for it are right."""

from interpose.api import cri_pb2 as cri
from interpose.api import hook_pb2 as hook
from interpose.hookapi.hookpoint import HookPoint
from interpose.relay.interceptor import Body, Call, Direction, Reply
from interpose.relay.messages import CriParser
from interpose.relay.methods import METHODS
from interpose.testing.demoparts import (
    Change,
    Passed,
    Policy,
    Recorder,
    Seen,
    Witness,
    changes,
    changes_by_stage,
    hook_server,
)
from interpose.testing.pods import container_config, create_request, pod_config

CREATE = METHODS["CreateContainer"]


def create_call(tier: str) -> Call:
    """CreateContainer for a pod of this tier."""
    pod = pod_config("web", labels={"tier": tier})
    message = create_request("sandbox", pod, container_config(pod)).SerializeToString()
    return Call(method=CREATE, path=CREATE.paths[0].encode(), body=Body(message, CriParser(CREATE.request)))


async def proceed() -> Reply:
    """The runtime agrees."""
    return Reply(code=0)


async def test_policy_chooses_cpus_by_tier() -> None:
    """Critical pods get CPUs of their own, others share."""
    cpus = []
    for tier in ("critical", "standard", "batch"):
        call = create_call(tier)
        await Policy().intercept(call, proceed)
        cpus.append(call.request.config.linux.resources.cpuset_cpus)

    assert cpus == ["2-3", "0-1", "0-1"]


def test_hook_server_lowers_shares_of_batch_pods_only() -> None:
    """The label of the pod decides; the zone is told to everyone, and nothing else is named."""
    answer = hook_server().answers[HookPoint.PRE_CREATE_CONTAINER]
    assert callable(answer)
    zone = hook.ContainerResourceHookResponse(container_envs={"NODE_ZONE": "rack-7"})
    idle = hook.ContainerResourceHookResponse(
        container_envs={"NODE_ZONE": "rack-7"}, container_resources=hook.LinuxContainerResources(cpu_shares=2)
    )

    assert answer(hook.ContainerResourceHookRequest(pod_labels={"tier": "standard"})) == zone
    assert answer(hook.ContainerResourceHookRequest(pod_labels={"tier": "batch"})) == idle


async def test_witness_notes_what_passes_and_changes_nothing() -> None:
    """The request as it is at its place, and the reply; a failed call has none."""
    witness, call = Witness(), create_call("batch")
    before = call.body.data()

    async def answered() -> Reply:
        return Reply(code=0, body=Body(b"", CriParser(CREATE.response)))

    await witness.intercept(call, answered)
    await witness.intercept(call, proceed)

    assert witness.notes == [Passed(before, b""), Passed(before, b"")]
    assert call.body.data() == before


def test_changes_are_shown_field_by_field() -> None:
    """Added, changed and removed values are named by path; lists of pairs by key."""
    before = cri.ContainerConfig(
        envs=[cri.KeyValue(key="A", value=b"1")],
        args=["x"],
        mounts=[cri.Mount(host_path="/a")],
        annotations={"gone": "yes"},
    )
    after = cri.ContainerConfig(
        envs=[cri.KeyValue(key="A", value=b"2")],
        args=["x", "y"],
        mounts=[cri.Mount(host_path="/b")],
    )

    found = changes("me", cri.ContainerConfig, before.SerializeToString(), after.SerializeToString())

    assert sorted(found, key=lambda change: change.path) == [
        Change("me", "annotations[gone]", "yes", None),
        Change("me", "args[1]", None, "y"),
        Change("me", "envs[A]", "1", "2"),
        Change("me", "mounts[0].host_path", "/a", "/b"),
    ]


def test_changes_belong_to_who_made_them() -> None:
    """Each stage is compared with the one before it."""

    def request(**labels: str) -> bytes:
        return cri.CreateContainerRequest(config=cri.ContainerConfig(labels=labels)).SerializeToString()

    seen = Seen(CREATE, 0.0, messages={Direction.REQUEST: request()})
    stages = [("first", request(a="1")), ("idle", request(a="1")), ("last", request(a="2"))]

    assert changes_by_stage(seen, stages) == [
        Change("first", "config.labels[a]", None, "1"),
        Change("last", "config.labels[a]", "1", "2"),
    ]


def test_an_untouched_call_was_forwarded_as_it_came() -> None:
    """Without a forwarded message of its own, the request is what the runtime got."""
    assert Seen(CREATE, 0.0, messages={Direction.REQUEST: b"q"}).forwarded == b"q"
    assert Seen(CREATE, 0.0, messages={Direction.REQUEST: b"q", Direction.FORWARDED: b"f"}).forwarded == b"f"


def test_recorder_keeps_messages_and_times() -> None:
    """A call has its messages by direction, its origin, its code and how long it took."""
    ticks = iter([1.0, 1.5])
    tap = Recorder(lambda: next(ticks))

    tap.on_message(7, CREATE, "store", Direction.REQUEST, b"q")
    tap.on_message(7, CREATE, "store", Direction.REPLY, b"r")
    tap.on_end(7, CREATE, 0)

    seen = tap.calls[7]
    assert (seen.ended - seen.began, seen.code, seen.origin) == (0.5, 0, "store")
    assert seen.messages == {Direction.REQUEST: b"q", Direction.REPLY: b"r"}
