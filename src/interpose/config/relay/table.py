"""The one table of relay settings, and what no single row of it can say."""

from collections.abc import Mapping
from types import MappingProxyType

from interpose.config.common import admin_rows, logging_rows
from interpose.config.endpoint import WELL_KNOWN
from interpose.config.relay.dump_table import DUMP_SETTINGS, dump_contradictions
from interpose.config.relay.policy_table import POLICY_SETTINGS, policy_contradictions
from interpose.config.relay.settings import RelaySettings
from interpose.config.schema import Instead, Schema, Setting, value_of
from interpose.config.values import (
    choice,
    directory,
    duration,
    endpoint,
    integer,
    mode,
    owner,
    size,
    switch,
    text,
    uids,
)

RELAY_SETTINGS: tuple[Setting, ...] = (
    Setting(
        key="listen",
        flag="--listen",
        kind=endpoint(optional=False),
        help="Socket the kubelet connects to; with the backend docker the dockershim in it, or cri-dockerd.",
        why="A directory of our own: nobody else creates or cleans files in it.",
        instead=(Instead("backend", "docker", "/var/run/interpose/docker.sock"),),
    ),
    Setting(
        key="runtime_endpoint",
        flag="--runtime-endpoint",
        aliases=("--container-runtime-endpoint",),
        kind=endpoint(optional=True),
        help="Socket of the container runtime, or of dockerd. Empty: the first existing well-known one.",
        why="A node has one runtime, and its socket is where its packages put it.",
    ),
    Setting(
        key="image_endpoint",
        flag="--image-endpoint",
        kind=endpoint(optional=True, none=True),
        aliases=("--image-service-endpoint",),
        help='Socket of the image service. Empty: the same as the runtime. "none" refuses image calls. Not with the '
        "backend docker.",
        why="All common runtimes serve images on their runtime socket.",
    ),
    Setting(
        key="backend",
        flag="--backend",
        kind=choice("cri", "docker"),
        help="What is behind the relay, and spoken on both sides: a CRI runtime (cri), or dockerd (docker).",
        why="Dockershim left Kubernetes in 1.24; docker is for kubelets before that, and for cri-dockerd.",
    ),
    Setting(
        key="embedded",
        flag="--embedded",
        kind=switch(),
        help="Run containers with the built-in runtime in this process instead of a backend. Its settings are those of "
        "`interpose runtime`, from INTERPOSE_RUNTIME_* and the file that INTERPOSE_RUNTIME_CONFIG names.",
        why="A node that has a runtime keeps it.",
    ),
    Setting(
        key="report_real_resources",
        flag="--report-real-resources",
        kind=switch(),
        help="Report the resources that containers really have, also where hooks changed what the kubelet asked for.",
        why="Off: kubelets 1.27 to 1.32 with in-place resize would update such containers for ever.",
    ),
    Setting(
        key="socket.mode",
        flag="--socket-mode",
        kind=mode(),
        help="Mode of the socket we listen on, octal.",
        why="Whoever can write to a runtime's socket is root on the node; containerd uses 0660, we start narrower.",
    ),
    Setting(
        key="socket.owner",
        flag="--socket-owner",
        kind=owner(),
        help='Owner of the socket we listen on, "user[:group]". Empty: whoever runs the relay.',
        why="The kubelet runs as root, as the relay does.",
    ),
    Setting(
        key="socket.like_backend",
        flag="--socket-like-backend",
        kind=switch(),
        help="Copy mode, owner and group of the socket we listen on from the backend's.",
        why="Off: it could open the socket wider than its mode says.",
    ),
    Setting(
        key="socket.allow_uids",
        flag="--allow-uids",
        kind=uids(),
        help="User ids that may connect to the socket we listen on. Empty: root and the relay's own.",
        why="The kernel tells us who connects; file modes alone can be changed by anyone who owns the directory.",
    ),
    Setting(
        key="socket.max_connections",
        flag="--max-connections",
        kind=integer(1, 65536),
        help="Clients connected to the socket we listen on at the same time.",
        why="A node has a kubelet, a few agents and people with crictl; 512 is far above. So many files may be open.",
    ),
    *admin_rows(9095),
    Setting(
        key="hooks.enabled",
        flag="--hooks",
        kind=switch(),
        help="Ask the hook servers that are registered.",
        why="A relay without a registered hook server passes everything through, so on costs nothing.",
    ),
    Setting(
        key="hooks.dir",
        flag="--hooks-dir",
        kind=directory(),
        help="Directory with the registration files of hook servers, *.json. It may appear later.",
        why="Where koordlet and other plugins for Koordinator's runtime proxy write theirs.",
    ),
    Setting(
        key="hooks.timeout",
        flag="--hooks-timeout",
        kind=duration(0.001, 60.0),
        help="Time one hook server has for one call, unless its registration file says otherwise.",
        why="A plugin answers in a millisecond; two seconds survive a busy node and are far below any deadline.",
    ),
    Setting(
        key="hooks.budget",
        flag="--hooks-budget",
        kind=duration(0.001, 120.0),
        help="Time all hook servers of one call have together, and never more than half of what the caller has left.",
        why="The runtime needs its share of the kubelet's two minutes even when every plugin hangs.",
    ),
    Setting(
        key="hooks.skip_key",
        flag="--hooks-skip-key",
        kind=text(),
        help="Label or annotation of pods that hook servers do not see. Empty: they see every pod.",
        why="A plugin that runs as a pod could never start again under Fail; koordlet's pods carry this label.",
    ),
    Setting(
        key="hooks.skip_value",
        flag="--hooks-skip-value",
        kind=text(),
        help="Value that label or annotation must have.",
        why="As in Koordinator's runtime proxy.",
    ),
    *POLICY_SETTINGS,
    *DUMP_SETTINGS,
    Setting(
        key="limits.max_streams",
        flag="--max-streams",
        kind=integer(1, 100_000),
        help="Calls in progress per client connection.",
        why="A kubelet keeps tens of calls open, its log followers included; a thousand is a busy node's start.",
    ),
    Setting(
        key="limits.max_total_streams",
        flag="--max-total-streams",
        kind=integer(1, 1_000_000),
        help="Calls in progress over all clients.",
        why="With the stream window this bounds memory; four connections may be full at once.",
    ),
    Setting(
        key="limits.header_list",
        flag="--max-header-list",
        kind=size(8192, 16 << 20),
        help="Size of the headers of one call from a client; above it the call is refused.",
        why="gRPC clients send a few hundred bytes; 64 KiB leaves room for tokens and traces.",
    ),
    Setting(
        key="limits.backend_header_list",
        flag="--max-backend-header-list",
        kind=size(8192, 64 << 20),
        help="Size of the headers or trailers of one answer from the backend; above it that call fails.",
        why="Runtimes put whole error texts into trailers; a long one must arrive, an endless one must not.",
    ),
    Setting(
        key="limits.stream_window",
        flag="--stream-window",
        kind=size(65535, 64 << 20),
        help="Bytes of one call that may wait in the relay, per direction.",
        why="Large enough for an image list in one go, small enough that all streams together stay bounded.",
    ),
    Setting(
        key="limits.buffered",
        flag="--max-buffered",
        kind=size(1 << 20, 16 << 30),
        help="Bytes of all calls together that may wait in the relay; above it the client with the most is cut off.",
        why="Clients that read need next to nothing; a hundred image lists for one that pauses fit in.",
    ),
    Setting(
        key="limits.message",
        flag="--max-message",
        kind=size(1 << 20, 1 << 30),
        help="Size of one message of an intercepted call, after decompression. Calls passed through have no limit.",
        why="Twice what the kubelet itself accepts (16 MiB), so the relay is never the first to refuse.",
    ),
    Setting(
        key="limits.idle_frames",
        flag="--max-idle-frames",
        kind=integer(100, 10_000_000),
        help="Frames without progress (PING, SETTINGS, empty DATA ...) per second and client process.",
        why="gRPC clients send a few pings per second at most; a flood is tens of thousands.",
    ),
    Setting(
        key="limits.resets",
        flag="--max-resets",
        kind=integer(10, 10_000_000),
        help="Calls a client process may cancel per second.",
        why="A restarting kubelet cancels what it has open, a thousand at most; rapid-reset attacks exceed that.",
    ),
    Setting(
        key="limits.handshake_timeout",
        flag="--handshake-timeout",
        kind=duration(0.1, 600.0),
        help="Time a new client has for its HTTP/2 preface and settings; with dockerd, any for the head of a request.",
        why="A live client needs microseconds; ten seconds survive a machine that swaps.",
    ),
    Setting(
        key="limits.backend_wait",
        flag="--backend-wait",
        kind=duration(0.0, 60.0),
        help="Time a new call waits for an unreachable backend before it fails as UNAVAILABLE (docker: 503).",
        why="Covers a restart of containerd, and is well below the kubelet's two-minute deadline.",
    ),
    Setting(
        key="process.grace",
        flag="--grace",
        kind=duration(0.0, 3600.0),
        help="Time for calls in progress to finish after SIGTERM.",
        why="Most calls take milliseconds, stopping a container up to its own 30 s.",
    ),
    Setting(
        key="process.take_over",
        flag="--take-over",
        kind=switch(),
        help="Take the socket over from the running relay, without a refused connection or a failed call.",
        why="Off: a second relay started by mistake must not replace the first.",
    ),
    Setting(
        key="process.take_over_cap",
        flag="--take-over-cap",
        kind=duration(0.0, 86400.0),
        help="Time a relay that was taken over stays for its last calls.",
        why="An image pull is the longest call, and the kubelet gives up on one after minutes.",
    ),
    Setting(
        key="process.detach",
        flag="--detach",
        kind=switch(),
        help="Return when the relay listens and leave it running in the background.",
        why="Off: service managers want the process in the foreground.",
    ),
    *logging_rows(why_level="Info reports changes of state, not calls: a healthy relay is nearly silent."),
)


def contradictions(settings: RelaySettings, origins: Mapping[str, str]) -> list[str]:
    """What no single value shows: settings that exclude each other or are not available yet."""
    problems = []
    if settings.backend == "docker" and settings.image_endpoint:
        problems.append(
            f"{origins['image_endpoint']}: image_endpoint {settings.image_endpoint!r} cannot be used with the backend "
            f"docker ({origins['backend']}), where one socket serves everything; drop it"
        )
    if settings.embedded:
        problems += [
            f"{origins[key]}: {key} contradicts embedded ({origins['embedded']}), drop one"
            for key in ("backend", "runtime_endpoint", "image_endpoint", "process.take_over", "socket.like_backend")
            if value_of(settings, key) != value_of(RelaySettings(), key)
        ]
    if not settings.runtime_endpoint and not settings.embedded and settings.listen in WELL_KNOWN[settings.backend]:
        problems.append(
            f"{origins['listen']}: listen is where a backend is looked for: {settings.listen!r}; say with "
            "runtime_endpoint (--runtime-endpoint) where it really is"
        )
    problems += [
        f"{origins[key]}: {key} is the socket we listen on ourselves: {settings.listen!r}"
        for key in ("runtime_endpoint", "image_endpoint", "admin.listen")
        if value_of(settings, key) == settings.listen
    ]
    if settings.socket.like_backend:
        problems += [
            f"{origins[key]}: {key} contradicts socket.like_backend ({origins['socket.like_backend']}), drop one"
            for key in ("socket.mode", "socket.owner")
            if value_of(settings, key) != value_of(RelaySettings(), key)  # a file may well say what the default is
        ]
    limits = settings.limits
    if limits.max_total_streams < limits.max_streams:
        problems.append(
            f"{origins['limits.max_total_streams']}: limits.max_total_streams {limits.max_total_streams} is below "
            f"limits.max_streams {limits.max_streams} ({origins['limits.max_streams']})"
        )
    return problems + policy_contradictions(settings, origins) + dump_contradictions(settings, origins)


RELAY = Schema(
    program="interpose relay",
    file_kind="RelayConfig",
    settings=RelaySettings,
    table=RELAY_SETTINGS,
    titles=MappingProxyType(
        {
            "": "General",
            "socket": "Listening socket",
            "admin": "Admin socket",
            "hooks": "Hooks",
            "policy": "Resource policies",
            "dump": "Dumps and recordings",
            "limits": "Limits",
            "process": "Process",
            "logging": "Logging",
        }
    ),
    contradictions=contradictions,
    foreign=("INTERPOSE_HOOKSERVER_", "INTERPOSE_AGENT_", "INTERPOSE_WEBHOOK_", "INTERPOSE_RUNTIME_", "INTERPOSE_POD_"),
)
