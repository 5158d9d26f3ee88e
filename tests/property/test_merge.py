"""Laws of merging answers into requests, on the real messages: nothing is lost, nothing happens that nobody named."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.hooks.dispatch.apply import apply
from interpose.hooks.dispatch.fields import CONTAINER_FIELDS, HookFieldKind, fields_of, split_path
from interpose.hooks.dispatch.merge import FieldChange, HookAnswerError, apply_changes, merge, read, write

UNKNOWN = b"\xfa\x3f\x03abc"  # field 1023, which no message has
NUMBERS = {
    "cpu_period": st.integers(1000, 100_000),
    "cpu_quota": st.integers(-1, 10**6),
    "cpu_shares": st.integers(0, 262_144),
    "memory_limit_in_bytes": st.integers(-1, 1 << 40),
    "oom_score_adj": st.integers(-1000, 1000),
    "memory_swap_limit_in_bytes": st.integers(-1, 1 << 40),
    "cpuset_cpus": st.sampled_from(["", "0", "0-3", "0-3,8"]),
    "cpuset_mems": st.sampled_from(["", "0", "0-1"]),
}
# Few keys, so that answers meet what is there; those of maps hold everything that could confuse a path.
names = st.sampled_from(["a", "b", "x/y.z", "q[0]", "]", "[", ""])
variables = st.sampled_from(["A", "B", "PATH", "ü", "Q[0]"])
files = st.sampled_from(["memory.high", "memory.min", "io.max"])
sizes = st.sampled_from(["64KB", "2MB", "1GB"])
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
maps = st.dictionaries(names, words, max_size=4)
pages = st.dictionaries(sizes, st.integers(0, 2**64 - 1), max_size=3)
parents = st.sampled_from(["", "/kubepods/pod1", "kubepods-pod1.slice"])


@st.composite
def resources(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of resources, some of them absent."""
    found: dict[str, Any] = {name: draw(strategy) for name, strategy in NUMBERS.items() if draw(st.booleans())}
    found["unified"] = draw(st.dictionaries(files, words, max_size=3))
    found["hugepage_limits"] = [{"page_size": size, "limit": limit} for size, limit in draw(pages).items()]
    return found


@st.composite
def requests(draw: st.DrawFn) -> cri.CreateContainerRequest:
    """CreateContainer with variables in any order, twice or not text, and with fields of a later version."""
    request = cri.CreateContainerRequest(pod_sandbox_id="s")
    if draw(st.booleans()):
        request.config.linux.resources.CopyFrom(cri.LinuxContainerResources(**draw(resources())))
        request.config.linux.resources.MergeFromString(UNKNOWN)
    if draw(st.booleans()):
        request.sandbox_config.linux.cgroup_parent = draw(parents)
    request.config.annotations.update(draw(maps))
    for key, value in draw(st.lists(st.tuples(variables, words.map(str.encode) | st.binary(max_size=3)), max_size=6)):
        request.config.envs.add(key=key, value=value)
    request.config.MergeFromString(UNKNOWN)
    request.MergeFromString(UNKNOWN)
    return request


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    """What plugins want: values by path, None to clear it."""
    found: dict[str, Any] = {
        f"container_resources.{name}": draw(st.none() | strategy)
        for name, strategy in NUMBERS.items()
        if draw(st.booleans())
    }
    keyed = {
        "container_annotations": (names, words),
        "container_envs": (variables, words),
        "container_resources.unified": (files, words),
        "container_resources.hugepage_limits": (sizes, st.integers(0, 2**64 - 1)),
    }
    for path, (keys, values) in keyed.items():
        for key, value in draw(st.dictionaries(keys, st.none() | values, max_size=3)).items():
            found[f"{path}[{key}]"] = value
    if draw(st.booleans()):
        found["pod_cgroup_parent"] = draw(st.sampled_from([None, "/other", "/new"]))
    return found


def asked(request: cri.CreateContainerRequest) -> hook.ContainerResourceHookRequest:
    """What a hook server is sent about this request."""
    sent = hook.ContainerResourceHookRequest(
        container_annotations=request.config.annotations,
        pod_cgroup_parent=request.sandbox_config.linux.cgroup_parent,
        container_resources=hook.LinuxContainerResources.FromString(
            request.config.linux.resources.SerializeToString(deterministic=True)
        ),
    )
    for item in request.config.envs:
        sent.container_envs.pop(item.key, None)
        try:
            sent.container_envs[item.key] = item.value.decode()
        except UnicodeDecodeError:
            continue
    return sent


def echo_of(sent: hook.ContainerResourceHookRequest) -> hook.ContainerResourceHookResponse:
    """Everything an answer can repeat."""
    return hook.ContainerResourceHookResponse(
        container_annotations=sent.container_annotations,
        container_envs=sent.container_envs,
        pod_cgroup_parent=sent.pod_cgroup_parent,
        container_resources=sent.container_resources,
    )


def value_at(message: Any, path: str) -> Any:
    """The value a path names; None if it is not there."""
    name, key = split_path(path)
    field = fields_of(message)[name]
    return read(getattr(message, field.owner) if field.owner else message, field).get(key)


def answer_for(sent: Any, wanted: dict[str, Any]) -> hook.ContainerResourceHookResponse:
    """An answer that names the wishes that are not fulfilled yet, so none of its values is one that was sent."""
    answer = hook.ContainerResourceHookResponse()
    for path, value in wanted.items():
        if value is None:
            answer.clear.append(path)
        elif value and value != value_at(sent, path):
            name, key = split_path(path)
            field = CONTAINER_FIELDS[name]
            write(getattr(answer, field.owner) if field.owner else answer, field, key, value)
    return answer


def node() -> tuple[str, str]:
    """All there is."""
    return "0-7", "0"


def run(data: bytes, plugins: Iterable[Callable[[Any], Any]]) -> cri.CreateContainerRequest:
    """The request after these plugins, each seeing what the one before it did."""
    request = cri.CreateContainerRequest.FromString(data)
    sent = asked(request)
    for plugin in plugins:
        changes = merge(sent, plugin(sent)).changes
        apply_changes(sent, changes)
        apply("CreateContainer", request, changes, node)
    return request


def settled(request: cri.CreateContainerRequest) -> bytes:
    """The request without the order of lists, which for new entries is that of the plugins."""
    copy = cri.CreateContainerRequest.FromString(request.SerializeToString())
    copy.config.envs.sort(key=lambda item: item.key)
    if copy.config.linux.HasField("resources"):
        copy.config.linux.resources.hugepage_limits.sort(key=lambda item: item.page_size)
    return copy.SerializeToString(deterministic=True)


@given(requests())
def test_an_echo_is_no_change(request: cri.CreateContainerRequest) -> None:
    """Repeating everything says nothing, and a field of a later version in the answer neither."""
    sent = asked(request)
    answer = echo_of(sent)
    answer.MergeFromString(UNKNOWN)
    merged = merge(sent, answer)
    assert merged.changes == ()
    assert merged.refused == ()


@given(maps, maps, parents, resources())
def test_an_echo_of_a_pod_is_no_change(
    labels: dict[str, str], annotations: dict[str, str], parent: str, held: dict[str, Any]
) -> None:
    """The same for the other pair of messages."""
    fields: dict[str, Any] = {
        "labels": labels,
        "annotations": annotations,
        "cgroup_parent": parent,
        "resources": hook.LinuxContainerResources(**held),
    }
    assert merge(hook.PodSandboxHookRequest(**fields), hook.PodSandboxHookResponse(**fields)).changes == ()


@given(requests(), wishes())
def test_a_partial_answer_changes_what_it_names(request: cri.CreateContainerRequest, wanted: dict[str, Any]) -> None:
    """Every wish comes true, nothing else changes, and each change is one."""
    sent = asked(request)
    answer = answer_for(sent, wanted)
    changes = merge(sent, answer).changes
    for change in changes:
        assert change.path in wanted
        assert change.before == value_at(sent, change.path) != change.after
    apply_changes(sent, changes)
    for path, value in wanted.items():
        if value or value is None:  # zero and empty cannot be said in a partial answer
            assert value_at(sent, path) == value


@given(requests(), wishes(), st.data())
def test_plugins_that_want_different_things_commute(
    request: cri.CreateContainerRequest, wanted: dict[str, Any], data: st.DataObject
) -> None:
    """Whichever comes first, the request is the same."""
    mine = {path for path in wanted if data.draw(st.booleans())}
    first = {path: value for path, value in wanted.items() if path in mine}
    second = {path: value for path, value in wanted.items() if path not in mine}
    raw = request.SerializeToString()
    plugins: Sequence[Callable[[Any], Any]] = [
        lambda sent: answer_for(sent, first),
        lambda sent: answer_for(sent, second),
    ]
    assert settled(run(raw, plugins)) == settled(run(raw, reversed(plugins)))


@given(requests(), wishes())
def test_what_nobody_named_survives(request: cri.CreateContainerRequest, wanted: dict[str, Any]) -> None:
    """Unknown fields at each level, and variables with their order, their duplicates and their bytes."""
    raw = request.SerializeToString()
    after = run(raw, [lambda sent: answer_for(sent, wanted)])
    assert after.SerializeToString().count(UNKNOWN) == raw.count(UNKNOWN)
    touched = {split_path(path)[1] for path in wanted if path.startswith("container_envs")}

    def others(message: cri.CreateContainerRequest) -> list[tuple[str, bytes]]:
        return [(item.key, item.value) for item in message.config.envs if item.key not in touched]

    assert others(after) == others(request)


@given(requests())
def test_a_request_without_changes_keeps_its_bytes(request: cri.CreateContainerRequest) -> None:
    """An echo leads to the very message that came."""
    raw = request.SerializeToString(deterministic=True)
    assert run(raw, [echo_of]).SerializeToString(deterministic=True) == raw


@given(requests(), wishes())
def test_applying_twice_is_applying_once(request: cri.CreateContainerRequest, wanted: dict[str, Any]) -> None:
    """Changes name the result, not a step towards it."""
    sent = asked(request)
    changes = merge(sent, answer_for(sent, wanted)).changes
    apply("CreateContainer", request, changes, node)
    once = request.SerializeToString(deterministic=True)
    apply("CreateContainer", request, changes, node)
    assert request.SerializeToString(deterministic=True) == once


@given(requests(), st.lists(st.sampled_from(sorted(CONTAINER_FIELDS)), max_size=4))
def test_clearing_twice_is_clearing_once(request: cri.CreateContainerRequest, paths: list[str]) -> None:
    """What was taken away is gone, and taking it away again is no change."""
    sent = asked(request)
    answer = hook.ContainerResourceHookResponse(clear=paths)
    apply_changes(sent, merge(sent, answer).changes)
    assert merge(sent, answer).changes == ()
    for path in paths:
        field = CONTAINER_FIELDS[path]
        assert read(getattr(sent, field.owner) if field.owner else sent, field) == {}


@given(requests(), st.sets(st.sampled_from(sorted(NUMBERS))))
def test_an_echo_that_leaves_out_fields_says_so_once(request: cri.CreateContainerRequest, left_out: set[Any]) -> None:
    """The same answer to the result of the first is no change."""
    sent = asked(request)
    answer = echo_of(sent)
    for name in left_out:
        answer.container_resources.ClearField(name)
    changes = merge(sent, answer).changes
    assert {change.path for change in changes} <= {f"container_resources.{name}" for name in left_out}
    assert all(change.after is None for change in changes)
    apply_changes(sent, changes)
    assert merge(sent, answer).changes == ()


@given(requests(), resources())
def test_no_answer_about_resources_alone_loses_a_memory_limit(
    request: cri.CreateContainerRequest, held: dict[str, Any]
) -> None:
    """However much it happens to repeat: without what is around, neither a memory limit nor an OOM score goes."""
    sent = asked(request)
    assume(sent.container_annotations or sent.container_envs or sent.pod_cgroup_parent)
    answer = hook.ContainerResourceHookResponse(container_resources=hook.LinuxContainerResources(**held))
    cleared = {change.path for change in merge(sent, answer).changes if change.after is None}
    assert not cleared & {"container_resources.memory_limit_in_bytes", "container_resources.oom_score_adj"}


@given(
    requests(),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    st.lists(st.text("container_resources.unified[]", max_size=30) | st.sampled_from(sorted(CONTAINER_FIELDS))),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=5),
)
def test_any_answer_is_merged_or_refused(
    request: cri.CreateContainerRequest, keyed: dict[str, str], clear: list[str], number: int, text: str
) -> None:
    """There is one way to fail, and neither message is touched by looking at it."""
    sent = asked(request)
    answer = hook.ContainerResourceHookResponse(
        container_annotations=keyed,
        container_envs=keyed,
        pod_cgroup_parent=text,
        container_resources=hook.LinuxContainerResources(oom_score_adj=number, cpuset_cpus=text, unified=keyed),
        clear=clear,
    )
    before = (sent.SerializeToString(deterministic=True), answer.SerializeToString(deterministic=True))
    changes: tuple[FieldChange, ...] = ()
    complaint = ""
    try:
        changes = merge(sent, answer).changes
    except HookAnswerError as error:
        complaint = str(error)
    assert complaint.isprintable()
    assert len({change.path for change in changes}) == len(changes)
    assert (sent.SerializeToString(deterministic=True), answer.SerializeToString(deterministic=True)) == before


def test_the_table_has_the_kinds_these_laws_are_about() -> None:
    """A new kind of field needs wishes here as well."""
    assert {field.kind for field in CONTAINER_FIELDS.values()} == set(HookFieldKind)
