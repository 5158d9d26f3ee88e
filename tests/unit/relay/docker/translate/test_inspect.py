"""dockerd's answers as CRI's, and as the records made of those."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import LinuxResources
from interpose.cri.store import convert
from interpose.relay.docker.translate import hostconfig, inspect
from interpose.relay.docker.translate.json_edit import UnreadableBodyError
from interpose.relay.docker.translate.labels import CREATED, DockerIdentity

POD_LABELS = {
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "shop",
    "io.kubernetes.pod.uid": "u1",
}
SANDBOX_LABELS = {"io.kubernetes.docker.type": "podsandbox", "io.kubernetes.container.name": "POD", **POD_LABELS}
CONTAINER_LABELS = {
    "io.kubernetes.docker.type": "container",
    "io.kubernetes.sandbox.id": "s1",
    "io.kubernetes.container.name": "app",
    "io.kubernetes.container.logpath": "/var/log/pods/app/1.log",
    **POD_LABELS,
}
BUSY = {"CpuShares": 512, "CpuPeriod": 100000, "CpuQuota": 50000, "Memory": 1 << 20, "MemorySwap": 1 << 20}
NO_FILTER = cri.ContainerFilter()


def sandbox(host: dict[str, Any] | None = None, labels: dict[str, str] | None = None, state: str = "running") -> bytes:
    """Inspect of a sandbox."""
    return json.dumps(
        {
            "Id": "s1",
            "Created": "2021-11-02T09:14:51.337186325Z",
            "State": {"Status": state},
            "Name": "/k8s_POD_web_shop_u1_2",
            "HostConfig": host or {},
            "Config": {"Labels": {**SANDBOX_LABELS, **(labels or {})}},
        }
    ).encode()


def container(
    host: dict[str, Any] | None = None, labels: dict[str, str] | None = None, state: str = "running", **more: Any
) -> bytes:
    """Inspect of a container."""
    return json.dumps(
        {
            "Id": "c1",
            "Created": "2021-11-02T09:14:52Z",
            "State": {
                "Status": state,
                "ExitCode": 137,
                "StartedAt": "2021-11-02T09:14:53.5+01:00",
                "FinishedAt": "0001-01-01T00:00:00Z",
            },
            "Image": "sha256:abc",
            "Name": "/k8s_app_web_shop_u1_1",
            "HostConfig": host or {},
            "Config": {
                "Image": "busybox",
                "Env": ["A=1", "UNSET", "B=x=y", "PATH=/bin"],
                "Labels": {**CONTAINER_LABELS, **(labels or {})},
            },
            **more,
        }
    ).encode()


def pod_record(body: bytes) -> Pod:
    """As the store makes it."""
    message = cri.PodSandboxStatusResponse()
    inspect.pod_status(body, message)
    return convert.pod_of_status(message.SerializeToString())


def container_record(body: bytes) -> Container:
    """As the store makes it, in its pod."""
    message = cri.ContainerStatusResponse()
    inspect.container_status(body, message)
    found = convert.container_of_status(message.SerializeToString())
    assert found.pod_id == "s1"
    return found.within(Pod(id="s1", cgroup_parent="/of/pod"))


# -- pods


def test_a_complete_record_of_a_pod() -> None:
    """Everything hooks are told."""
    body = sandbox({"CgroupParent": "/kubepods/podu1", "CpuShares": 2, "OomScoreAdj": -998}, {"annotation.a": "b"})
    assert pod_record(body) == Pod(
        id="s1",
        name="web",
        uid="u1",
        namespace="shop",
        attempt=2,
        runtime_handler="docker",
        labels=POD_LABELS,
        annotations={"io.kubernetes.docker.type": "podsandbox", "a": "b"},
        cgroup_parent="/kubepods/podu1",
        requested_cgroup_parent="/kubepods/podu1",
        resources=LinuxResources(cpu_shares=2, oom_score_adj=-998),
    )


def test_a_pod_whose_parent_was_changed() -> None:
    """The label still says what was asked for; a slice is shown as a path."""
    body = sandbox({"CgroupParent": "a-b.slice"}, {"annotation.interpose/requested": '{"cgroup_parent":"/asked"}'})
    pod = pod_record(body)
    assert (pod.cgroup_parent, pod.requested_cgroup_parent) == ("/a.slice/a-b.slice", "/asked")


@pytest.mark.parametrize(
    ("state", "ready"),
    [("created", True), ("running", True), ("paused", True), ("exited", False), ("dead", False), ("?", False)],
)
def test_a_pod_is_ready_from_its_creation_on(state: str, ready: bool) -> None:
    """CRI has no call between creating and starting it."""
    assert pod_record(sandbox(state=state)).ready is ready


# -- containers


def test_a_complete_record_of_a_container() -> None:
    """Everything hooks are told."""
    assert container_record(container({**BUSY, "CgroupParent": "/kubepods/podu1", "OomScoreAdj": 968})) == Container(
        id="c1",
        pod_id="s1",
        name="app",
        attempt=1,
        labels={**POD_LABELS, "io.kubernetes.container.name": "app"},
        envs=(("A", b"1"), ("B", b"x=y"), ("PATH", b"/bin")),
        cgroup_parent="/kubepods/podu1",
        resources=LinuxResources(
            cpu_shares=512, cpu_period=100000, cpu_quota=50000, memory_limit_in_bytes=1 << 20, oom_score_adj=968
        ),
        requested=LinuxResources(
            cpu_shares=512, cpu_period=100000, cpu_quota=50000, memory_limit_in_bytes=1 << 20, oom_score_adj=968
        ),
        state=ContainerState.RUNNING,
    )


@pytest.mark.parametrize(
    ("parent", "shown"), [("", "/of/pod"), ("a-b.slice", "/a.slice/a-b.slice"), ("/a/b/", "/a/b"), ("a", "a")]
)
def test_where_a_container_is(parent: str, shown: str) -> None:
    """In its pod if Docker does not say."""
    assert container_record(container({"CgroupParent": parent})).cgroup_parent == shown


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("created", ContainerState.CREATED),
        ("running", ContainerState.RUNNING),
        ("paused", ContainerState.RUNNING),
        ("restarting", ContainerState.RUNNING),
        ("exited", ContainerState.EXITED),
        ("dead", ContainerState.EXITED),
        ("removing", ContainerState.EXITED),
        ("odd", ContainerState.UNKNOWN),
    ],
)
def test_states(status: str, state: ContainerState) -> None:
    """Docker has more of them."""
    assert container_record(container(state=status)).state is state


def test_the_rest_of_a_status() -> None:
    """Times, images and how it ended."""
    message = cri.ContainerStatusResponse()
    inspect.container_status(container(), message)
    status = message.status
    assert status.created_at == 1635844492 * 10**9
    assert status.started_at == (1635844493 - 3600) * 10**9 + 500_000_000
    assert status.finished_at == 0
    assert (status.exit_code, status.image.image, status.image_ref) == (137, "busybox", "sha256:abc")
    assert status.log_path == "/var/log/pods/app/1.log"


@pytest.mark.parametrize(
    ("create", "dockerd", "noted", "unnoted"),
    [
        (0, 2 << 20, 0, 2 << 20),
        (1 << 20, 1 << 20, 0, 0),
        (2 << 20, 2 << 20, 2 << 20, 2 << 20),
        (-1, -1, -1, 0),
        (3 << 20, 3 << 20, 3 << 20, 3 << 20),
        (0, -1, 0, 0),
        (1 << 20, -1, 0, 0),
    ],
    ids=["absent", "equal", "double", "unlimited", "more", "absent, not counted", "equal, not counted"],
)
def test_swap_after_a_restart(create: int, dockerd: int, noted: int, unnoted: int) -> None:
    """What a create said of swap beside memory, what dockerd shows of it, and what the record says.

    With a note it is what the create said. Without one, -1 can be a kernel's that does not count swap.
    """
    sent = hostconfig.values_to_cri({"Memory": 1 << 20, "MemorySwap": create})
    labels = {"annotation.interpose/requested": '{"cpu_shares":2}', CREATED: json.dumps(sent)}
    for given, expected in ((labels, noted), ({}, unnoted)):
        record = container_record(container({"Memory": 1 << 20, "MemorySwap": dockerd}, given))
        assert record.resources.memory_limit_in_bytes == 1 << 20
        assert record.resources.memory_swap_limit_in_bytes == expected
        assert record.requested.memory_swap_limit_in_bytes == expected


def test_what_was_requested_of_a_container_that_got_something_else() -> None:
    """A field updated since then is what it is now."""
    labels = {
        "annotation.interpose/requested": '{"cpu_shares":512,"cpuset_cpus":"","cpu_quota":1000}',
        CREATED: '{"cpu_shares":7,"cpuset_cpus":"0-3","cpu_quota":2000}',
    }
    record = container_record(container({"CpuShares": 7, "CpusetCpus": "0-3", "CpuQuota": 9000}, labels))
    assert record.resources == LinuxResources(cpu_shares=7, cpuset_cpus="0-3", cpu_quota=9000)
    assert record.requested == LinuxResources(cpu_shares=512, cpu_quota=9000)
    assert record.annotations.keys() == {"interpose/requested"}


@pytest.mark.parametrize("note", ["", "[1]", "{", "[" * 99999])
def test_a_damaged_note_is_as_good_as_none(note: str) -> None:
    """What it has now is then what it was created with."""
    labels = {"annotation.interpose/requested": '{"cpu_shares":512}', CREATED: note}
    record = container_record(container({"CpuShares": 7}, labels))
    assert (record.resources.cpu_shares, record.requested.cpu_shares) == (7, 512)


def test_a_note_without_its_annotation_is_not_ours() -> None:
    """It is not believed: what dockerd fills in counts as such."""
    labels = {CREATED: json.dumps({"memory_swap_limit_in_bytes": -1})}
    record = container_record(container({"Memory": 1 << 20, "MemorySwap": -1}, labels))
    assert record.resources == LinuxResources(memory_limit_in_bytes=1 << 20)


def test_odd_values_read_as_not_set() -> None:
    """dockerd would have to be strange."""
    body = container({"CpuShares": "x", "Memory": 1 << 70, "CpusetCpus": 5, "CgroupParent": {}})
    record = container_record(body)
    assert record.resources == LinuxResources()
    message = cri.ContainerStatusResponse()
    inspect.container_status(
        container(Config={"Labels": CONTAINER_LABELS, "Env": "x"}, State=[], HostConfig=3), message
    )
    assert message.status.state == cri.CONTAINER_UNKNOWN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.000000002Z", 10**9 + 2),
        ("1970-01-01T00:00:01.1234567891Z", 1_123_456_789),
        ("0001-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01", 0),
        ("soon", 0),
        ("", 0),
        (None, 0),
    ],
)
def test_times(text: object, expected: int) -> None:
    """To the nanosecond; what never happened or is none is 0."""
    assert inspect.nanoseconds(text) == expected


# -- what is the image's

IMAGE = inspect.Image({"role": "x", "annotation.interpose/requested": "{}", "app": "image"}, ("A=1", "PATH=/bin"))


def test_an_image() -> None:
    """What it gives to its containers."""
    body = {"Id": "sha256:abc", "Config": {"Labels": {"a": "b"}, "Env": ["A=1", "odd"]}}
    assert inspect.read_image(json.dumps(body).encode()) == inspect.Image({"a": "b"}, ("A=1",))
    assert inspect.read_image(b'{"Id":"x","Config":null}') == inspect.NO_IMAGE
    assert inspect.image_of(container()) == "sha256:abc"
    with pytest.raises(UnreadableBodyError, match="not an image"):
        inspect.read_image(b"{}")


def test_annotations_of_the_image_are_not_the_containers() -> None:
    """Whoever builds images writes none; one with another value was given to the container."""
    image = inspect.Image({**IMAGE.labels, "annotation.team": "image"}, ())
    message = cri.ContainerStatusResponse()
    inspect.container_status(container(labels={**IMAGE.labels, "annotation.team": "mine"}), message, image)
    assert dict(message.status.annotations) == {"team": "mine"}
    pod = cri.PodSandboxStatusResponse()
    inspect.pod_status(sandbox(labels={"annotation.team": "image"}), pod, image)
    assert dict(pod.status.annotations) == {"io.kubernetes.docker.type": "podsandbox"}


def test_labels_of_the_image_are_not_the_containers() -> None:
    """Unless the container has another value, or they are of Kubernetes: those say whose it is."""
    message = cri.ContainerStatusResponse()
    inspect.container_status(container(labels={"app": "mine", "role": "x"}), message, IMAGE)
    own = {**POD_LABELS, "io.kubernetes.container.name": "app"}
    assert dict(message.status.labels) == {**own, "app": "mine"}
    pod = cri.PodSandboxStatusResponse()
    inspect.pod_status(sandbox(), pod, inspect.Image(SANDBOX_LABELS, ()))
    assert dict(pod.status.labels) == {
        key: value for key, value in POD_LABELS.items() if key.startswith("io.kubernetes.")
    }


@pytest.mark.parametrize(
    ("envs", "own"),
    [
        (["X=1", "A=1", "PATH=/bin"], ["X=1"]),
        (["A=2", "PATH=/bin"], ["A=2"]),
        (["PATH=/mine", "X=1", "A=1"], ["PATH=/mine", "X=1"]),
        (["A=1", "X=1"], ["A=1", "X=1"]),
        (["A=1", "PATH=/bin"], []),
        ([], []),
    ],
)
def test_variables_of_the_image_are_not_the_containers(envs: list[str], own: list[str]) -> None:
    """They come last; what the container sets itself comes before, with the image's value or another."""
    message = cri.ContainerStatusResponse()
    inspect.container_status(container(Config={"Labels": CONTAINER_LABELS, "Env": envs}), message, IMAGE)
    record = convert.container_of_status(message.SerializeToString()).record
    assert [f"{key}={value.decode()}" for key, value in record.envs] == own


# -- whose


def test_whose_container() -> None:
    """With its full id."""
    assert inspect.identity_of(container()) == DockerIdentity(
        id="c1", sandbox=False, name="app", pod_name="web", namespace="shop", uid="u1", attempt=1, sandbox_id="s1"
    )
    assert inspect.identity_of(b'{"Id":"x","Name":"/k8s_a_b_c_d_0","Config":{"Labels":null}}') is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"Id":3}', b"[" * 99999, b'{"message":"gone"}', b"\xff"])
def test_answers_of_another_shape(body: bytes) -> None:
    """One exception."""
    for read in (inspect.identity_of, container_record, pod_record):
        with pytest.raises(UnreadableBodyError) as caught:
            read(body)
        assert "gone" not in str(caught.value)


def test_the_status_of_a_stranger() -> None:
    """There is none in CRI."""
    with pytest.raises(UnreadableBodyError, match="x is not Kubernetes'"):
        pod_record(b'{"Id":"x"}')


# -- lists

LIST = json.dumps(
    [
        {
            "Id": "s1",
            "Names": ["/other/alias", "/k8s_POD_web_shop_u1_2"],
            "Created": 1635844491,
            "Labels": {**SANDBOX_LABELS, "annotation.a": "b"},
            "State": "running",
        },
        {
            "Id": "s2",
            "Names": ["/k8s_POD_web_shop_u2_0"],
            "Labels": {"io.kubernetes.docker.type": "podsandbox", "io.kubernetes.pod.uid": "u2"},
            "State": "exited",
        },
        {
            "Id": "c1",
            "Names": ["/k8s_app_web_shop_u1_1"],
            "Image": "busybox",
            "ImageID": "sha256:abc",
            "Created": 1635844492,
            "Labels": CONTAINER_LABELS,
            "State": "exited",
        },
        {
            "Id": "c2",
            "Names": None,
            "Created": 1 << 70,
            "Labels": {"io.kubernetes.sandbox.id": "s2"},
            "State": "created",
        },
        {"Id": "x", "Names": ["/k8s_a_b_c_d_0"], "Labels": None, "State": "running"},
    ]
).encode()


def pods(**wanted: Any) -> list[str]:
    """Ids of the pods a filter wants."""
    message = cri.ListPodSandboxResponse()
    inspect.listed_sandboxes(LIST, cri.PodSandboxFilter(**wanted), message)
    return [one.id for one in message.items]


def containers(**wanted: Any) -> list[str]:
    """Ids of the containers a filter wants."""
    message = cri.ListContainersResponse()
    inspect.listed_containers(LIST, cri.ContainerFilter(**wanted), message)
    return [one.id for one in message.containers]


def test_lists_show_what_is_kubernetes() -> None:
    """Each kind in its list."""
    assert (pods(), containers()) == (["s1", "s2"], ["c1", "c2"])


def test_an_item_of_a_list() -> None:
    """As the store reads it, and as people see it."""
    pod_list, list_ = cri.ListPodSandboxResponse(), cri.ListContainersResponse()
    inspect.listed_sandboxes(LIST, cri.PodSandboxFilter(), pod_list)
    inspect.listed_containers(LIST, NO_FILTER, list_)
    assert convert.listed_pods(pod_list.SerializeToString())[0] == ("s1", True, "shop", "web", "u1", 2)
    assert convert.listed_containers(list_.SerializeToString()) == [
        ("c1", ContainerState.EXITED, "s1", "app", 1),
        ("c2", ContainerState.CREATED, "s2", "", 0),
    ]
    pod, first, second = pod_list.items[0], list_.containers[0], list_.containers[1]
    assert dict(pod.labels) == POD_LABELS
    assert dict(pod.annotations) == {"io.kubernetes.docker.type": "podsandbox", "a": "b"}
    assert pod.runtime_handler == "docker"
    assert (first.image.image, first.image_ref, first.created_at) == ("busybox", "sha256:abc", 1635844492 * 10**9)
    assert second.created_at == 0


def test_filters() -> None:
    """By id or the beginning of one, pod, label and state."""
    assert pods(id="s1") == ["s1"]
    assert pods(label_selector={"io.kubernetes.pod.uid": "u2"}) == ["s2"]
    assert pods(state=cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)) == ["s2"]
    assert containers(id="c") == ["c1", "c2"]
    assert containers(pod_sandbox_id="s2") == ["c2"]
    assert containers(label_selector={"io.kubernetes.pod.uid": "u1"}) == ["c1"]
    assert containers(state=cri.ContainerStateValue(state=cri.CONTAINER_CREATED)) == ["c2"]


def test_where_to_ask_for_a_list() -> None:
    """Docker narrows it as far as it can."""

    def filters(target: str) -> Any:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        assert (parts.path, query["all"]) == ("/containers/json", ["1"])
        return json.loads(query["filters"][0]) if "filters" in query else {}

    assert filters(inspect.list_target(NO_FILTER)) == {}
    wanted = cri.ContainerFilter(id="c1", label_selector={"a": "b=&c"})
    assert filters(inspect.list_target(wanted)) == {"label": ["a=b=&c"], "id": ["c1"]}


@pytest.mark.parametrize("body", [b"{}", b"null", b"[1]", b"", b'{"message":"no"}'])
def test_lists_of_another_shape(body: bytes) -> None:
    """Nobody may take them for an empty node."""
    with pytest.raises(UnreadableBodyError, match=r"a list but|an object but|not JSON"):
        inspect.listed_containers(body, NO_FILTER, cri.ListContainersResponse())
