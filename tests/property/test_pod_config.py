"""What always holds for the configuration of pods, whatever is in a manifest."""

import json
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import KubeQos, kube_qos_of
from interpose.core.model.kubernetes_names import RESTART_COUNT
from interpose.host.cgroup.paths import Driver, pod_directory
from interpose.node.pods.cgroups.paths import cgroup_parent
from interpose.node.pods.cri_config.dns import hostname, parse_resolv, pod_dns
from interpose.node.pods.cri_config.env import DownwardApiContext, environment, expand
from interpose.node.pods.cri_config.qos import pod_qos
from interpose.node.pods.cri_config.resources import (
    ResourceRules,
    container_linux_resources,
    oom_score_adj,
    pod_limits,
    pod_requests,
)
from interpose.node.pods.cri_config.sandbox import sandbox_config
from interpose.node.pods.labels import (
    DELETION_GRACE,
    GRACE,
    HASH,
    MESSAGE_PATH,
    MESSAGE_POLICY,
    PORTS,
    PRE_STOP,
    RESOURCES,
    container_annotations,
    resources_text,
)
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, DnsConfig, EnvVar, PodSpec, ResourceRequirements, RestartPolicy
from interpose.node.pods.status.annotations import parse_annotations
from interpose.node.pods.volumes.mounts import mounts_below

amounts = st.fractions(min_value=0, max_value=1 << 40)
by_name = st.dictionaries(st.sampled_from(("cpu", "memory", "hugepages-2Mi", "a.b/c")), amounts)
resources = st.builds(ResourceRequirements, requests=by_name, limits=by_name)
uids = st.one_of(
    st.uuids().map(str), st.text("0123456789abcdef", min_size=32, max_size=32), st.text("abc-_09", min_size=1)
)
names = st.text("ABC", min_size=1, max_size=2)
texts = st.text("$()ABC x", max_size=12)
RULES = ResourceRules(memory=1 << 34)
KEYS = (HASH, RESTART_COUNT, MESSAGE_PATH, MESSAGE_POLICY, PRE_STOP, PORTS, DELETION_GRACE, GRACE, RESOURCES)
WORDS = ("exec", "command", "httpGet", "port", "httpHeaders", "sleep", "seconds", "containerPort", "limits", "cpu")
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=8,
)


@st.composite
def pods(draw: st.DrawFn) -> PodSpec:
    """Pods with containers of all kinds and any amounts."""
    mains = draw(st.lists(resources, min_size=1, max_size=3))
    early = draw(st.lists(st.tuples(resources, st.booleans()), max_size=3))
    return PodSpec(
        name=draw(st.text("abc-.", min_size=1, max_size=80)),
        uid=draw(st.uuids().map(str)),
        containers=tuple(ContainerSpec(name=f"m{index}", image="i", resources=one) for index, one in enumerate(mains)),
        init_containers=tuple(
            ContainerSpec(
                name=f"i{index}", image="i", resources=one, restart_policy=RestartPolicy.ALWAYS if stays else None
            )
            for index, (one, stays) in enumerate(early)
        ),
        resources=draw(st.none() | resources),
    )


@given(texts, st.dictionaries(names, texts))
def test_what_was_put_in_is_not_looked_at_again(text: str, values: dict[str, str]) -> None:
    """So expansion ends, and its result is at most as long as everything in it together."""
    longest = max(map(len, values.values()), default=0)
    assert len(expand(text, values)) <= len(text) * (1 + longest)


@given(texts, st.dictionaries(names, texts))
def test_doubled_dollars_keep_a_text_as_it_is(text: str, values: dict[str, str]) -> None:
    """Which is how values of ConfigMaps are passed on."""
    assert expand(text.replace("$", "$$"), values) == text


@given(st.lists(st.tuples(names, texts), max_size=8))
def test_variables_never_loop(pairs: list[tuple[str, str]]) -> None:
    """Whatever refers to whatever; every name is there once."""
    container = ContainerSpec(name="c", image="i", env=tuple(EnvVar(name=name, value=text) for name, text in pairs))
    pod = PodSpec(name="p", uid="u", containers=(container,))
    assert set(environment(pod, container, DownwardApiContext())) == {name for name, _ in pairs}


@given(amounts, amounts, st.booleans())
def test_more_cpu_is_never_less(one: Fraction, other: Fraction, as_limit: bool) -> None:
    """Shares and quota grow with what is asked for, within what the kernel takes."""
    found = []
    for amount in sorted((one, other)):
        asked = {"cpu": amount}
        container = ContainerSpec(
            name="c",
            image="i",
            resources=ResourceRequirements(limits=asked) if as_limit else ResourceRequirements(requests=asked),
        )
        found.append(container_linux_resources(PodSpec(name="p", uid="u", containers=(container,)), container, RULES))
    less, more = found
    assert 2 <= less.cpu_shares <= more.cpu_shares <= 262_144
    assert all(one.cpu_quota == 0 or one.cpu_quota >= 1000 for one in found)
    assert less.cpu_quota <= more.cpu_quota
    assert as_limit or more.cpu_quota == 0


@given(pods())
def test_scores_say_the_class(pod: PodSpec) -> None:
    """Burstable is between the two others, strictly; a sidecar is at least as safe as the weakest it serves."""
    qos = pod_qos(pod)
    scores = {one.name: oom_score_adj(pod, one, 1 << 34) for one in (*pod.init_containers, *pod.containers)}
    for score in scores.values():
        assert (score == -997, score == 1000, 3 <= score <= 999) == (
            qos is KubeQos.GUARANTEED,
            qos is KubeQos.BEST_EFFORT,
            qos is KubeQos.BURSTABLE,
        )
    weakest = max(scores[one.name] for one in pod.containers)
    for one in pod.init_containers:
        assert one.restart_policy is None or scores[one.name] <= weakest


@given(pods(), uids, st.sampled_from(Driver), st.sampled_from(("", "a", "a/b", "/top/")))
def test_the_class_can_be_read_from_the_path(pod: PodSpec, uid: str, driver: Driver, root: str) -> None:
    """As every tool on the other side of CRI does it."""
    moved = PodSpec(name="p", uid=uid, containers=pod.containers, init_containers=pod.init_containers)
    try:
        parent = cgroup_parent(moved, driver, root)
    except ValueError:
        assert driver is Driver.SYSTEMD  # a slice cannot have empty words in its name
        return
    assert kube_qos_of(parent) is pod_qos(moved)
    assert pod_directory(parent) == parent.removeprefix("/")


@given(pods())
def test_the_pod_has_at_least_what_each_of_its_containers_has(pod: PodSpec) -> None:
    """At any time; unless it says itself what it has."""
    plain = PodSpec(name="p", uid="u", containers=pod.containers, init_containers=pod.init_containers)
    requests, limits = pod_requests(plain), pod_limits(plain)
    for one in (*pod.containers, *pod.init_containers):
        for name, amount in one.resources.limits.items():
            assert limits[name] >= amount
        for name in (*one.resources.requests, *one.resources.limits):
            assert requests[name] >= one.resources.requests.get(name, one.resources.limits.get(name, 0))
    for name, total in limits.items():
        assert total <= sum(one.resources.limits.get(name, 0) for one in (*pod.containers, *pod.init_containers))


@given(resources)
def test_resources_come_back_exactly(value: ResourceRequirements) -> None:
    """Else a restart of the manager would see a change that is none."""
    assert parse_annotations({"interpose.io/resources": resources_text(value)}).resources == value


@given(pods(), st.integers(0, 1000))
def test_what_is_on_a_container_can_be_read_back(pod: PodSpec, count: int) -> None:
    """For every container."""
    for one in pod.containers:
        notes = parse_annotations(container_annotations(pod, one, count))
        assert (notes.restart_count, notes.grace, notes.resources) == (count, 30, one.resources)


@given(st.dictionaries(st.sampled_from(KEYS), st.text() | DOCUMENTS.map(json.dumps)))
def test_notes_of_others_never_raise(annotations: dict[str, str]) -> None:
    """Whatever is in them."""
    parse_annotations(annotations)


@given(pods(), st.integers(0, 10))
def test_a_sandbox_is_the_same_each_time(pod: PodSpec, attempt: int) -> None:
    """Pure, for any pod."""
    node = NodeFacts(name="n", memory=1 << 34)
    one, other = (sandbox_config(pod, node, attempt).SerializeToString(deterministic=True) for _ in range(2))
    assert one == other


@given(st.text("ab-.", max_size=200), st.text("ab-.", min_size=1, max_size=200))
def test_hostnames_fit(own: str, name: str) -> None:
    """In what the kernel and DNS take."""
    found = hostname(PodSpec(name=name, uid="u", containers=(), hostname=own))
    assert len(found) <= 63
    assert not found.endswith(("-", "."))


@given(st.text(), st.lists(st.text("ab.", min_size=1, max_size=100), max_size=60))
def test_any_resolv_conf_gives_one_that_fits(text: str, searches: list[str]) -> None:
    """Three servers, 32 domains, 2048 characters."""
    own = DnsConfig(searches=tuple(searches))
    pod = PodSpec(name="p", uid="u", containers=(), dns_policy="Default", dns_config=own)
    resolv = pod_dns(pod, parse_resolv(text)).resolv
    assert len(resolv.servers) <= 3
    assert len(resolv.searches) <= 32
    assert len(" ".join(resolv.searches)) <= 2048


@given(st.binary(), st.text("/ab", min_size=1))
def test_any_mountinfo_can_be_read(data: bytes, folder: str) -> None:
    """Only what is in the folder is found."""
    assert all(path == folder or path.startswith(f"{folder}/") for path in mounts_below(data, folder))
