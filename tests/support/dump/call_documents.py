"""Documents of calls as `dump.output.json` makes them, written by hand: for whatever shows calls and needs no
recording.

`Story` tells calls one after the other; `sample_documents` is the story of two pods on a node, with a changed create,
failures, a stream and calls of the relay's own; `many_documents` is as much of it as one likes.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

START: Final = 1_763_283_600_000_000_000  # 2025-11-16T09:00:00Z
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CODES: Final[Mapping[str, int]] = {"OK": 0, "NOT_FOUND": 5, "DEADLINE_EXCEEDED": 4, "UNKNOWN": 2, "UNAVAILABLE": 14}
_IMAGES: Final = ("ListImages", "ImageStatus", "PullImage", "RemoveImage", "ImageFsInfo")

Subject = Mapping[str, str]
NOBODY: Final[Subject] = {}
WEB: Final[Subject] = {
    "namespace": "shop",
    "pod": "web-7d9f6c5b8-x2x4q",
    "pod_uid": "0d6f2f0e-5a44-4f43-9c0c-3f5d5c1f7a11",
    "pod_id": "6fa1c0de9b7e4d53a1",
}
DB: Final[Subject] = {
    "namespace": "shop",
    "pod": "db-0",
    "pod_uid": "b7c41a86-1f5b-4a6b-8f0b-9f2f4b1d2c22",
    "pod_id": "c0ffee12ab34cd56ef",
}


def document(number: int, method: str, **facts: Any) -> dict[str, Any]:
    """A call with all its keys; what is not told is as plain as can be."""
    time_ns: int = facts.pop("time_ns", START)
    subject: Subject = facts.pop("subject", NOBODY)
    version = facts.pop("version", "runtime.v1")
    service = f"{version}.{'ImageService' if method in _IMAGES else 'RuntimeService'}"
    status = facts.pop("status", "OK")
    whom = "/".join(subject[key] for key in ("namespace", "pod") if subject.get(key))
    named = ":".join(part for part in (whom, subject.get("container", "")) if part) or subject.get("image", "")
    made: dict[str, Any] = {
        "number": number,
        "time": (_EPOCH + timedelta(microseconds=time_ns // 1000)).isoformat().replace("+00:00", "Z"),
        "time_ns": time_ns,
        "method": method,
        "service": service,
        "path": f"/{service}/{method}",
        "kind": "passthrough",
        "origin": "client",
        "pid": 812,
        "uid": 0,
        "metadata": [["user-agent", "grpc-go/1.72.1"], ["authorization", "<redacted>"]],
        "subject": named,
        **{
            key: subject.get(key, "")
            for key in ("namespace", "pod", "pod_uid", "pod_id", "container", "container_id", "image")
        },
        "status": status,
        "code": _CODES[status] if status else None,
        "message": "",
        "duration_ms": 1.25 if status else None,
        "continued": False,
        "lost": False,
        "changed": False,
        "changed_by": [],
        "messages": [message("request", {}), message("reply", {}, at_ms=1.2)],
        "forgotten": 0,
        "request_diff": [],
        "reply_diff": [],
    }
    unknown = set(facts) - set(made)
    if unknown:
        raise KeyError(f"no keys of a document: {', '.join(sorted(unknown))}")
    return made | facts


def message(side: str, body: Any, *, at_ms: float = 0.01, size: int | None = None, note: str = "") -> dict[str, Any]:
    """A message of a call."""
    length = size if size is not None else len(str(body))
    return {"side": side, "at_ms": at_ms, "size": length, "body": body, "note": note}


class Story:
    """Calls one after the other, each so many milliseconds after the one before."""

    def __init__(self, start: int = START) -> None:
        self.documents: list[dict[str, Any]] = []
        self._now = start

    def call(
        self,
        method: str,
        request: Any,
        reply: Any,
        *,
        gap: float = 20.0,
        took: float | None = 1.5,
        forwarded: Any = None,
        replies: Sequence[Any] = (),
        **facts: Any,
    ) -> None:
        """A call with its messages; `forwarded` if the runtime got something else, `replies` if it is a stream."""
        self._now += int(gap * 1e6)
        messages = [message("request", request)]
        if forwarded is not None:
            messages.append(message("forwarded", forwarded, at_ms=0.8))
        if replies:
            messages += [message("reply", one, at_ms=200.0 * place) for place, one in enumerate(replies, 1)]
        elif reply is not None:
            messages.append(message("reply", reply, at_ms=took or 0.0))
        number = len(self.documents) + 1
        self.documents.append(
            document(number, method, time_ns=self._now, duration_ms=took, **({"messages": messages} | facts))
        )


def _pod_config(subject: Subject) -> dict[str, Any]:
    return {
        "metadata": {"name": subject["pod"], "uid": subject["pod_uid"], "namespace": subject["namespace"]},
        "hostname": subject["pod"],
        "log_directory": f"/var/log/pods/{subject['namespace']}_{subject['pod']}",
        "labels": {"app": subject["pod"].partition("-")[0], "io.kubernetes.pod.name": subject["pod"]},
        "annotations": {"example.com/registry-token": "<redacted>", "kubernetes.io/config.source": "api"},
        "linux": {"cgroup_parent": "/kubepods.slice/kubepods-burstable.slice", "security_context": {}},
    }


def _container_config(subject: Subject, name: str, resources: dict[str, Any]) -> dict[str, Any]:
    return {
        "pod_sandbox_id": subject["pod_id"],
        "config": {
            "metadata": {"name": name},
            "image": {"image": f"registry.example/{name}@sha256:3f2a", "user_specified_image": f"{name}:1.4"},
            "command": ["/usr/bin/" + name],
            "args": ["--listen=:8080", "--workers=4"],
            "working_dir": "/srv",
            "envs": [
                {"key": "PATH", "value": "<redacted>"},
                {"key": "DATABASE_PASSWORD", "value": "<redacted>"},
                {"key": "KUBERNETES_SERVICE_PORT", "value": "<redacted>"},
            ],
            "mounts": [
                {"container_path": "/etc/hosts", "host_path": f"/var/lib/kubelet/pods/{subject['pod_uid']}/etc-hosts"},
                {
                    "container_path": "/data",
                    "host_path": "/mnt/data",
                    "readonly": True,
                    "propagation": "PROPAGATION_PRIVATE",
                },
            ],
            "log_path": f"{name}/0.log",
            "linux": {"resources": resources},
        },
        "sandbox_config": _pod_config(subject),
    }


_ASKED: Final = {"cpu_period": 100000, "cpu_quota": 200000, "cpu_shares": 2048, "memory_limit_in_bytes": 1 << 30}
_CREATE_DIFF: Final = [
    "  config:",
    "    linux:",
    "      resources:",
    "        cpu_period: 100000",
    "-       cpu_quota: 200000",
    "-       cpu_shares: 2048",
    "+       cpu_quota: -1",
    "+       cpu_shares: 2048",
    "+       cpuset_cpus: 2-3",
    "+       cpuset_mems: '0'",
    "        memory_limit_in_bytes: 1073741824",
    "@@",
    "    annotations:",
    "+     interpose.io/cpus: 2-3",
    "      kubernetes.io/config.source: api",
]


def _pod_start(story: Story, subject: Subject, name: str, *, changed: bool) -> None:
    """From the image to a running container."""
    image = {"image": f"registry.example/{name}:1.4"}
    inside = {**subject, "container": name, "container_id": f"{name}-4d1c8f7e2b"}
    config = _pod_config(subject)
    story.call("RunPodSandbox", {"config": config}, {"pod_sandbox_id": subject["pod_id"]}, subject=subject, took=212.4)
    story.call("ImageStatus", {"image": image}, {}, subject=image, took=0.9, gap=230)
    story.call(
        "PullImage",
        {"image": image, "auth": {"username": "<redacted>", "password": "<redacted>"}, "sandbox_config": config},
        {"image_ref": f"registry.example/{name}@sha256:3f2a"},
        subject=image,
        took=1840.0,
        gap=5,
    )
    request = _container_config(subject, name, _ASKED)
    facts: dict[str, Any] = {}
    if changed:
        given = {**_ASKED, "cpu_quota": -1, "cpuset_cpus": "2-3", "cpuset_mems": "0"}
        facts = {
            "forwarded": _container_config(subject, name, given),
            "changed": True,
            "changed_by": ["koordlet", "static-pools"],
            "request_diff": _CREATE_DIFF,
        }
    reply = {"container_id": inside["container_id"]}
    story.call("CreateContainer", request, reply, subject=inside, kind="intercepted", took=48.2, gap=1850, **facts)
    story.call("StartContainer", reply, {}, subject=inside, took=31.7, gap=55)


def sample_documents() -> list[dict[str, Any]]:
    """About thirty calls of two pods."""
    story = Story()
    web = {**WEB, "container": "web", "container_id": "web-4d1c8f7e2b"}
    database = {**DB, "container": "db", "container_id": "db-4d1c8f7e2b"}
    events = [{"container_id": one, "container_event_type": "CONTAINER_STARTED_EVENT"} for one in ("web", "db", "cron")]
    story.call("Version", {"version": "0.1.0"}, {"runtime_name": "containerd", "runtime_version": "2.1.4"}, took=0.4)
    story.call("GetContainerEvents", {}, None, replies=events, took=None, status="", gap=3)
    story.call("Status", {"verbose": True}, {"status": {"conditions": [{"type": "RuntimeReady", "status": True}]}})
    story.call("ListPodSandbox", {}, {}, took=0.8)
    _pod_start(story, WEB, "web", changed=True)
    story.call(
        "ContainerStatus",
        {"container_id": web["container_id"]},
        {"status": {"id": web["container_id"], "state": "CONTAINER_RUNNING", "created_at": 1_763_283_602_123_456_789}},
        subject=web,
        gap=90,
        took=2.2,
    )
    _pod_start(story, DB, "db", changed=False)
    story.call(
        "UpdateContainerResources",
        {"container_id": web["container_id"], "linux": {"cpuset_cpus": "2-3,6-7"}},
        {},
        subject=web,
        kind="originated",
        origin="static-pools",
        pid=0,
        metadata=[],
        took=6.4,
        gap=12,
    )
    story.call(
        "UpdateContainerResources",
        {"container_id": database["container_id"], "linux": {"cpuset_cpus": "0-1,4-5"}},
        {},
        subject=database,
        kind="originated",
        origin="static-pools",
        pid=0,
        metadata=[],
        took=5.1,
        gap=3,
    )
    story.call(
        "ExecSync",
        {"container_id": database["container_id"], "cmd": ["pg_isready", "-U", "shop"], "timeout": 1},
        None,
        subject=database,
        status="DEADLINE_EXCEEDED",
        message="failed to exec in container: timeout 1s exceeded: context deadline exceeded",
        took=1003.0,
        gap=120,
    )
    everything = [
        {
            "id": f"{name}-{number:02}",
            "pod_sandbox_id": WEB["pod_id"],
            "metadata": {"name": name},
            "state": "CONTAINER_RUNNING",
            "created_at": 1_763_283_600_000_000_000 + number,
            "labels": {"io.kubernetes.container.name": name, "io.kubernetes.pod.namespace": "shop"},
        }
        for number, name in enumerate(("web", "db", "cron", "proxy", "log", "dns", "cache", "mail"))
    ]
    for round_ in range(3):
        story.call("ListPodSandbox", {"filter": {"state": {}}}, {"items": []}, gap=400, took=0.9 + round_ / 5)
        story.call("ListContainers", {}, {"containers": everything}, gap=4, took=1.7 + round_ / 3)
    story.call("ContainerStats", {"container_id": web["container_id"]}, {"stats": {}}, subject=web, took=3.4)
    story.call("ImageFsInfo", {}, {"image_filesystems": [{"used_bytes": 9_223_372_036_854_771_712}]}, took=0.5)
    story.call(
        "StopContainer",
        {"container_id": web["container_id"], "timeout": 30},
        {},
        subject=web,
        kind="intercepted",
        took=640.0,
        gap=300,
    )
    story.call("RemoveContainer", {"container_id": web["container_id"]}, {}, subject=web, took=22.0, gap=650)
    story.call("StopPodSandbox", {"pod_sandbox_id": WEB["pod_id"]}, {}, subject=WEB, kind="intercepted", took=88.0)
    story.call(
        "RemovePodSandbox",
        {"pod_sandbox_id": WEB["pod_id"]},
        None,
        subject=WEB,
        status="NOT_FOUND",
        message=f'rpc error: sandbox "{WEB["pod_id"]}" not found',
        took=1.1,
        gap=100,
    )
    return story.documents


def many_documents(total: int) -> Iterator[dict[str, Any]]:
    """The story again and again, each time with other pods and a little later."""
    told = sample_documents()
    for number in range(total):
        again, place = divmod(number, len(told))
        one = told[place]
        time_ns = one["time_ns"] + again * 7_000_000_000
        pod = f"{one['pod']}-{again % 40}" if one["pod"] else ""
        subject = one["subject"].replace(one["pod"], pod) if pod else one["subject"]
        moved = document(number + 1, one["method"], time_ns=time_ns)
        kept = ("number", "time", "time_ns")
        yield {**one, **{key: moved[key] for key in kept}, "pod": pod, "subject": subject}
