"""The demo's interceptors change what they say, and the words for it are right."""

from interpose.api import cri_pb2 as cri
from interpose.relay.interceptor import Body, Call, Direction, Reply
from interpose.relay.messages import CriParser
from interpose.relay.methods import METHODS
from interpose.testing.demoparts import Change, Hook, Policy, Recorder, Seen, changes
from interpose.testing.pods import container_config, create_request, pod_config, run_request

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


async def test_hook_lowers_shares_of_batch_pods_only() -> None:
    """The label of the pod decides; the zone is told to everyone."""
    shares = []
    for tier in ("standard", "batch"):
        call = create_call(tier)
        await Hook().intercept(call, proceed)
        shares.append(call.request.config.linux.resources.cpu_shares)
        assert [env.value for env in call.request.config.envs if env.key == "NODE_ZONE"] == [b"rack-7"]

    assert shares == [102, 2]


async def test_hook_marks_pods() -> None:
    """A new pod carries the annotation."""
    method = METHODS["RunPodSandbox"]
    body = Body(run_request(pod_config("web")).SerializeToString(), CriParser(method.request))
    call = Call(method=method, path=method.paths[0].encode(), body=body)

    await Hook().intercept(call, proceed)

    assert call.request.config.annotations["demo.interpose/seen"] == "yes"


def test_changes_are_shown_field_by_field() -> None:
    """Added, changed and removed values are named by path; lists of pairs by key."""
    before = cri.CreateContainerRequest(
        config=cri.ContainerConfig(
            envs=[cri.KeyValue(key="A", value=b"1")],
            args=["x"],
            mounts=[cri.Mount(host_path="/a")],
            annotations={"gone": "yes"},
        )
    )
    after = cri.CreateContainerRequest(
        config=cri.ContainerConfig(
            envs=[cri.KeyValue(key="A", value=b"2")],
            args=["x", "y"],
            mounts=[cri.Mount(host_path="/b")],
        )
    )
    messages = {Direction.REQUEST: before.SerializeToString(), Direction.FORWARDED: after.SerializeToString()}

    assert sorted(changes(Seen(CREATE, 0.0, messages=messages)), key=lambda change: change.path) == [
        Change("config.annotations[gone]", "yes", None),
        Change("config.args[1]", None, "y"),
        Change("config.envs[A]", "1", "2"),
        Change("config.mounts[0].host_path", "/a", "/b"),
    ]


def test_an_untouched_call_has_no_changes() -> None:
    """Without a forwarded message of its own, the request went on as it came."""
    assert changes(Seen(CREATE, 0.0, messages={Direction.REQUEST: b""})) == []


def test_recorder_keeps_messages_and_times() -> None:
    """A call has its messages by direction, its code and how long it took."""
    ticks = iter([1.0, 1.5])
    tap = Recorder(lambda: next(ticks))

    tap.on_message(7, CREATE, "client", Direction.REQUEST, b"q")
    tap.calls[7].messages[Direction.REPLY] = b"r"
    tap.on_end(7, CREATE, 0)

    seen = tap.calls[7]
    assert (seen.ended - seen.began, seen.code) == (0.5, 0)
    assert seen.messages == {Direction.REQUEST: b"q", Direction.REPLY: b"r"}
