"""Calls hook servers one after the other, within their time, and counts what they changed and how they failed."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from interpose.config.relay.settings import HookSettings
from interpose.hooks.api.hookpoint import RESOURCES_ASKED, HookPoint
from interpose.hooks.api.messages import response_class
from interpose.hooks.dispatch.client import HookCallError
from interpose.hooks.dispatch.hook_server import OK, Metadata, RegisteredServer
from interpose.hooks.dispatch.merge import FieldChange, HookAnswerError, MergeResult, apply_changes, merge
from interpose.hooks.dispatch.requests import HookSubject
from interpose.hooks.dispatch.wire import repeats
from interpose.log import RateLimited

_log = logging.getLogger(__name__)

_HIDDEN: Final = "(hidden)"
# What an answer may add to what it repeats. Far above any use, and small enough to be merged without holding the loop.
_ANSWER_LIMIT: Final = 256 * 1024
_MAX_LISTED: Final = 5


class HookRefusedError(Exception):
    """A hook server under Fail stopped a call. The text is what the kubelet sees."""

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
        # No plugin may hide a pod from the others.
        self._protected = frozenset(f"{name}[{settings.skip_key}]" for name in ("labels", "annotations"))
        self._now = now
        self._limited = RateLimited(_log, clock=now)

    async def ask_all(
        self, point: HookPoint, plugins: Sequence[RegisteredServer], subject: HookSubject, until: float
    ) -> tuple[tuple[FieldChange, ...], dict[str, str]]:
        """Every change that all plugins together make, in order, and by path the plugin of the last change.

        Raises HookRefusedError for a plugin under Fail.
        """
        data = subject.data
        changed: Any = None  # the message for the next hook server, once it is another one
        metadata: Metadata = (RESOURCES_ASKED,) if point is HookPoint.PRE_UPDATE_CONTAINER_RESOURCES else ()
        changes: list[FieldChange] = []
        owners: dict[str, RegisteredServer] = {}
        for plugin in plugins:
            if not subject.is_selected_by(plugin.server.selector):
                continue
            if changed is not None:
                data = changed.SerializeToString()
            result = await self._ask(point, plugin, data, subject, changed, metadata, until)
            if isinstance(result, str):
                if plugin.is_required:
                    raise HookRefusedError(plugin, point, result)
                continue
            if not result.changes and not result.refused:
                continue
            self._record_changes(point, plugin, subject, result, owners)
            if changed is None:
                changed = subject.copy()  # the message for Post hooks stays as it was
            apply_changes(changed, result.changes)
            changes += result.changes
        return tuple(changes), {path: plugin.name for path, plugin in owners.items()}

    async def notify(
        self, point: HookPoint, plugin: RegisteredServer, subject: HookSubject, metadata: Metadata, until: float
    ) -> str | None:
        """Call a Post hook, whose answer is ignored. Returns the error text, None without an error."""
        if not subject.is_selected_by(plugin.server.selector):
            return None
        result = await self._ask(point, plugin, subject.data, subject, None, metadata, until)
        return result if isinstance(result, str) else None

    async def _ask(
        self,
        point: HookPoint,
        plugin: RegisteredServer,
        message: bytes,
        subject: HookSubject,
        changed: Any,
        metadata: Metadata,
        until: float,
    ) -> MergeResult | str:
        """Call one plugin: its changes, or the error as text. `message` is the subject, or `changed` if set."""
        started = self._now()
        usual = plugin.server.timeout or self._settings.timeout
        timeout = min(usual, until - started)
        try:
            if timeout <= 0:
                return self._record_failure(point, plugin, "timeout", "no time was left for it", started)
            answer = await plugin.caller.call(
                point, message, metadata=metadata, timeout=timeout, hurried=timeout < usual
            )
            if len(answer) > _ANSWER_LIMIT + 2 * len(message):
                raise HookAnswerError(f"it has {len(answer)} bytes, for a question of {len(message)}")
            if not answer or point.is_post or repeats(message, answer, about_pod=point.about_pod):
                merged = _NOTHING
            else:
                sent = subject.message if changed is None else changed
                merged = merge(sent, response_class(point).FromString(answer), self._protected, subject.in_force)
        except HookCallError as failed:
            return self._record_failure(point, plugin, failed.reason, f"{failed.code.name}: {failed.message}", started)
        except HookAnswerError as invalid:
            return self._record_failure(point, plugin, "bad-answer", f"its answer cannot be used: {invalid}", started)
        except Exception as error:
            # Bytes that are no answer (DecodeError, whose class is protobuf's), or a bug of ours in the merge: either
            # way this plugin's answer is lost, and its policy decides.
            plugin.caller.note_unreadable_answer(str(error))
            return self._record_failure(point, plugin, "garbage", f"its answer cannot be read: {error}", started)
        plugin.stats.points[point].add(OK, self._now() - started)
        return merged

    def _record_failure(
        self, point: HookPoint, plugin: RegisteredServer, reason: str, text: str, started: float
    ) -> str:
        now = self._now()
        plugin.stats.record_failure(point, reason, text, now - started, now)
        level = logging.ERROR if plugin.is_required else logging.WARNING
        self._log_limited(level, "Hook server failed", plugin, point, reason, err=text)
        return text

    # -- counters and log

    def _record_changes(
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
            self._log_limited(
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
                self._log_limited(
                    logging.WARNING, text, plugin, point, change.path, earlier=earlier.name, field=change.path
                )
            if debug:
                kv = {"plugin": plugin.name, "hook": point.value, "field": change.path, **subject.log_fields}
                before, after = (_format_value(change.path, value) for value in (change.before, change.after))
                _log.debug("Hook server changed a field", extra={"kv": kv | {"before": before, "after": after}})

    def note_no_effect(self, point: HookPoint, paths: Sequence[str], subject: HookSubject) -> None:
        """Log changes of fields that this call does not have."""
        names = _join_some(paths, ", ")
        text = "Changes have no effect at this hook point"
        self._limited.log(
            logging.WARNING, text, key=f"{point} {names}", hook=point.value, fields=names, **subject.log_fields
        )

    def _log_limited(
        self, level: int, text: str, plugin: RegisteredServer, point: HookPoint, about: str, **kv: object
    ) -> None:
        """Log at most once a minute: plugins fail and conflict at the rate of calls. Metrics count each time."""
        key = f"{plugin.name} {point} {about}"
        self._limited.log(level, text, key=key, plugin=plugin.name, hook=point.value, **kv)


_NOTHING: Final = MergeResult()


def _join_some(texts: Sequence[str], between: str) -> str:
    """The first few texts, for a log line."""
    rest = len(texts) - _MAX_LISTED
    return between.join(texts[:_MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _format_value(path: str, value: object) -> object:
    """A value for the log; those of environment variables are hidden, they may be secrets."""
    if value is None:
        return "(unset)"
    return _HIDDEN if path.startswith("container_envs[") else value
