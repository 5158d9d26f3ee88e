"""Create bodies as dockershim writes them, as CRI and back."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.kubernetes_names import LABEL_PREFIX
from interpose.core.model.pod import Pod
from interpose.cri.store.requested import ANNOTATION
from interpose.relay.docker.translate.body import MOST, EditedBody
from interpose.relay.docker.translate.create import CreateBody, image_named, may_be_kubernetes, read_create
from interpose.relay.docker.translate.json_edit import BodyTooLargeToReadError, UnreadableBodyError
from interpose.relay.docker.translate.labels import CREATED

DATA = Path(__file__).parents[4] / "data/docker"
NAMES = {
    "sandbox-cgroupfs": "k8s_POD_web-7d4b9c_shop_6c0d9f6e-2f1b-4d1c-9d5e-0a3b8f1e7c42_2",
    "sandbox-systemd": "k8s_POD_batch-0_default_0b6f3a52-77c1-4a0e-8f0d-1d2c3b4a5f60_0",
    "container-cgroupfs": "k8s_web_web-7d4b9c_shop_6c0d9f6e-2f1b-4d1c-9d5e-0a3b8f1e7c42_1",
    "container-systemd": "k8s_job_batch-0_default_0b6f3a52-77c1-4a0e-8f0d-1d2c3b4a5f60_0_1f2e",
}
SANDBOX_LABEL = '"io.kubernetes.docker.type":"podsandbox"'
CONTAINER_LABEL = '"io.kubernetes.sandbox.id":"s1"'


def golden(name: str) -> bytes:
    """A body as it comes."""
    return (DATA / f"{name}.json").read_bytes()


def creation(raw: bytes | str, name: str = "") -> CreateBody:
    """Of a body that is Kubernetes'."""
    found = read_create(raw.encode() if isinstance(raw, str) else raw, {"name": name})
    assert found is not None
    return found


def filled(found: CreateBody, pod: Pod | None = None) -> Any:
    """The message of it."""
    message = cri.RunPodSandboxRequest() if found.sandbox else cri.CreateContainerRequest()
    found.fill(message, pod)
    return message


class Story:
    """A body on its way through a chain: `after` is what to change."""

    def __init__(self, raw: bytes | str, name: str = "") -> None:
        self.raw = raw.encode() if isinstance(raw, str) else raw
        self.creation = creation(self.raw, name)
        self.before, self.after = filled(self.creation), filled(self.creation)

    def edited(self) -> EditedBody:
        return self.creation.edited(self.before, self.after)

    def text(self) -> str:
        return self.edited().body.decode()

    def document(self) -> Any:
        return json.loads(self.edited().body)


def container(**members: Any) -> Story:
    """A small body of a container."""
    labels = {"io.kubernetes.sandbox.id": "s1", **members.pop("Labels", {})}
    return Story(json.dumps({"Labels": labels, **members}))


# -- to CRI


def test_a_sandbox_becomes_a_pod() -> None:
    """With what CRI knows of it, and the handler's name."""
    message = filled(creation(golden("sandbox-cgroupfs"), NAMES["sandbox-cgroupfs"]))
    config = message.config
    assert message.runtime_handler == "docker"
    assert (config.metadata.name, config.metadata.namespace, config.metadata.attempt) == ("web-7d4b9c", "shop", 2)
    assert config.metadata.uid == "6c0d9f6e-2f1b-4d1c-9d5e-0a3b8f1e7c42"
    assert config.hostname == "web-7d4b9c"
    assert config.linux.cgroup_parent == "/kubepods/burstable/pod6c0d9f6e-2f1b-4d1c-9d5e-0a3b8f1e7c42"
    assert config.linux.resources == cri.LinuxContainerResources(cpu_shares=2, oom_score_adj=-998)
    assert dict(config.labels) == {
        "app": "web",
        "io.kubernetes.pod.name": "web-7d4b9c",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "6c0d9f6e-2f1b-4d1c-9d5e-0a3b8f1e7c42",
        "koordinator.sh/qosClass": "LS",
    }
    assert dict(config.annotations) == {
        "io.kubernetes.docker.type": "podsandbox",
        "kubernetes.io/config.seen": "2021-11-02T09:14:51.337186325Z",
        "kubernetes.io/config.source": "api",
        "team.example/notes": 'a<b & "c"',
    }


def test_a_container_becomes_a_container() -> None:
    """An entry of the environment without a value is not a variable."""
    message = filled(creation(golden("container-cgroupfs"), NAMES["container-cgroupfs"]))
    config = message.config
    assert message.pod_sandbox_id.startswith("3f1d0c6d")
    assert (config.metadata.name, config.metadata.attempt) == ("web", 1)
    assert config.image.image.startswith("sha256:")
    assert (list(config.command), list(config.args)) == (["/bin/server"], ["--listen", ":8080"])
    assert config.working_dir == "/srv"
    assert [(one.key, one.value) for one in config.envs] == [
        ("GREETING", b"hello & good-bye"),
        ("EMPTY", b""),
        ("KUBERNETES_SERVICE_HOST", b"10.96.0.1"),
        ("PÄTH", "ü".encode()),
    ]
    assert config.linux.resources == cri.LinuxContainerResources(
        cpu_period=100000, cpu_quota=100000, cpu_shares=512, memory_limit_in_bytes=268435456, oom_score_adj=968
    )
    assert "io.kubernetes.sandbox.id" not in config.labels
    assert config.annotations["io.kubernetes.container.hash"] == "8f3e1f0a"
    pod = message.sandbox_config
    assert (pod.metadata.name, pod.metadata.namespace, pod.metadata.attempt) == ("web-7d4b9c", "shop", 0)
    assert pod.linux.cgroup_parent == "/kubepods/burstable/pod6c0d9f6e-2f1b-4d1c-9d5e-0a3b8f1e7c42"


def test_a_slice_is_shown_as_a_path() -> None:
    """With systemd."""
    message = filled(creation(golden("container-systemd"), NAMES["container-systemd"]))
    name = "kubepods-besteffort-pod0b6f3a52_77c1_4a0e_8f0d_1d2c3b4a5f60.slice"
    parent = f"/kubepods.slice/kubepods-besteffort.slice/{name}"
    assert message.sandbox_config.linux.cgroup_parent == parent


def test_what_is_known_of_the_pod_is_told() -> None:
    """Docker's body has not all of it."""
    pod = Pod(id="s1", attempt=3, labels={"app": "x"}, annotations={"a": "b"})
    message = filled(creation(golden("container-cgroupfs")), pod)
    config = message.sandbox_config
    assert (config.metadata.attempt, dict(config.labels), dict(config.annotations)) == (3, {"app": "x"}, {"a": "b"})


def test_a_body_with_next_to_nothing() -> None:
    """Nothing is made up: parts that say nothing are not there."""
    message = filled(creation(f'{{"Labels":{{{CONTAINER_LABEL}}},"HostConfig":null,"Env":null,"Memory":null}}'))
    assert not message.config.HasField("linux")
    assert not message.sandbox_config.HasField("linux")
    sandbox = filled(creation(f'{{"Labels":{{{SANDBOX_LABEL}}}}}'))
    assert not sandbox.config.HasField("linux")


@pytest.mark.parametrize(
    "body",
    [
        golden("by-hand"),
        b"",
        b"\xff not json",
        b'{"Labels":null}',
        b'{"Labels":{"app":"io.kubernetes.docker.type"}}',
        b'{"Labels":{"io.kubernetes.pod.name":"x"}}',
        b'{"Env":["io.kubernetes.docker.type=podsandbox"],"x":"\\u0061"}',
        b'{"Labels":1,"labels":2}',
    ],
)
def test_nobodys_bodies_are_not_touched(body: bytes) -> None:
    """What `docker run` sends, and what dockerd will refuse without us."""
    assert read_create(body, {"name": "k8s_a_b_c_d_0"}) is None


def test_a_label_hidden_in_escapes_counts() -> None:
    """dockerd would find it, so we do."""
    assert read_create(b'{"labels":{"io\\u002ekubernetes.docker.type":"podsandbox"}}', {}) is not None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"Labels":{%s},"labels":{}}', "'Labels' is there 2 times"),
        ('{"Labels":{%s},"HostConfig":{},"hostconfig":{}}', "'HostConfig' is there 2 times"),
        ('{"Labels":{%s},"HostConfig":{"Memory":1,"memory":2}}', "'Memory' is there 2 times"),
        ('{"Labels":{%s},"HostConfig":[]}', "HostConfig is not an object"),
        ('{"Labels":{%s},"HostConfig":{"CgroupParent":1}}', "CgroupParent has a value that is not text"),
        ('{"Labels":{%s},"Env":{}}', "Env is not a list"),
        ('{"Labels":{%s},"Env":[1]}', "Env has a value that is not text"),
        ('{"Labels":{%s},"Cmd":3}', "Cmd is not a list"),
        ('{"Labels":{%s,"x":1}}', "Labels has a value that is not text"),
        ('{"Labels":{%s},"cpushares":2,"HostConfig":{}}', "CpuShares is not in HostConfig but beside it"),
        ('{"Labels":{%s},"Cpuset":"0","HostConfig":{}}', "Cpuset is not in HostConfig"),
        ('{"Labels":{%s}', "not JSON"),
        ('{"Labels":["io.kubernetes.docker.type"]}', "Labels is not an object"),
    ],
)
def test_what_nobody_can_answer_for_is_unreadable(body: str, why: str) -> None:
    """Interceptors decide what becomes of it."""
    with pytest.raises(UnreadableBodyError, match=why):
        read_create(body.replace("%s", CONTAINER_LABEL).encode(), {})


@pytest.mark.parametrize("member", ['"Binds":["/:/host"]', '"Memory":0', '"privileged":true', '"FromTheFuture":""'])
@pytest.mark.parametrize("host", ["", ',"HostConfig":null'])
def test_members_of_a_host_config_that_is_not_there(member: str, host: str) -> None:
    """dockerds up to 23 take them from the body itself, and none of them any more once there is a HostConfig."""
    with pytest.raises(UnreadableBodyError, match="it has no HostConfig and members that are not its own"):
        read_create(f'{{"Labels":{{{CONTAINER_LABEL}}},{member}{host}}}'.encode(), {})
    assert (
        read_create(f'{{"Labels":{{{CONTAINER_LABEL}}},"FromTheFuture":1,"HostConfig":{{}}}}'.encode(), {}) is not None
    )


def test_every_member_of_a_body_may_be_there_without_a_host_config() -> None:
    """Those of dockershim's bodies among them."""
    document = {key: value for key, value in json.loads(golden("container-cgroupfs")).items() if key != "HostConfig"}
    assert read_create(json.dumps(document).encode(), {}) is not None


@pytest.mark.parametrize("letter", sorted(set(LABEL_PREFIX)))
def test_letters_in_escapes_may_hide_a_label(letter: str) -> None:
    """Each of the prefix, in digits of either case."""
    for digits in (f"{ord(letter):04x}", f"{ord(letter):04X}"):
        hidden = LABEL_PREFIX.replace(letter, f"\\u{digits}")
        assert may_be_kubernetes(f'{{"Labels":{{"{hidden}docker.type":"podsandbox"}}}}'.encode())
        assert read_create(f'{{"Labels":{{"{hidden}docker.type":"podsandbox"}}}}'.encode(), {}) is not None


@pytest.mark.parametrize("text", ["a \\u0026\\u0026 b", "\\u003c\\u2028", "\\u1234", "io.kubernete", "\\u0041"])
def test_what_others_write_in_escapes_is_not_read(text: str) -> None:
    """Encoders of JSON write many things so; a body with a key twice shows that nobody looked."""
    raw = f'{{"Cmd":["{text}"],"Labels":1,"labels":2}}'.encode()
    assert not may_be_kubernetes(raw)
    assert read_create(raw, {}) is None


def test_a_body_that_is_too_large() -> None:
    """Of Kubernetes it is refused, everybody else's is not even looked at."""
    large = b'{"Labels":{"%b":"x"},"X":"%b"}' % (b"%b", b"x" * MOST)
    with pytest.raises(BodyTooLargeToReadError, match=str(MOST)):
        read_create(large % b"io.kubernetes.sandbox.id", {})
    assert read_create(large % b"app", {}) is None
    with pytest.raises(BodyTooLargeToReadError):
        image_named(large % b"app")


def test_a_label_key_with_half_a_character() -> None:
    """It is shown as Go reads it, and found again."""
    story = Story('{"Labels":{%s,"annotation.\\ud800":"1"}}' % CONTAINER_LABEL)  # noqa: UP031
    assert story.after.config.annotations["\ufffd"] == "1"
    story.after.config.annotations["\ufffd"] = "2"
    assert story.text() == '{"Labels":{%s,"annotation.\\ud800":"2"}}' % CONTAINER_LABEL  # noqa: UP031


# -- the image


def test_the_image_of_a_body() -> None:
    """Of anybody's; empty if there is none."""
    assert image_named(b'{"image":"busybox"}') == "busybox"
    assert image_named(b'{"Image":null}') == image_named(b"{}") == ""
    for body in (b'{"Image":"a","image":"b"}', b'{"Image":5}', b"[]"):
        with pytest.raises(UnreadableBodyError):
            image_named(body)


def test_labels_of_the_image_say_whose_it_is() -> None:
    """And nothing else: they are not the container's, which comes first."""
    inherited = {
        "io.kubernetes.sandbox.id": "s1",
        "io.kubernetes.pod.name": "forged",
        "io.kubernetes.pod.uid": "u1",
        "app": "x",
    }
    raw = b'{"Image":"i","Labels":{"io.kubernetes.pod.name":"own"}}'
    assert read_create(raw, {}) is None
    found = read_create(raw, {}, inherited)
    assert found is not None
    assert (found.identity.sandbox_id, found.identity.pod_name, found.identity.uid) == ("s1", "own", "u1")
    assert found.labels == {"io.kubernetes.pod.name": "own"}
    assert dict(filled(found).config.labels) == {"io.kubernetes.pod.name": "own"}
    assert read_create(b'{"Image":"i"}', {}, inherited) is not None
    assert read_create(b'{"Image":"i"}', {}, {"app": "x"}) is None


# -- and back


@pytest.mark.parametrize("name", NAMES)
def test_nothing_changed_is_the_same_object(name: str) -> None:
    """Not a byte is written."""
    story = Story(golden(name), NAMES[name])
    assert story.edited() == EditedBody(story.raw, ())
    assert story.edited().body is story.raw


def test_only_touched_members_change() -> None:
    """All other bytes stay: put back, the values give the body that came."""
    story = Story(golden("container-cgroupfs"))
    story.after.config.linux.resources.cpu_shares = 7
    story.after.config.linux.resources.cpuset_cpus = "0-3"
    text = story.text()
    assert text != story.raw.decode()
    back = text.replace('"CpuShares":7', '"CpuShares":512').replace('"CpusetCpus":"0-3"', '"CpusetCpus":""')
    assert back == story.raw.decode()


def test_labels_and_annotations_are_labels() -> None:
    """Annotations with their prefix; what is shown and not there is not written."""
    story = Story(golden("sandbox-cgroupfs"))
    story.after.config.labels["app"] = "shop"
    story.after.config.annotations["new/one"] = 'say "ü"'
    del story.after.config.annotations["kubernetes.io/config.source"]
    before, after = json.loads(story.raw)["Labels"], story.document()["Labels"]
    del before["annotation.kubernetes.io/config.source"]
    assert after == before | {"app": "shop", "annotation.new/one": 'say "ü"'}


def test_labels_where_there_were_none() -> None:
    """A map is there or made; only the label that makes it Kubernetes' has to be."""
    story = container()
    story.after.config.annotations["a"] = "b"
    assert story.document() == {"Labels": {"io.kubernetes.sandbox.id": "s1", "annotation.a": "b"}}


def test_resources_where_there_was_no_host_config() -> None:
    """In the place of null, or as a new member."""
    for story in (container(HostConfig=None), container()):
        story.after.config.linux.resources.cpu_shares = 3
        story.after.sandbox_config.linux.cgroup_parent = "/a.slice/a-b.slice"
        assert story.document()["HostConfig"] == {"CpuShares": 3, "CgroupParent": "a-b.slice"}


@pytest.mark.parametrize(
    ("name", "new", "written"),
    [
        ("sandbox-cgroupfs", "/kubepods/other", "/kubepods/other"),
        ("sandbox-systemd", "/kubepods.slice/kubepods-other.slice", "kubepods-other.slice"),
        ("container-systemd", "", ""),
    ],
)
def test_cgroup_parents_keep_their_form(name: str, new: str, written: str) -> None:
    """dockerd's driver knows one of them."""
    story = Story(golden(name))
    where = story.after.config if story.creation.sandbox else story.after.sandbox_config
    where.linux.cgroup_parent = new
    assert story.document()["HostConfig"]["CgroupParent"] == written


def test_what_docker_has_no_word_for_is_named() -> None:
    """The rest is written."""
    story = container()
    story.after.config.linux.resources.unified["memory.high"] = "1"
    story.after.config.linux.resources.cpu_shares = 3
    assert story.edited().without_effect == ("unified",)
    assert story.document()["HostConfig"] == {"CpuShares": 3}


# -- the process


def test_variables_change_in_their_places() -> None:
    """New ones come last; what is not a variable, and the spelling of others, stay."""
    story = Story('{"Labels":{%s},"Env":[ "A=1" , "UNSET","B=\\u0041","C=3" ]}' % CONTAINER_LABEL)  # noqa: UP031
    envs = story.after.config.envs
    envs[0].value = "ü=x".encode()
    del envs[2]
    envs.add(key="D", value=b"\xff")
    assert '"Env":[ "A=ü=x" , "UNSET","B=\\u0041","D=\ufffd" ]' in story.text()


def test_variables_in_another_order() -> None:
    """Whatever the chain makes of the list is what Docker gets, in that order."""
    story = container(Env=["A=1", "B=2", "U", "A=3"])
    wanted = [("B", b"2"), ("A", b"3"), ("A", b"1")]
    del story.after.config.envs[:]
    for key, value in wanted:
        story.after.config.envs.add(key=key, value=value)
    entries = story.document()["Env"]
    assert [one for one in entries if "=" in one] == ["B=2", "A=3", "A=1"]
    assert "U" in entries


def test_variables_that_only_come() -> None:
    """The usual change: nothing else is touched."""
    story = Story('{"Labels":{%s},"Env":[ "A=1" , "UNSET" , "" ] }' % CONTAINER_LABEL)  # noqa: UP031
    story.after.config.envs.add(key="B", value=b"2")
    assert '"Env":[ "A=1" , "UNSET" , "","B=2" ] }' in story.text()


def test_edits_do_not_add_up() -> None:
    """A body is read once, and can be edited more than once."""
    story = container(Env=["A=1"])
    story.after.config.envs[0].value = b"2"
    assert story.text() == story.text()
    del story.after.config.envs[:]
    assert story.document()["Env"] == []


def test_all_variables_go() -> None:
    """What was to be taken from the image still is."""
    story = container(Env=["A=1", "U"])
    del story.after.config.envs[:]
    assert story.document()["Env"] == ["U"]


@pytest.mark.parametrize("members", [{}, {"Env": None}, {"Env": []}])
def test_variables_where_there_were_none(members: dict[str, Any]) -> None:
    """Null, missing or empty."""
    story = container(**members)
    story.after.config.envs.add(key="A", value=b"1")
    assert story.document()["Env"] == ["A=1"]


def test_a_command_that_is_replaced() -> None:
    """Nothing left is null: an empty list would take the image's own away."""
    story = container(Entrypoint="/bin/tool isolate", Cmd=["--pool", "x", "--", "sleep", "1"])
    assert list(story.after.config.command) == ["/bin/tool isolate"]
    del story.after.config.command[:], story.after.config.args[:]
    story.after.config.command.extend(["sleep", "ü"])
    document = story.document()
    assert (document["Entrypoint"], document["Cmd"]) == (["sleep", "ü"], None)


# -- what was sent, where it is not what was asked for


def test_what_was_sent_is_kept_in_a_label() -> None:
    """Docker would show only what a container has later."""
    story = Story(golden("container-cgroupfs"))
    story.after.config.linux.resources.cpu_shares = 7
    story.after.config.annotations[ANNOTATION] = '{"cpu_shares":512}'
    labels = story.document()["Labels"]
    assert labels["annotation.interpose/requested"] == '{"cpu_shares":512}'
    assert json.loads(labels[CREATED]) == {
        "cpu_period": 100000,
        "cpu_quota": 100000,
        "cpu_shares": 7,
        "memory_limit_in_bytes": 268435456,
        "oom_score_adj": 968,
    }


def test_a_callers_own_note_is_not_believed() -> None:
    """It goes, and is never shown."""
    story = container(Labels={CREATED: '{"cpu_shares":1}', "app": "x"})
    assert "interpose/created" not in story.after.config.annotations
    assert story.document()["Labels"] == {"io.kubernetes.sandbox.id": "s1", "app": "x"}


def test_a_pod_has_no_such_note() -> None:
    """What is requested of it cannot change later."""
    story = Story(golden("sandbox-cgroupfs"))
    story.after.config.annotations[ANNOTATION] = '{"cgroup_parent":"/x"}'
    assert CREATED not in story.document()["Labels"]
