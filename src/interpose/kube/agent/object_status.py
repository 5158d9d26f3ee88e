"""Reports in the status of the object of a policy: one entry for each node that goes by it. Pure.

Invariants: the entries of other nodes are never written; an entry is written only on an object that is there, and taken
back once the node goes by another one; what the object shows already is not written again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from interpose.kube.agent.config_kinds import ConfigSource, parse_source
from interpose.kube.agent.push_state import PushPhase
from interpose.kube.agent.report import NodeReport, reported_source, timestamp
from interpose.kube.agent.report_sinks import LAG, ReportInput, ReportWrite
from interpose.kube.client.api import CONFIG_MAPS, Object, PatchKind
from interpose.kube.client.objects import mapping, version_of

_SUCCESS: Final = "Success"
_FAILURE: Final = "Failure"
# What the cluster wants is not known then, so no entry is wrong.
_UNCLEAR: Final = (PushPhase.KEPT.value, PushPhase.FORBIDDEN.value)

_Entry = Mapping[str, Any] | None  # None: there is to be none


class _Written(NamedTuple):
    entry: _Entry
    at: float
    version: str  # of the object when it was written


class ObjectStatusSink:
    """Writes the entry of this node, and takes back those on objects that the node does not go by any more."""

    kind = "status"

    def __init__(self, node: str) -> None:
        self._node = node
        self._left: set[ConfigSource] | None = None  # objects that may have our entry, seen or not
        self._written: dict[ConfigSource, _Written] = {}

    def look(self, view: ReportInput) -> None:
        """Note by which object the previous agent went."""
        if self._left is None:
            source = parse_source(reported_source(view.node) or "")
            self._left = {source} if source is not None and source.kind != CONFIG_MAPS.kind else set()

    def next(self, view: ReportInput, now: float, wall: float) -> ReportWrite | None:
        """The next entry to write or to take back."""
        for source, entry in self._missing(view):
            if not self._awaits_watch(source, entry, view, now):
                return ReportWrite(
                    body={"status": {"nodes": {self._node: entry}}},
                    patch=PatchKind.MERGE,
                    subresource="status",
                    source=source,
                )
        return None

    def ready_at(self, view: ReportInput, now: float) -> float:
        return now

    def again_at(self, view: ReportInput, now: float) -> float | None:
        """What we wrote should be seen by then."""
        late = [
            self._written[source].at + LAG
            for source, entry in self._missing(view)
            if self._awaits_watch(source, entry, view, now)
            and version_of(view.objects.get(source)) != self._written[source].version
        ]
        return min(late, default=None)

    def done(self, view: ReportInput, write: ReportWrite, now: float) -> None:
        if write.source is None or self._left is None:
            raise ValueError("a status belongs to an object that was looked at")
        entry = write.body["status"]["nodes"][self._node]
        if entry is None:
            self._left.discard(write.source)
        else:
            self._left.add(write.source)
        self._written[write.source] = _Written(entry, now, version_of(view.objects.get(write.source)))

    def _missing(self, view: ReportInput) -> Iterator[tuple[ConfigSource, _Entry]]:
        """Objects with another entry than they should have, and that entry."""
        report = view.report
        if report is None or report.phase in _UNCLEAR:
            return
        chosen = parse_source(report.source)
        for source, found in view.objects.items():
            shown = self._entry_of(found)
            wanted = _entry(report) if source == chosen else None
            if _said(shown) != _said(wanted):
                yield source, wanted
        for source in sorted((self._left or set()) - view.objects.keys() - {chosen}):
            yield source, None

    def _entry_of(self, found: Object) -> _Entry:
        nodes = mapping(mapping(found.get("status")).get("nodes"))
        return mapping(nodes[self._node]) if self._node in nodes else None

    def _awaits_watch(self, source: ConfigSource, entry: _Entry, view: ReportInput, now: float) -> bool:
        written = self._written.get(source)
        if written is None or _said(written.entry) != _said(entry):
            return False
        return now < written.at + LAG or version_of(view.objects.get(source)) == written.version


def _entry(report: NodeReport) -> Mapping[str, Any]:
    return {
        "status": _FAILURE if report.error else _SUCCESS,
        "generation": report.generation,
        "errors": report.error,
        "timestamp": timestamp(report.since),
    }


def _said(entry: _Entry) -> tuple[Any, ...] | None:
    """An entry without its time."""
    return None if entry is None else (entry.get("status"), entry.get("generation"), entry.get("errors") or "")
