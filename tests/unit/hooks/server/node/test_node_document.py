"""Documents about the node: the three forms, defaults, and every mistake named."""

from pathlib import Path

import pytest

from interpose.config.documents.yaml import DocumentNode, parse_document, read_document
from interpose.core.model.qos import QosClass
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import NodeDocument, is_node_document, node_form, parse_node_document
from interpose.hooks.server.node.nodeslo import NEUTRAL_CPU, CpuPolicy, CpuQos, HostApplication, NodeSLO, SuppressPolicy

SAMPLES = Path(__file__).resolve().parents[5] / "samples/nodeslo"
HEADER = "apiVersion: slo.koordinator.sh/v1alpha1\nkind: NodeSLO\n"
STATE = "apiVersion: interpose/v1\nkind: NodeState\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where documents are."""
    return tmp_path


def parse(folder: Path, text: str, name: str = "slo.yaml") -> NodeDocument:
    """Read a document from a file."""
    path = folder / name
    path.write_text(text)
    return parse_node_document(read_document(str(path)), name)


def slo(folder: Path, spec: str) -> NodeSLO:
    """The policy of a bare spec."""
    found = parse(folder, spec).slo
    assert found is not None
    return found


def problems(folder: Path, text: str, name: str = "slo.yaml") -> list[str]:
    """Everything that is wrong with a document."""
    with pytest.raises(ConfigError) as caught:
        parse(folder, text, name)
    return caught.value.problems


def cpu_class(name: str, *lines: str) -> str:
    """A spec with one class and these lines of its cpuQOS."""
    return "\n".join(
        ["resourceQOSStrategy:", f"  {name}:", "    cpuQOS:", *(f"      {line}" for line in lines or ("{}",))]
    )


# -- forms


def test_a_nodeslo_object_and_its_bare_spec_say_the_same(folder: Path) -> None:
    """Whoever writes one by hand may leave the wrapping out."""
    spec = cpu_class("lsClass", "enable: true")
    wrapped = (
        HEADER
        + "metadata: {name: n, labels: {a: b}}\nstatus: {x: y}\nspec:\n"
        + spec.replace("resource", "  resource", 1).replace("\n", "\n  ")
    )
    assert parse(folder, wrapped) == parse(folder, spec)
    assert slo(folder, spec).ls.enable


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (HEADER, True),
        (STATE, True),
        ("resourceQOSStrategy: {}", True),
        ("kind: ConfigMap", False),
        ("policy: {}", False),
    ],
)
def test_what_wants_to_be_one(text: str, is_one: bool) -> None:
    """By its kind, or by the keys of a bare spec."""
    assert is_node_document(parse_document(text, "a text")) is is_one


def test_schema_has_the_three_forms() -> None:
    """Each with a key that only it has."""
    forms = [set(one["properties"]) for one in node_form()["anyOf"]]
    assert ["spec" in one for one in forms] == [True, False, False]
    assert ["nodeSLO" in one for one in forms] == [False, True, False]
    assert ["resourceQOSStrategy" in one for one in forms] == [False, False, True]


def test_a_node_state_has_everything(folder: Path) -> None:
    """Policy, labels and annotations of the node, annotations of its topology."""
    document = parse_node_document(read_document(str(SAMPLES / "node-state.json")), "f")
    assert document.slo is not None
    assert (document.slo.ls.group_identity, document.slo.be.group_identity) == (2, -1)
    assert document.name == "node-1"
    assert document.labels == {"kubernetes.io/arch": "amd64"}
    assert document.annotations["node.koordinator.sh/cpu-normalization-ratio"] == "1.20"
    assert document.topology_annotations == {"kubelet.koordinator.sh/cpu-manager-policy": '{"policy":"none"}'}


def test_a_node_state_without_a_nodeslo_has_none(folder: Path) -> None:
    """Null and absent alike: the node is known, its policy is not yet."""
    assert parse(folder, STATE + "nodeSLO: null\nnode: {name: n}\n") == NodeDocument(name="n")
    assert parse(folder, STATE) == NodeDocument()


def test_an_object_without_a_spec_switches_nothing_on(folder: Path) -> None:
    """It is a policy all the same."""
    assert parse(folder, HEADER) == NodeDocument(slo=NodeSLO())
    assert parse(folder, HEADER + "spec:\n") == NodeDocument(slo=NodeSLO())
    assert parse(folder, "{}") == NodeDocument(slo=NodeSLO())


@pytest.mark.parametrize("name", ["colocation.yaml", "off.yaml", "node-state.json"])
def test_the_samples_can_be_used(name: str) -> None:
    """All of them are whole."""
    assert parse_node_document(read_document(str(SAMPLES / name)), name).slo is not None


def test_the_samples_say_what_their_names_say() -> None:
    """One switches classes on, the other everything off."""
    on = parse_node_document(read_document(str(SAMPLES / "colocation.yaml")), "f").slo
    assert on == NodeSLO(
        lsr=CpuQos(enable=True, group_identity=2, core_expeller=True),
        ls=CpuQos(enable=True, group_identity=2, core_expeller=True),
        be=CpuQos(enable=True, group_identity=-1),
        suppress_enabled=True,
        host_applications=(
            HostApplication(name="nginx", qos=QosClass.LS, base="CgroupRoot", directory="host-latency-sensitive/nginx"),
        ),
    )
    assert parse_node_document(read_document(str(SAMPLES / "off.yaml")), "f").slo == NodeSLO()


def test_a_label_that_is_null_is_absent(folder: Path) -> None:
    """As everything that is null."""
    assert parse(folder, STATE + "node: {labels: {a: null, b: ''}}").labels == {"b": ""}


# -- values


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lsrClass", CpuQos(enable=True, group_identity=2, core_expeller=True)),
        ("lsClass", CpuQos(enable=True, group_identity=2, core_expeller=True)),
        ("beClass", CpuQos(enable=True, group_identity=-1)),
    ],
)
def test_a_class_that_is_only_switched_on_has_its_defaults(folder: Path, name: str, expected: CpuQos) -> None:
    """As in Koordinator."""
    assert getattr(slo(folder, cpu_class(name, "enable: true")), name.removesuffix("Class")) == expected


@pytest.mark.parametrize("lines", [("enable: false", "groupIdentity: 2"), ("groupIdentity: 2",), ("enable: null",), ()])
def test_a_class_that_is_off_is_neutral_whatever_it_says(folder: Path, lines: tuple[str, ...]) -> None:
    """So nobody who reads a value has to ask first."""
    assert slo(folder, cpu_class("lsClass", *lines)).ls == NEUTRAL_CPU


def test_what_a_class_says_beats_its_defaults(folder: Path) -> None:
    """Zero and false are said, null is not."""
    said = cpu_class("lsClass", "enable: true", "groupIdentity: 0", "schedIdle: 1", "coreExpeller: false")
    assert slo(folder, said).ls == CpuQos(enable=True, group_identity=0, sched_idle=1, core_expeller=False)
    unsaid = cpu_class("beClass", "enable: yes", "groupIdentity: null", "coreExpeller: true")
    assert slo(folder, unsaid).be == CpuQos(enable=True, group_identity=-1, core_expeller=True)


def test_policies_are_read_and_have_defaults(folder: Path) -> None:
    """Empty text is as good as absent."""
    spec = "resourceQOSStrategy: {policies: {cpuPolicy: %s}}\nresourceUsedThresholdWithBE: {cpuSuppressPolicy: %s}\n"
    chosen = slo(folder, spec % ("coreSched", "cfsQuota"))
    assert (chosen.cpu_policy, chosen.suppress_policy) == (CpuPolicy.CORE_SCHED, SuppressPolicy.CFS_QUOTA)
    default = slo(folder, spec % ('""', '""'))
    assert (default.cpu_policy, default.suppress_policy) == (CpuPolicy.GROUP_IDENTITY, SuppressPolicy.CPUSET)
    assert not default.suppress_enabled
    assert slo(folder, "resourceUsedThresholdWithBE: {enable: true}").suppress_enabled


def test_parts_of_others_are_not_looked_into(folder: Path) -> None:
    """Whatever they hold."""
    spec = """
resourceQOSStrategy:
  policies: {netQOSPolicy: tc}
  lsClass: {memoryQOS: {x: [1]}, blkioQOS: 3, resctrlQOS: text, networkQOS: {ingressLimit: 5M}}
  systemClass: {cpuQOS: {enable: true, groupIdentity: 0}}
  cgroupRoot: {blkioQOS: {enable: false}}
cpuBurstStrategy: {policy: auto}
systemStrategy: {totalNetworkBandwidth: "0"}
extensions: {anything: {at: all}}
resourceUsedThresholdWithBE: {cpuSuppressThresholdPercent: 65, cpuEvictPolicy: evictByRealLimit, brandNewPercent: 1}
"""
    assert slo(folder, spec) == NodeSLO()


# -- host applications


@pytest.mark.parametrize(
    ("application", "base", "directory"),
    [
        ("{name: a, qos: LSE}", "CgroupRoot", "host-latency-sensitive/a"),
        ("{name: a, qos: LSR}", "CgroupRoot", "host-latency-sensitive/a"),
        ("{name: a, qos: LS, priority: koord-prod}", "CgroupRoot", "host-latency-sensitive/a"),
        ("{name: a, qos: BE, strategy: {x: 1}}", "CgroupRoot", "host-best-effort/a"),
        ("{name: a, qos: SYSTEM}", "CgroupRoot", "a"),
        ("{name: a, qos: ''}", "CgroupRoot", "a"),
        ("{name: a, cgroupPath: null}", "CgroupRoot", "a"),
        ("{name: a, qos: LS, cgroupPath: {parentDir: x/, relativePath: y/}}", "CgroupRoot", "x/y"),
        ("{name: a, qos: LS, cgroupPath: {base: '', relativePath: //x//./y}}", "CgroupRoot", "x/y"),
        ("{name: a, qos: BE, cgroupPath: {base: KubepodsBesteffort, relativePath: y}}", "KubepodsBesteffort", "y"),
        ("{name: a, cgroupPath: {base: Kubepods, parentDir: /p}}", "Kubepods", "p"),
    ],
)
def test_host_applications_have_a_directory(folder: Path, application: str, base: str, directory: str) -> None:
    """Their own, or one by their class."""
    (found,) = slo(folder, f"hostApplications: [{application}]").host_applications
    assert (found.name, found.base, found.directory) == ("a", base, directory)


@pytest.mark.parametrize(
    ("application", "said"),
    [
        ("{name: a, cgroupPath: {}}", "'/' is not a directory of its own"),
        (
            "{name: a, cgroupPath: {base: CgroupRoot, parentDir: /, relativePath: .}}",
            "'//.' is not a directory of its own",
        ),
        ("{name: a, cgroupPath: {base: Kubepods}}", "'/' is not a directory of its own"),
        ("{name: a, cgroupPath: {relativePath: x/../..}}", "'..' in its directory '/x/../..' is not allowed"),
        ("{name: .., qos: LS}", "'..' in its directory '..' is not allowed"),
        ("{name: ., qos: LS}", "'.' is not a directory of its own"),
        ('{name: "a\\0b"}', "'a\\x00b' in its directory 'a\\x00b' is not allowed"),
        (f"{{name: {'n' * 256}}}", "is not allowed"),
        ("{name: ''}", "name is empty"),
    ],
)
def test_host_applications_never_mean_everything(folder: Path, application: str, said: str) -> None:
    """The root, a directory of pods, or one outside would hit processes that are none of theirs."""
    (problem,) = problems(folder, f"hostApplications: [{application}]")
    assert problem.startswith("file slo.yaml line 1: hostApplications[0]: ")
    assert said in problem
    assert problem.isprintable()


def test_two_host_applications_cannot_have_one_directory(folder: Path) -> None:
    """They would want different things of it. The same path below another base is another directory."""
    spec = "hostApplications:\n- {name: a, cgroupPath: {base: %s, relativePath: x}}\n- {name: x}\n"
    assert problems(folder, spec % "CgroupRoot") == [
        "file slo.yaml line 1: hostApplications: 'a' and 'x' have one directory, 'x'"
    ]
    assert len(slo(folder, spec % "Kubepods").host_applications) == 2


# -- mistakes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("groupIdentity: 5", "groupIdentity: expected a number from -1 to 2, found '5'"),
        ("groupIdentity: -2", "groupIdentity: expected a number from -1 to 2, found '-2'"),
        ("groupIdentity: '2'", "groupIdentity: expected a number from -1 to 2, found text ('2')"),
        ("groupIdentity: 1.5", "groupIdentity: expected a number from -1 to 2, found a number with a fraction ('1.5')"),
        ("groupIdentity: 0x1", "groupIdentity: expected a number from -1 to 2, found '0x1'"),
        ("groupIdentity: [1]", "groupIdentity: expected a number from -1 to 2, found a list"),
        ("groupIdentity: {a: 1}", "groupIdentity: expected a number from -1 to 2, found a group of keys"),
        ("schedIdle: 2", "schedIdle: expected a number from 0 to 1, found '2'"),
        ("enable: 'true'", "enable: expected true or false, found text ('true')"),
        ("coreExpeller: 1", "coreExpeller: expected true or false, found a number ('1')"),
        ("groupidentity: 1", "groupidentity: is not a known key, did you mean groupIdentity?"),
        ("groupIdentiy: 1", "groupIdentiy: is not a known key, did you mean groupIdentity?"),
        ("color: red", "color: is not a known key"),
    ],
)
@pytest.mark.parametrize("name", ["lsrClass", "lsClass", "beClass", "systemClass"])
def test_a_bad_value_is_named_with_its_place(folder: Path, name: str, line: str, said: str) -> None:
    """In every class, switched on or not."""
    where = f"file slo.yaml line 4: resourceQOSStrategy.{name}.cpuQOS"
    assert problems(folder, cpu_class(name, line)) == [f"{where}.{said}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "line 1: expected a group of keys, found text ('hello')"),
        ("[1]", "line 1: expected a group of keys, found a list"),
        ("~", "line 1: expected a group of keys, found nothing"),
        ("spec: {}", "line 1: kind: is missing"),
        (HEADER + "spec: 3", "line 3: spec: expected a group of keys, found a number ('3')"),
        (HEADER + "spec: {a: 1}", "line 3: spec.a: is not a known key"),
        (HEADER + "Spec: {}", "line 3: Spec: is not a known key, did you mean spec?"),
        ("apiVersion: v1\nkind: NodeSLO\n", "line 1: apiVersion: expected slo.koordinator.sh/v1alpha1, found 'v1'"),
        (
            "apiVersion: slo.koordinator.sh/v1alpha1\nkind: ConfigMap\n",
            "line 2: kind: expected NodeSLO, found 'ConfigMap'",
        ),
        ("apiVersion: ''\nkind: NodeSLO\n", "line 1: apiVersion: expected slo.koordinator.sh/v1alpha1, found ''"),
        ("apiVersion: null\nkind: NodeSLO\n", "line 1: apiVersion: is missing"),
        ("kind: NodeState\n", "line 1: apiVersion: is missing"),
        (STATE + "node: {labels: {a: 1}}", "line 3: node.labels['a']: expected text in quotes, found a number ('1')"),
        (STATE + "node: {labels: {a: x, a: y}}", "line 3: node.labels['a']: is given twice"),
        (STATE + "node: {labels: [a]}", "line 3: node.labels: expected a group of keys, found a list"),
        (STATE + "node: {name: 7}", "line 3: node.name: expected text, found a number ('7')"),
        (STATE + "nodeSLO: {spec: {}}", "line 3: nodeSLO.kind: is missing"),
        ("hostApplications: {}", "line 1: hostApplications: expected a list, found a group of keys"),
        ("hostApplications: [null]", "line 1: hostApplications[0]: expected a group of keys, found nothing"),
        ("hostApplications: [{qos: LS}]", "line 1: hostApplications[0].name: is missing"),
        (
            "hostApplications: [{name: a, qos: ls}]",
            "line 1: hostApplications[0].qos: expected LSE or LSR or LS or BE or SYSTEM, found 'ls'",
        ),
        ("extensions: {}\nextensions: {}", "line 2: extensions: is given twice, first in line 1"),
        ("cpuBurstStrateg: {}", "line 1: cpuBurstStrateg: is not a known key, did you mean cpuBurstStrategy?"),
        ('"a\\nb": 1', "line 1: 'a\\nb': is not a known key"),
        ("k" * 300 + ": 1", "is not a known key"),
        ('"": 1', "line 1: '': is not a known key"),
        (
            "resourceUsedThresholdWithBE: {Enable: true}",
            "line 1: resourceUsedThresholdWithBE.Enable: is not a known key, did you mean enable?",
        ),
        (
            "resourceUsedThresholdWithBE: {cpuSupressPolicy: x}",
            "resourceUsedThresholdWithBE.cpuSupressPolicy: is not a known key, did you mean cpuSuppressPolicy?",
        ),
        (
            "resourceUsedThresholdWithBE: {cpuSuppressPolicy: quota}",
            "resourceUsedThresholdWithBE.cpuSuppressPolicy: expected cpuset or cfsQuota, found 'quota'",
        ),
    ],
)
def test_mistakes_are_named(folder: Path, text: str, said: str) -> None:
    """File, line, key and value, short and on one line."""
    found = problems(folder, text)
    assert any(said in problem for problem in found), found
    assert all(problem.startswith("file slo.yaml") and problem.isprintable() for problem in found)
    assert all(len(problem) < 500 for problem in found)


def test_all_mistakes_are_named_at_once(folder: Path) -> None:
    """Nobody has to come back for each of them."""
    text = STATE + (
        "nodeSLO:\n  apiVersion: slo.koordinator.sh/v1alpha1\n  kind: NodeSLO\n  spec:\n"
        "    resourceQOSStrategy:\n      beClass:\n        cpuQOS:\n"
        "          enable: maybe\n          groupIdentity: 9\n"
        "node:\n  nam: x\n"
    )
    where = "nodeSLO.spec.resourceQOSStrategy.beClass.cpuQOS"
    assert problems(folder, text) == [
        f"file slo.yaml line 10: {where}.enable: expected true or false, found text ('maybe')",
        f"file slo.yaml line 11: {where}.groupIdentity: expected a number from -1 to 2, found '9'",
        "file slo.yaml line 13: node.nam: is not a known key, did you mean name?",
    ]


def test_a_file_full_of_mistakes_is_not_repeated_whole(folder: Path) -> None:
    """What is left out is counted."""
    found = problems(folder, "".join(f"x{number}: 1\n" for number in range(60)))
    assert len(found) == 51
    assert found[-1] == "file slo.yaml: and 10 problems more"


def test_json_has_lines_too(folder: Path) -> None:
    """Of the key that is wrong."""
    text = '{\n "resourceQOSStrategy": {\n  "policies": {"cpuPolicy": "x"}}}'
    assert problems(folder, text, "slo.json") == [
        "file slo.json line 3: resourceQOSStrategy.policies.cpuPolicy: expected groupIdentity or coreSched, found 'x'"
    ]


def test_a_document_without_lines_is_named_without_them() -> None:
    """Not every reader knows them."""
    twice = tuple(("extensions", DocumentNode(tag="map")) for _ in range(2))
    with pytest.raises(ConfigError) as caught:
        parse_node_document(DocumentNode(tag="map", entries=twice), "f")
    assert caught.value.problems == ["file f: extensions: is given twice"]
