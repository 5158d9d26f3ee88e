"""Who is known to come to something else: containerd 1.6, and our runtime with the plain executor.

Every row is tried; one that is not true any more fails a test.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from conformance.points import Verdict, differs, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_YET = refused("UNIMPLEMENTED", "the method is younger than containerd 1.6")
_NO_FIELD = differs("the field is younger than containerd 1.6 and is passed over")
_NO_EVENTS = differs("GetContainerEvents is UNIMPLEMENTED")
_NO_V5 = differs("answers 403 to v5.channel.k8s.io; clients fall back to SPDY")
_NO_IMAGE_VOLUME = "an image as volume is younger than containerd 1.6: the mount has no host path"
_CONTAINERD: tuple[tuple[Verdict, tuple[str, ...]], ...] = (
    (
        _NOT_YET,
        (
            "handshake-runtimeconfig-tells-the-cgroup-driver",
            "metrics-descriptors-of-all-metrics-that-critest-asks-for",
            "metrics-a-value-of-every-metric-with-as-many-labels-as-its-descriptor-has",
            "metrics-limits-times-and-counts-of-a-container-are-its-own",
            "podsandbox-updatepodsandboxresources-is-taken",
            "image-manager-lists-as-a-stream",
            "lists-lists-as-streams",
            "errors-checkpointcontainer",
            "errors-checkpointpod",
            "errors-restorepod",
        ),
    ),
    (
        _NO_FIELD,
        (
            "handshake-imagefsinfo-says-where-containers-write",
            "handshake-status-names-the-runtime-handlers-with-what-they-can",
            "handshake-status-announces-supplementalgroupspolicy",
            "answers-podsandboxstatus-has-the-statuses-of-its-containers-and-a-time",
            "answers-image-id-is-the-id-of-the-image-in-status-and-list",
            "answers-containerstatus-tells-user-and-groups-of-the-first-process",
            "container-stopping-uses-the-signal-of-the-configuration",
            "container-mount-readonly-a-recursive-read-only-mount-does-not",
            "container-mount-readonly-runtime-handlers-announce-recursive-read-only-mounts",
            "container-mount-readonly-recursive-without-readonly-is-refused",
            "security-context-ambient-capabilities-for-a-user",
            "security-context-user-namespace-of-the-pod",
            "security-context-id-mapped-mounts",
            "errors-cdi-devices",
        ),
    ),
    (
        differs("ten methods are younger than containerd 1.6"),
        (
            "handshake-every-method-of-v1-is-there-but-for-checkpoints",
            "handshake-every-method-is-there-on-v1alpha2-as-well",
        ),
    ),
    (
        refused("NOT_FOUND", "an unknown id is an error when stopping; kubelets take it as success"),
        ("idempotence-stoppodsandbox-of-an-unknown-id", "idempotence-stopcontainer-of-an-unknown-id"),
    ),
    (
        _NO_EVENTS,
        (
            "events-created-started-stopped-deleted-of-containers-and-of-sandboxes",
            "events-an-event-shows-the-pod-and-all-of-its-containers",
            "events-every-subscriber-hears-everything",
        ),
    ),
    (
        _NO_V5,
        (
            "streaming-exec-with-both-outputs-and-exit-code-over-websocket-v5",
            "streaming-exec-in-a-terminal-that-changes-its-size-over-websocket-v5",
            "streaming-attach-with-stdin-over-websocket-v5",
            "streaming-stdin-with-its-end-over-websocket-v5",
        ),
    ),
    (
        refused("UNKNOWN", _NO_IMAGE_VOLUME),
        ("image-volume-an-image-as-read-only-volume", "image-volume-a-part-of-an-image"),
    ),
    (
        differs(f"{_NO_IMAGE_VOLUME}, so the reason is another"),
        (
            "image-volume-a-part-that-is-not-there-is-refused-with-its-reason",
            "image-volume-a-part-outside-of-the-image-is-refused-with-its-reason",
            "image-volume-an-image-that-was-not-pulled-is-refused-with-its-reason",
        ),
    ),
    (
        differs("does not add the groups that the image's /etc/group gives its user"),
        ("security-context-supplementalgroupspolicy-merge-adds-the-image-s-groups",),
    ),
    (
        differs("an unknown capability is passed over"),
        ("security-context-an-unknown-capability-is-refused",),
    ),
    (
        refused("UNKNOWN", "refuses RuntimeDefault where there is no AppArmor"),
        ("apparmor-runtimedefault-runs-everywhere-there-is-no-profile-of-the-runtime-s-own",),
    ),
    (differs("the filter is passed over: all images are listed"), ("image-manager-lists-by-name",)),
    (differs("answers OK and changes nothing that runs"), ("errors-an-update-of-a-stopped-container-is-refused",)),
    (differs("the path is taken as it is"), ("errors-a-log-path-that-leaves-the-folder-of-logs-is-refused",)),
    (differs("the part for Windows is passed over"), ("errors-a-configuration-for-windows-is-refused",)),
    (
        refused("RESOURCE_EXHAUSTED", "each output is cut at 16 MiB, both together are more than a message may have"),
        ("execsync-more-output-than-16-mib-is-cut-so-that-a-kubelet-takes-the-answer",),
    ),
)

_NO_SECCOMP = differs("system calls are not filtered")
_PLAIN: tuple[tuple[Verdict, tuple[str, ...]], ...] = (
    (
        _NO_SECCOMP,
        (
            "security-context-seccomp-runtimedefault-filters",
            "security-context-seccomp-localhost",
            "security-context-seccomp-localhost-in-the-deprecated-field",
            "security-context-seccomp-runtime-default-in-the-deprecated-field",
            "security-context-seccomp-a-profile-can-forbid-it",
        ),
    ),
    (differs("AppArmor profiles are not applied"), ("apparmor-a-profile-that-is-not-loaded-is-refused",)),
    (differs("device access is not limited"), ("container-devices-that-were-not-asked-for-cannot-be-used",)),
    (differs("it is a terminal of the node's"), ("container-a-terminal-has-a-name-in-the-container",)),
    (
        differs("later mounts are not passed on"),
        (
            "container-mount-propagation-host-to-container-the-container-sees-those-of-the-node",
            "container-mount-propagation-bidirectional-each-sees-those-of-the-other",
        ),
    ),
    (
        refused("UNKNOWN", "there are no recursive read-only mounts"),
        ("container-mount-readonly-a-recursive-read-only-mount-does-not",),
    ),
    (
        differs("so they are not announced"),
        ("container-mount-readonly-runtime-handlers-announce-recursive-read-only-mounts",),
    ),
)


def _by_point(table: tuple[tuple[Verdict, tuple[str, ...]], ...]) -> Mapping[str, Verdict]:
    return MappingProxyType({name: verdict for verdict, names in table for name in names})


CONTAINERD: Mapping[str, Verdict] = _by_point(_CONTAINERD)
"""By the id of a point."""
PLAIN: Mapping[str, Verdict] = _by_point(_PLAIN)
"""The same, where it is not what our runtime does with runc."""
