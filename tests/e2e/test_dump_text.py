"""The message dumper of cri-resmgr in front of a real containerd: what its file holds, line by line."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from interpose._pb import cri_pb2 as cri
from tests.support.lab.cri import CriClient
from tests.support.lab.dumps import LIFE, live
from tests.support.lab.pods import LabPod
from tests.support.lab.policy_pods import CriResmgr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.support.lab.containerd import Containerd

pytestmark = pytest.mark.e2e

SECRETS = ("env-s3cr3t", "registry-s3cr3t", "annotation-s3cr3t", "metadata-s3cr3t", "output-42424242")
ENV, REGISTRY, ANNOTATION, METADATA, _OUTPUT = SECRETS
# The command line itself is no secret.
WRITES = ("sh", "-c", "echo output-$((4242 * 10001))")

WALL = r"\d{4}-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d\.\d{3}"
LATENCY = r" *\+\d+\.\d{6}"
LINE = re.compile(rf"\[(?=.{{24}}\])(?:(?P<wall>{WALL})|(?P<latency>{LATENCY}))\](?P<text> .*)")
KIND = r"\((?P<kind>passthrough|intercepted|originated by \w+)\)"
REQUEST = re.compile(rf" {KIND} REQUEST (?P<name>\w+)(?: => (?P<body>.*))?")
REPLY = re.compile(rf" {KIND} REPLY (?P<name>\w+)(?: <= (?P<body>.*))? \((?P<size>\d+) bytes as yaml\)")
FAILED = re.compile(rf" {KIND} FAILED (?P<name>\w+)")


@dataclass(kw_only=True)
class Block:
    """A message of the dump: its head and the lines below it."""

    form: str
    kind: str
    name: str
    stamp: str
    size: int | None
    lines: list[str]

    @property
    def tree(self) -> Any:
        """What the YAML says."""
        return yaml.safe_load("\n".join(self.lines))


@dataclass(frozen=True, kw_only=True)
class Dumped:
    """A call of the dump."""

    kind: str
    name: str
    request: Any
    reply: Any  # None: it failed
    error: str
    seconds: float


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a dump file; an assertion fails at the first line that does not belong there."""
    assert text.endswith("\n")
    block: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        parts = LINE.fullmatch(line)
        assert parts, f"line {number} has no stamp: {line!r}"
        found = next((one for form in (REQUEST, REPLY, FAILED) if (one := form.fullmatch(parts["text"]))), None)
        stamp = parts["wall"] or parts["latency"]
        if found is None:
            assert block is not None, f"line {number} begins in the middle: {line!r}"
            lead = {
                "REQUEST": f"    {block.name} => ",
                "REPLY": f"    {block.name} <= ",
                "FAILED": f"  {block.name} <= ",
            }
            assert parts["text"].startswith(lead[block.form]), f"line {number} is not of {block.name}: {line!r}"
            assert stamp == block.stamp
            block.lines.append(parts["text"].removeprefix(lead[block.form]))
            continue
        if block is not None:
            yield block
        values = found.groupdict()
        form = {REQUEST: "REQUEST", REPLY: "REPLY", FAILED: "FAILED"}[found.re]
        assert bool(parts["wall"]) == (form == "REQUEST"), f"line {number} has the stamp of another kind: {line!r}"
        block = Block(
            form=form,
            kind=values["kind"],
            name=values["name"],
            stamp=stamp,
            size=int(values["size"]) if values.get("size") else None,
            lines=[] if values.get("body") is None else [values["body"]],
        )
    if block is not None:
        yield block


def dumped(text: str) -> list[Dumped]:
    """The calls of a dump file, each with its request and what came of it."""
    open_calls: defaultdict[tuple[str, str], list[Block]] = defaultdict(list)
    calls = []
    for block in blocks(text):
        assert block.lines, f"{block} has no body"
        if block.form == "REQUEST":
            datetime.strptime(block.stamp, "%Y-%b-%d %H:%M:%S.%f")  # noqa: DTZ007 - only whether it is one
            open_calls[block.kind, block.name].append(block)
            continue
        request = open_calls[block.kind, block.name].pop(0)
        if block.form == "REPLY":
            assert block.size == len("".join(f"{line}\n" for line in block.lines).encode())
        calls.append(
            Dumped(
                kind=block.kind,
                name=block.name,
                request=request.tree,
                reply=block.tree if block.form == "REPLY" else None,
                error="" if block.form == "REPLY" else "\n".join(block.lines),
                seconds=float(block.stamp),
            )
        )
    assert not any(open_calls.values()), "calls without an end"
    return calls


def only(calls: Sequence[Dumped], name: str) -> Dumped:
    """The one call of this name."""
    [found] = [one for one in calls if one.name == name]
    return found


def secretive(client: CriClient, name: str) -> LabPod:
    """A pod that has secrets where pods have them."""
    pod = LabPod(client, name)
    pod.container_config.envs.add(key="PASSWORD", value=ENV.encode())
    pod.sandbox_config.annotations["example.com/api-token"] = ANNOTATION
    return pod


def test_every_call_of_a_pods_life(containerd: Containerd, scratch: Path, version: str) -> None:
    """Request, reply and latency of each, in the form of the old program; what failed says why; no secret is there."""
    file = scratch / "cri.dump"
    file.write_text("of an earlier run\n")
    flags = ("-policy", "null", "-dump", "reset,full:.*", "-dump-file", str(file))
    with CriResmgr(scratch, containerd.socket, *flags) as resmgr, CriClient(resmgr.socket, version) as client:
        pod = secretive(client, "dumped")
        live(pod)
        with secretive(client, "told") as told:
            told.info()
            assert told.exec(*WRITES).stdout.decode().strip() in SECRETS
            ask = cri.ExecRequest(container_id=told.container_id, cmd=["true"], stdout=True)
            token = client.call("Exec", ask).url.rpartition("/")[2]
        failed = client.outcome("StartContainer", cri.StartContainerRequest(container_id="nowhere"))
        assert client.outcome("CheckpointPod").code == "UNIMPLEMENTED"
        auth = cri.AuthConfig(username="me", password=REGISTRY)
        pull = cri.PullImageRequest(image=cri.ImageSpec(image="localhost/absent:latest"), auth=auth)
        assert client.outcome("PullImage", pull).code != "OK"
        client.outcome("Version", metadata=[("x-registry-token", METADATA)])
    text = file.read_text()
    calls = dumped(text)

    ours = [one for one in calls if not one.kind.startswith("originated")]
    first = ours[: len(LIFE)]
    assert [one.name for one in first] == [*LIFE]
    assert all(one.reply is not None and 0 < one.seconds < 20 for one in first)
    assert (
        only(first, "RunPodSandbox").reply["pod_sandbox_id"] == only(first, "StopPodSandbox").request["pod_sandbox_id"]
    )
    create = only(first, "CreateContainer")
    assert create.request["config"]["envs"] == [{"key": "PASSWORD", "value": "<redacted>"}]
    assert create.request["sandbox_config"]["metadata"] == {"name": "dumped", "namespace": "lab", "uid": pod.uid}
    assert create.reply == {"container_id": pod.container_id}
    assert only(first, "ContainerStatus").reply["status"]["state"] == "CONTAINER_RUNNING"
    assert only(first, "ExecSync").request["cmd"] == ["echo", "hello"]
    assert only(first, "UpdateContainerResources").request["linux"]["cpu_shares"] == 300
    assert only(first, "UpdateContainerResources").reply == {}

    errors = {one.name: one.error for one in ours if one.error}
    assert set(errors) == {"StartContainer", "CheckpointPod", "PullImage"}
    assert errors["StartContainer"] == f"{failed.code}: {failed.details}"
    assert errors["CheckpointPod"].startswith("UNIMPLEMENTED: ")
    assert Counter(one.name for one in ours)["StartContainer"] == 3
    assert "of an earlier run" not in text
    everything = text + resmgr.log.read_text()
    assert [secret for secret in (*SECRETS, token) if secret in everything] == []
    assert "(passthrough) REQUEST ExecSync" in everything


def test_less_of_some_calls(containerd: Containerd, scratch: Path) -> None:
    """Names only, not at all, or in full: the last expression that matches counts, and a name before all of them."""
    file = scratch / "cri.dump"
    flags = ("-policy", "null", "-dump", "reset,short:.*,off:.*Status.*", "-dump", "full:StopContainer")
    with (
        CriResmgr(scratch, containerd.socket, *flags, "-dump-file", str(file)) as resmgr,
        CriClient(resmgr.socket) as client,
    ):
        live(LabPod(client, "quiet"))
    lines = [line for line in file.read_text().splitlines() if "originated" not in line]
    assert all(LINE.fullmatch(line) for line in lines)
    told = [tuple(line[25:].split()[2:4]) for line in lines]
    names = [("REQUEST", name) for name in LIFE if "Status" not in name]
    names.insert(names.index(("REQUEST", "StopContainer")) + 1, ("REPLY", "StopContainer"))
    assert told == names
