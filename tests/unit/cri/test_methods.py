"""The method table against the wire table of the interface, and the lookup by path."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interpose.cri.methods import METHODS, Carries, Concern, Method, method_of_path

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data/wire/cri-v1.json").read_text())
MESSAGES: dict[str, list[tuple[int, str, str]]] = TABLE["messages"]
WIRE_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    row["rpc"]: (service, row) for service, rows in TABLE["services"].items() for row in rows
}

CONFIGURATIONS = {"PodSandboxConfig", "ContainerConfig", "RuntimeConfig"}
RESOURCES = {"LinuxContainerResources", "WindowsContainerResources"}
IDS = {"pod_sandbox_id", "container_id", "container_ids"}
# What makes a message secret: by type, and by name where the type is only text.
SECRET_TYPES = {"AuthConfig", "KeyValue"}
SECRET_FIELDS = {"info", "cmd", "url", "stdout", "stderr"}


def element(spelling: str) -> str:
    """The message or scalar a field is made of."""
    return spelling.removeprefix("repeated ")


def reachable(message: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """(field name, element type) of a message and all messages inside it."""
    seen.add(message)
    for _, name, spelling in MESSAGES[message]:
        kind = element(spelling)
        yield name, kind
        if kind in MESSAGES and kind not in seen:
            yield from reachable(kind, seen)


def expected_carries(request: str) -> Carries:
    """What the fields of a request say it carries."""
    carries = Carries.NOTHING
    for _, name, spelling in MESSAGES[request]:
        kind = element(spelling)
        if name in IDS or kind == "ImageSpec":
            carries |= Carries.ID
        if kind in CONFIGURATIONS:
            carries |= Carries.CFG
        if kind in RESOURCES:
            carries |= Carries.RES
        if name == "filter":
            carries |= Carries.FLT
    return carries


def test_names_are_unique_across_services() -> None:
    """A method name alone tells the service: the table is keyed by name, and no row of the wire is lost by it."""
    counts = Counter(row["rpc"] for rows in TABLE["services"].values() for row in rows)
    assert [name for name, count in counts.items() if count > 1] == []


def test_same_methods_on_both_sides_in_order() -> None:
    """No method of the interface is missing, none is invented, and the order is that of the wire table."""
    assert list(METHODS) == list(WIRE_METHODS)


@pytest.mark.parametrize("name", WIRE_METHODS)
def test_row_agrees_with_the_wire(name: str) -> None:
    """Service, messages and streaming are those of the wire table."""
    service, row = WIRE_METHODS[name]
    method = METHODS[name]
    assert (method.service, method.name) == (service, name)
    assert (method.request, method.response) == (row["request"], row["response"])
    assert method.server_streaming == row.get("server_streaming", False)


@pytest.mark.parametrize("name", WIRE_METHODS)
def test_row_says_what_the_request_carries(name: str) -> None:
    """`carries` follows from the fields of the request."""
    assert METHODS[name].carries == expected_carries(METHODS[name].request)


@pytest.mark.parametrize("name", WIRE_METHODS)
def test_row_says_whether_secrets_may_pass(name: str) -> None:
    """`secrets` is set exactly when a message of the call can hold credentials, envs, commands, URLs or `info`."""
    method = METHODS[name]
    # The stdout and stderr of Exec and Attach are switches; those calls are secret by their URL anyway.
    fields = [field for message in (method.request, method.response) for field in reachable(message, set())]
    assert method.secrets == any(field in SECRET_FIELDS or kind in SECRET_TYPES for field, kind in fields)


def test_who_creates_changes_and_removes() -> None:
    """Every call that a keeper of pods and containers must not miss has its own concern."""
    expected = {
        Concern.POD_CREATE: ["RunPodSandbox"],
        Concern.POD_STOP: ["StopPodSandbox"],
        Concern.POD_REMOVE: ["RemovePodSandbox"],
        Concern.POD_UPDATE: ["UpdatePodSandboxResources"],
        Concern.CONTAINER_CREATE: ["CreateContainer"],
        Concern.CONTAINER_START: ["StartContainer"],
        Concern.CONTAINER_STOP: ["StopContainer"],
        Concern.CONTAINER_REMOVE: ["RemoveContainer"],
        Concern.CONTAINER_UPDATE: ["UpdateContainerResources"],
        Concern.RESTORE_POD: ["RestorePod"],
        Concern.CHECKPOINT: ["CheckpointContainer", "CheckpointPod"],
        Concern.EVENTS: ["GetContainerEvents"],
    }
    actual = {concern: [m.name for m in METHODS.values() if m.concern is concern] for concern in expected}
    assert actual == expected


def test_whole_configurations_arrive_with_known_concerns() -> None:
    """A new method that brings a pod's or container's configuration cannot hide behind a harmless concern."""
    bringers = {name for name, method in METHODS.items() if Carries.CFG in method.carries}
    assert bringers == {"RunPodSandbox", "CreateContainer", "RestorePod", "PullImage", "UpdateRuntimeConfig"}


@pytest.mark.parametrize("version", ["runtime.v1", "runtime.v1alpha2"])
@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: str(method.name))
def test_lookup_by_path(version: str, method: Method) -> None:
    """Either API version leads to the same row."""
    path = f"/{version}.{method.service}/{method.name}"
    assert path in method.paths
    assert method_of_path(path.encode()) is method


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"/runtime.v1.RuntimeService/",
        b"/runtime.v1.RuntimeService/Unheard",
        b"/runtime.v1.ImageService/Version",
        b"/runtime.v2.RuntimeService/Version",
        b"runtime.v1.RuntimeService/Version",
        b"/runtime.v1.RuntimeService/version",
        b"/runtime.v1.RuntimeService/Version/",
        b"/\xff\xfe",
    ],
)
def test_unknown_paths_have_no_row(path: bytes) -> None:
    """What is not a CRI method is nobody's business: no row, no exception."""
    assert method_of_path(path) is None


def test_tables_cannot_be_changed() -> None:
    """Nobody can add to the table or edit a row at run time."""
    with pytest.raises(TypeError):
        METHODS["Version"] = METHODS["Status"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        METHODS["Version"].secrets = True  # type: ignore[misc]


def test_table_needs_no_message_classes() -> None:
    """Reading the table loads neither protobuf nor the generated classes: a pass-through relay stays small."""
    code = "import sys, interpose.cri.methods; print(sorted(m for m in sys.modules if 'google' in m or '_pb2' in m))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
