"""Laws of editing Docker's bodies: what nobody touched keeps its bytes, and what was written is what is read again."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose._pb import cri_pb2 as cri
from interpose.cri.store import convert
from interpose.cri.store.requested import ANNOTATION, resources_note
from interpose.relay.docker.routes import NAMES, classify
from interpose.relay.docker.translate import create, inspect
from interpose.relay.docker.translate.body import JsonBody
from interpose.relay.docker.translate.errors import error_body, message_of
from interpose.relay.docker.translate.json_edit import (
    UnreadableBodyError,
    change_items,
    decode,
    read_container,
    read_root,
    spliced,
)
from interpose.relay.docker.translate.labels import MARK

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# Texts as JSON can write them, half characters included.
spelt = st.text(st.characters(codec=None), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | spelt,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(spelt, inner, max_size=3),
    max_leaves=8,
)
layouts = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " :\r\n")])
MEMORY = st.sampled_from([0, 1 << 20, 1 << 30])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """An object in some spelling."""
    document = draw(st.dictionaries(spelt, values, max_size=5))
    return json.dumps(document, separators=draw(layouts), ensure_ascii=True)


@st.composite
def hosts(draw: st.DrawFn) -> dict[str, Any]:
    """A HostConfig as dockershim fills it: memory without swap, or neither."""
    memory = draw(MEMORY)
    parent = st.sampled_from(["", "/kubepods/burstable/podu1", "kubepods-podu1.slice"])
    found: dict[str, Any] = {
        "CpuShares": draw(st.integers(0, 262144)),
        "CpuPeriod": draw(st.sampled_from([0, 100_000])),
        "CpuQuota": draw(st.integers(-1, 10**6)),
        "CpusetCpus": draw(st.sampled_from(["", "0-3"])),
        "CpusetMems": draw(st.sampled_from(["", "0"])),
        "Memory": memory,
        "MemorySwap": memory,
        "OomScoreAdj": draw(st.integers(-1000, 1000)),
        "CgroupParent": draw(parent),
    }
    dropped = draw(st.sets(st.sampled_from(sorted(found.keys() - {"Memory", "MemorySwap"}))))
    return {key: value for key, value in found.items() if key not in dropped} | {"Ulimits": None}


labels = st.dictionaries(words.filter(lambda key: not key.startswith("io.kubernetes.")), words, max_size=4)
entries = st.lists(st.tuples(st.sampled_from("ABC"), words).map("=".join) | st.sampled_from(["U", "A"]), max_size=6)
pod_labels = {"io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "n", "io.kubernetes.pod.uid": "u1"}


@st.composite
def bodies(draw: st.DrawFn, sandbox: bool | None = None) -> bytes:
    """A body of Kubernetes' in some spelling."""
    own = (
        {"io.kubernetes.docker.type": "podsandbox", "io.kubernetes.container.name": "POD"}
        if (draw(st.booleans()) if sandbox is None else sandbox)
        else {"io.kubernetes.docker.type": "container", "io.kubernetes.sandbox.id": "s1"}
    )
    document = {
        "Image": "busybox",
        "Cmd": draw(st.none() | st.lists(words, max_size=2)),
        "Env": draw(st.none() | entries),
        "Unknown": draw(values),
        "Labels": {**draw(labels), **pod_labels, **own},
        "HostConfig": draw(hosts()),
    }
    keys = draw(st.permutations(sorted(document)))
    text = json.dumps({key: document[key] for key in keys}, separators=draw(layouts), ensure_ascii=draw(st.booleans()))
    return text.encode("utf-8", "replace")


def message_of_creation(found: create.CreateBody) -> Any:
    """The message it becomes."""
    message = cri.RunPodSandboxRequest() if found.sandbox else cri.CreateContainerRequest()
    found.fill(message)
    return message


def plain(message: Any) -> Any:
    """A message without parts that say nothing."""
    if not message.config.linux.resources.ByteSize():
        message.config.linux.ClearField("resources")
    if not message.config.linux.ByteSize():
        message.config.ClearField("linux")
    return message


def read(raw: bytes) -> create.CreateBody:
    """A creation that is Kubernetes'."""
    found = create.read_create(raw, {"name": "k8s_c_p_n_u1_4"})
    assert found is not None
    return found


@st.composite
def changes(draw: st.DrawFn, message: Any) -> Any:
    """What a chain may make of a message."""
    after = type(message)()
    after.CopyFrom(message)
    config = after.config
    for target in [config.annotations] + ([config.labels] if isinstance(after, cri.RunPodSandboxRequest) else []):
        for key in draw(st.sets(st.sampled_from(sorted(target)), max_size=2)) if target else ():
            del target[key]
        target.update(draw(st.dictionaries(words.filter(lambda key: not key.startswith("io.")), words, max_size=2)))
    for name, value in draw(
        st.fixed_dictionaries(
            {},
            optional={
                "cpu_shares": st.integers(0, 99),
                "cpuset_cpus": st.sampled_from(["", "1"]),
                "memory_limit_in_bytes": MEMORY,
                "cpu_quota": st.integers(-1, 5000),
            },
        )
    ).items():
        setattr(config.linux.resources, name, value)
    parent = draw(st.sampled_from(["", "/kubepods.slice/kubepods-x.slice"]))
    if isinstance(after, cri.RunPodSandboxRequest):
        if parent:
            config.linux.cgroup_parent = parent
        return after
    if config.envs and draw(st.booleans()):
        del config.envs[draw(st.integers(0, len(config.envs) - 1))]
    for one in config.envs:
        if draw(st.booleans()):
            one.value = draw(words).encode()
    if draw(st.booleans()):
        config.envs.add(key="NEW", value=draw(words).encode())
    if draw(st.booleans()):
        del config.args[:]
        config.args.extend(draw(st.lists(words, max_size=2)))
    return after


# -- texts


@given(texts())
def test_members_are_where_they_are_said_to_be(text: str) -> None:
    """Each text of a value reads as that value, and keys come in their order."""
    root = read_root(text)
    document = json.loads(text)
    assert [one.key for one in root.items] == list(document)
    assert [json.loads(text[one.value_start : one.end]) for one in root.items] == list(document.values())


@given(texts(), st.data())
def test_edits_leave_everything_else_alone(text: str, data: st.DataObject) -> None:
    """Of the members that stay, every byte does; what is replaced and added reads as written."""
    root = read_root(text)
    places = st.sets(st.integers(0, len(root.items) - 1)) if root.items else st.just(set[int]())
    removed = data.draw(places)
    replaced = dict.fromkeys(data.draw(places) - removed, "[7]")
    added = [f'"new{number}":8' for number in range(data.draw(st.integers(0, 2)))]
    after = spliced(text, change_items(root, replaced=replaced, removed=removed, added=added))
    again = read_root(after)
    expected = [
        (text[one.start : one.value_start], replaced.get(place, text[one.value_start : one.end]))
        for place, one in enumerate(root.items)
        if place not in removed
    ]
    kept = again.items[: len(expected)]
    assert [(after[one.start : one.value_start], after[one.value_start : one.end]) for one in kept] == expected
    assert [after[one.start : one.end] for one in again.items[len(expected) :]] == added
    if not removed and not replaced and not added:
        assert after == text


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\u0123truefalsn. \n-eE', max_size=60).map(str.encode))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    """They can be read, or cannot."""
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_root(decode(raw)),
        lambda: create.read_create(raw, {}),
        lambda: create.read_update(raw),
        lambda: inspect.identity_of(raw),
    )
    for reader in readers:
        with suppress(UnreadableBodyError):
            reader()


# -- creates


@given(bodies())
def test_nobody_changes_nothing(raw: bytes) -> None:
    """To CRI and back the body is the same object."""
    found = read(raw)
    edited = found.edited(message_of_creation(found), message_of_creation(found))
    assert edited.body is raw
    assert edited.without_effect == ()


@given(bodies(), st.data())
def test_what_the_chain_wants_is_what_dockerd_gets(raw: bytes, data: st.DataObject) -> None:
    """Read again, the edited body becomes the message as it left the chain."""
    found = read(raw)
    before = message_of_creation(found)
    after = data.draw(changes(before))
    edited = found.edited(before, after)
    again = message_of_creation(read(edited.body))
    if found.sandbox and MARK not in after.config.annotations:
        after.config.annotations[MARK] = "podsandbox"  # a pod shows it whatever anybody does about it
    assert plain(again) == plain(after)


@given(bodies(), st.data())
def test_untouched_members_keep_their_bytes(raw: bytes, data: st.DataObject) -> None:
    """Whatever is changed in the labels, resources, variables and arguments."""
    found = read(raw)
    before = message_of_creation(found)
    edited = found.edited(before, data.draw(changes(before))).body
    ours = {"Labels", "HostConfig", "Env", "Cmd", "Entrypoint"}
    old, new = JsonBody(raw), JsonBody(edited)
    for one in old.root.items:
        if one.key not in ours:
            there = new.root.member(one.key)
            assert there is not None
            assert new.text[there.start : there.end] == old.text[one.start : one.end]
    assert member_text(old, "HostConfig", "Ulimits") == member_text(new, "HostConfig", "Ulimits")


def member_text(body: JsonBody, key: str, name: str) -> str:
    """A member of an object in a body, as it is written."""
    within = body.root.member(key)
    assert within is not None
    found = read_container(body.text, within.value_start).member(name)
    assert found is not None
    return body.text[found.start : found.end]


def inspected(raw: bytes, container_id: str, state: str) -> bytes:
    """What dockerd would show of a container created with this body."""
    document = json.loads(raw)
    host = dict(document["HostConfig"])
    if host["Memory"] and not host["MemorySwap"]:
        host["MemorySwap"] = 2 * host["Memory"]
    config = {key: document[key] for key in ("Labels", "Env", "Image", "Cmd")}
    return json.dumps(
        {
            "Id": container_id,
            "Name": "/k8s_c_p_n_u1_4",
            "State": {"Status": state},
            "HostConfig": host,
            "Config": config,
        }
    ).encode()


@given(bodies(sandbox=False), st.data())
def test_a_record_after_a_restart_is_the_record_of_the_request(raw: bytes, data: st.DataObject) -> None:
    """Of a container, with what was requested of it."""
    found = read(raw)
    asked = message_of_creation(found)
    sent = data.draw(changes(asked))
    note = resources_note(
        convert.to_resources(sent.config.linux.resources), convert.to_resources(asked.config.linux.resources)
    )
    if note:
        sent.config.annotations[ANNOTATION] = note
    else:
        sent.config.annotations.pop(ANNOTATION, None)
    expected = convert.container_of_request(sent, asked, None)
    status = cri.ContainerStatusResponse()
    inspect.container_status(inspected(found.edited(asked, sent).body, "c1", "created"), status)
    shown = convert.container_of_status(status.SerializeToString())
    record = shown.record
    assert shown.pod_id == expected.pod_id
    # Of a variable given twice the last counts; both lists say that.
    assert dict(record.envs) == dict(expected.envs)
    for name in ("name", "attempt", "labels", "annotations", "cgroup_parent", "resources", "requested", "state"):
        assert getattr(record, name) == getattr(expected, name), name


@given(bodies(sandbox=True))
def test_a_pod_after_a_restart_is_the_pod_of_the_request(raw: bytes) -> None:
    """Every field of the record."""
    request = message_of_creation(read(raw))
    status = cri.PodSandboxStatusResponse()
    inspect.pod_status(inspected(raw, "s1", "created"), status)
    assert convert.pod_of_status(status.SerializeToString()) == convert.pod_of_request(request, request, "s1")


# -- updates and the rest


@given(hosts(), layouts, st.data())
def test_an_update_says_what_the_chain_wants(
    host: dict[str, Any], layout: tuple[str, str], data: st.DataObject
) -> None:
    """Unchanged it is the same object; changed it reads as the message."""
    raw = json.dumps(host, separators=layout).encode()
    update = create.read_update(raw)
    before, after = cri.UpdateContainerResourcesRequest(), cri.UpdateContainerResourcesRequest()
    update.fill(before, "c1")
    update.fill(after, "c1")
    assert update.edited(before, after).body is raw
    after.linux.cpu_shares = data.draw(st.integers(0, 99))
    after.linux.memory_limit_in_bytes = data.draw(MEMORY)
    after.linux.cpuset_cpus = data.draw(st.sampled_from(["", "1"]))
    again = cri.UpdateContainerResourcesRequest()
    create.read_update(update.edited(before, after).body).fill(again, "c1")
    assert again == after
    own = cri.UpdateContainerResourcesRequest()
    create.read_update(create.update_body(after).body).fill(own, "c1")
    assert own == after


@given(st.sampled_from(["GET", "POST", "DELETE", "HEAD", "PUT", "X"]), words, words)
def test_every_request_has_a_row(method: str, path: str, query: str) -> None:
    """And the label of the row is one of the fixed set."""
    assert classify(method, f"/containers/{path}", query).endpoint.name in NAMES


@given(words)
def test_messages_survive(text: str) -> None:
    """But for white space around them."""
    assert message_of(error_body(text)) == text.strip()
