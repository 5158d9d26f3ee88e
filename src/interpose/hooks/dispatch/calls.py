"""Asking hook servers one after the other, within their time, and keeping account of what they did."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from interpose.config.relay.settings import HookSettings
from interpose.hooks.api.hookpoint import RESOURCES_ASKED, HookPoint
from interpose.hooks.api.messages import response_class
from interpose.hooks.dispatch.client import HookCallError
from interpose.hooks.dispatch.fields import Value
from interpose.hooks.dispatch.hook_server import OK, Metadata, RegisteredServer
from interpose.hooks.dispatch.merge import FieldChange, HookAnswerError, MergeResult, advance, merge
from interpose.hooks.dispatch.requests import HookSubject
from interpose.log import RateLimited

_log = logging.getLogger(__name__)

_HIDDEN: Final = "(hidden)"
# What an answer may add to what it repeats. Far above any use, and small enough to be merged without holding the loop.
_ANSWER_LIMIT: Final = 256 * 1024
_MOST_SHOWN: Final = 5


class HookRefusedError(Exception):
    """A hook server under Fail did not let a call pass. The text is what the kubelet sees."""

    def __init__(self, plugin: RegisteredServer, point: HookPoint, text: str) -> None:
        super().__init__(f"hook server {plugin.name} (failure policy Fail) at {point}: {text}")
        self.plugin = plugin
        self.point = point


class HookCalls:
    """Calls plugins and merges their answers. Counts conflicts; everything else is counted by plugin."""

    def __init__(self, settings: HookSettings, now: Callable[[], float]) -> None:
        self.conflicts: Counter[tuple[str, str, str]] = Counter()  # (earlier plugin, later plugin, hook point)
        self.refused_changes: Counter[str] = Counter()  # by plugin
        self._settings = settings
        # No plugin may take a pod away from the others.
        self._protected = frozenset(f"{name}[{settings.skip_key}]" for name in ("labels", "annotations"))
        self._now = now
        self._remarks = RateLimited(_log, clock=now)

    async def ask_all(
        self, point: HookPoint, plugins: Sequence[RegisteredServer], subject: HookSubject, until: float
    ) -> tuple[tuple[FieldChange, ...], dict[str, str]]:
        """Every change that all plugins together make, in order, and by path who made the last one.

        Raises HookRefusedError for a plugin under Fail.
        """
        asked = subject.asked
        metadata: Metadata = (RESOURCES_ASKED,) if point is HookPoint.PRE_UPDATE_CONTAINER_RESOURCES else ()
        made: list[FieldChange] = []
        owners: dict[str, RegisteredServer] = {}
        for plugin in plugins:
            if not subject.selected_by(plugin.server.selector):
                continue
            answered = await self._ask(point, plugin, asked, metadata, until, subject.held)
            if isinstance(answered, str):
                if plugin.must_see:
                    raise HookRefusedError(plugin, point, answered)
                continue
            if not answered.changes and not answered.refused:
                continue
            self._account(point, plugin, subject, answered, owners)
            if not made:
                asked = subject.copy()  # what Post hooks are told stays as it was
            advance(asked, answered.changes)
            made += answered.changes
        return tuple(made), {path: plugin.name for path, plugin in owners.items()}

    async def tell(
        self, point: HookPoint, plugin: RegisteredServer, subject: HookSubject, metadata: Metadata, until: float
    ) -> str | None:
        """Tell a plugin what has happened; what it answers does not matter. Returns what went wrong."""
        if not subject.selected_by(plugin.server.selector):
            return None
        answered = await self._ask(point, plugin, subject.asked, metadata, until)
        return answered if isinstance(answered, str) else None

    async def _ask(
        self,
        point: HookPoint,
        plugin: RegisteredServer,
        asked: object,
        metadata: Metadata,
        until: float,
        held: Mapping[str, Value | None] = MappingProxyType({}),
    ) -> MergeResult | str:
        """One call of one plugin: what it changes, or in words what went wrong."""
        began = self._now()
        usual = plugin.server.timeout or self._settings.timeout
        timeout = min(usual, until - began)
        try:
            if timeout <= 0:
                return self._failed(point, plugin, "timeout", "no time was left for it", began)
            message: bytes = asked.SerializeToString()  # type: ignore[attr-defined]
            answer = await plugin.caller.call(
                point, message, metadata=metadata, timeout=timeout, hurried=timeout < usual
            )
            if len(answer) > _ANSWER_LIMIT + 2 * len(message):
                raise HookAnswerError(f"it has {len(answer)} bytes, for a question of {len(message)}")
            if not answer or point.is_post:
                merged = _NOTHING
            else:
                merged = merge(asked, response_class(point).FromString(answer), self._protected, held)
        except HookCallError as error:
            return self._failed(point, plugin, error.reason, f"{error.code.name}: {error.message}", began)
        except HookAnswerError as error:
            return self._failed(point, plugin, "bad-answer", f"its answer cannot be used: {error}", began)
        except Exception as error:
            # Bytes that are no answer (DecodeError, whose class is protobuf's), or a bug of ours in the merge: either
            # way this plugin's answer is lost, and its policy decides.
            plugin.caller.note_garbage(str(error))
            return self._failed(point, plugin, "garbage", f"its answer cannot be read: {error}", began)
        plugin.stats.points[point].add(OK, self._now() - began)
        return merged

    def _failed(self, point: HookPoint, plugin: RegisteredServer, reason: str, text: str, began: float) -> str:
        now = self._now()
        plugin.stats.failed(point, reason, text, now - began, now)
        level = logging.ERROR if plugin.must_see else logging.WARNING
        self._remark(level, "Hook server failed", plugin, point, reason, err=text)
        return text

    # -- what they did

    def _account(
        self,
        point: HookPoint,
        plugin: RegisteredServer,
        subject: HookSubject,
        merged: MergeResult,
        owners: dict[str, RegisteredServer],
    ) -> None:
        plugin.stats.points[point].changes += len(merged.changes)
        if merged.refused:
            self.refused_changes[plugin.name] += len(merged.refused)
            self._remark(
                logging.WARNING,
                "Hook server may not change this",
                plugin,
                point,
                "refused",
                what="; ".join(merged.refused),
            )
        debug = _log.isEnabledFor(logging.DEBUG)
        for change in merged.changes:
            earlier = owners.get(change.path)
            owners[change.path] = plugin
            if earlier is not None:
                self.conflicts[earlier.name, plugin.name, point.value] += 1
                text = "Two hook servers change the same field, the later one wins"
                self._remark(logging.WARNING, text, plugin, point, change.path, earlier=earlier.name, field=change.path)
            if debug:
                kv = {"plugin": plugin.name, "hook": point.value, "field": change.path, **subject.names}
                before, after = (_shown(change.path, value) for value in (change.before, change.after))
                _log.debug("Hook server changed a field", extra={"kv": kv | {"before": before, "after": after}})

    def note_no_effect(self, point: HookPoint, paths: Sequence[str], subject: HookSubject) -> None:
        """Some changes have nowhere to go in this call."""
        names = _some(paths, ", ")
        text = "Changes have no effect at this hook point"
        self._remarks.log(
            logging.WARNING, text, key=f"{point} {names}", hook=point.value, fields=names, **subject.names
        )

    def _remark(
        self, level: int, text: str, plugin: RegisteredServer, point: HookPoint, about: str, **kv: object
    ) -> None:
        """Plugins fail and quarrel at the rate of calls; the log hears of it once a minute, the metrics each time."""
        key = f"{plugin.name} {point} {about}"
        self._remarks.log(level, text, key=key, plugin=plugin.name, hook=point.value, **kv)


_NOTHING: Final = MergeResult()


def _some(texts: Sequence[str], between: str) -> str:
    """Enough of them for a log line."""
    rest = len(texts) - _MOST_SHOWN
    return between.join(texts[:_MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _shown(path: str, value: object) -> object:
    """A value for the log. Environment variables hold secrets."""
    if value is None:
        return "(unset)"
    return _HIDDEN if path.startswith("container_envs[") else value
