"""The one table of the webhook's settings, and what no single row of it can say. Pure."""

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from interpose.config.common import logging_rows, row
from interpose.config.schema import Schema, Setting
from interpose.config.values import SettingKind, address, choice, directory, duration, integer, refuse, size
from interpose.config.webhook.settings import WebhookSettings

PREFIX: Final = "INTERPOSE_WEBHOOK_"

# A name of an annotation that belongs to somebody: a domain before the slash.
_KEY: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


_row: Final = partial(row, PREFIX)


def _annotations() -> SettingKind:
    def parse(text: str, where: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
        if not found:
            raise refuse(where, text, "names no annotation, such as intel.com/resources")
        if strange := [word for word in found if not _KEY.fullmatch(word)]:
            raise refuse(where, strange[0], "is not the name of an annotation, such as intel.com/resources")
        return found

    return SettingKind(
        name="names of annotations with commas between",
        accepts=frozenset({"str", "list"}),
        parse=parse,
        show=",".join,
        repeatable=True,
    )


WEBHOOK_SETTINGS: Final[tuple[Setting, ...]] = (
    _row(
        "listen",
        "--listen",
        address(),
        about="Address on which API servers ask, HTTPS; :PORT is all addresses of this machine, IPv6 and IPv4.",
        why="The port of HTTPS, and of the program this one stands in for.",
    ),
    _row(
        "metrics_listen",
        "--metrics-listen",
        address(optional=True),
        about='Address for health and metrics without TLS, such as 0.0.0.0:9098. "none": they are on --listen only.',
        why="They are on --listen in any case, and need nothing but HTTPS there.",
    ),
    _row(
        "tls.cert",
        "--tls-cert",
        directory(),
        about="File with the certificate, and those between it and its authority. PEM, watched.",
        why="Where the sample manifests mount the Secret, and where `interpose webhook certs --dir` writes it.",
    ),
    _row(
        "tls.key",
        "--tls-key",
        directory(),
        about="File with its key. PEM, without a password, watched.",
        why="Beside the certificate.",
    ),
    _row(
        "tls.client_ca",
        "--client-ca",
        directory(optional=True),
        about=(
            "File with the authorities of clients that may ask for a review. PEM, watched. Health and metrics need no "
            "certificate. Empty: whoever reaches us may ask."
        ),
        why="API servers show a certificate only if they are set up to; and an answer tells nothing but the question.",
    ),
    _row(
        "pods.annotation",
        "--annotation",
        _annotations(),
        about=(
            "Annotation that says what containers ask for; may be given several times. intel.com/resources and "
            "noderesource.dev/resources are put right in any case where a pod has them."
        ),
        why="The one that CRI Resource Manager knows; our relay reads both.",
    ),
    _row(
        "pods.on_unreadable",
        "--on-unreadable",
        choice("allow", "deny"),
        about="What becomes of a pod that cannot be read: allow lets it pass with a warning, deny refuses it.",
        why="The annotation is a help for policies; a cluster without it is better than one without pods.",
    ),
    _row(
        "limits.body",
        "--max-body",
        size(64 << 10, 64 << 20),
        about="Largest request.",
        why="Clusters keep objects of up to 1.5 MiB, and an update holds the old one too.",
    ),
    _row(
        "limits.buffered",
        "--max-buffered",
        size(64 << 10, 1 << 30),
        about="All requests together that are being received, beyond which more are told to come again.",
        why="Bounds memory, whatever the number of clients; a thousand usual requests.",
    ),
    _row(
        "limits.max_connections",
        "--max-connections",
        integer(1, 65536),
        about=(
            "Clients at the same time. One more takes the place of one that was not answered yet, or else of one that "
            "wants nothing now."
        ),
        why="A handful of API servers keep some tens of connections; strangers may take half a megabyte each.",
    ),
    _row(
        "limits.handshake_timeout",
        "--handshake-timeout",
        duration(0.1, 60.0),
        about="Time for the TLS handshake.",
        why="Milliseconds in a cluster; API servers give up after ten seconds themselves.",
    ),
    _row(
        "limits.request_timeout",
        "--request-timeout",
        duration(0.1, 60.0),
        about="Time from the first byte of a request to its last, and from a connection to its first request.",
        why="API servers wait for an answer as long by default.",
    ),
    _row(
        "limits.idle_timeout",
        "--idle-timeout",
        duration(1.0, 3600.0),
        about="Time between two requests on a connection.",
        why="API servers let go after 90 seconds; whoever lets go first must not be us, or a request may be lost.",
    ),
    _row(
        "stop.shutdown_delay",
        "--shutdown-delay",
        duration(0.0, 300.0),
        about="Time between the signal to stop and the end of accepting, in which we are not ready and still serve.",
        why="Endpoints need a moment to forget us; requests in between would fail.",
    ),
    _row(
        "stop.grace",
        "--grace",
        duration(0.0, 300.0),
        about="Time that requests under way have after that.",
        why="Longer than any request takes; with the delay it is well within the 30 seconds that pods have.",
    ),
    *logging_rows(
        PREFIX,
        about_level="Lowest level that is logged; debug has a line for each request, without its contents.",
        why_level="Info reports certificates and what could not be annotated.",
        why_format="The same form as the kubelet's log.",
    ),
)


def contradictions(settings: WebhookSettings, origins: Mapping[str, str]) -> list[str]:
    """What no single value shows."""
    problems = []
    if settings.metrics_listen == settings.listen and not settings.listen.endswith(":0"):
        where = origins["metrics_listen"]
        problems.append(f"{where}: metrics_listen is the address of listen: {settings.listen!r}, which serves them too")
    if settings.limits.buffered < settings.limits.body:
        limits, where = settings.limits, origins["limits.buffered"]
        problems.append(
            f"{where}: limits.buffered: {limits.buffered} bytes are less than one request may have (limits.body: "
            f"{limits.body})"
        )
    return problems


WEBHOOK: Final = Schema(
    program="interpose webhook",
    file_kind="WebhookConfig",
    settings=WebhookSettings,
    table=WEBHOOK_SETTINGS,
    titles=MappingProxyType(
        {
            "": "General",
            "tls": "TLS",
            "pods": "Pods",
            "limits": "Limits",
            "stop": "Stopping",
            "logging": "Logging",
        }
    ),
    contradictions=contradictions,
    prefix=PREFIX,
)
