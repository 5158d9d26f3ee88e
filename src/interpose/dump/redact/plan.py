"""Where secrets can be in a kind of message, found out once: a plan that hides them in a parsed message.

A plan is made of steps, one for each field that can hold something, and descends only where there is something to find.
What a field is follows from the type it has or is in, else from its name; no method is named here, so a message that a
later version adds is covered as far as it is made of the same parts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from interpose.config.dump_redaction import Redaction
from interpose.dump.redact.json import JsonSecrets
from interpose.dump.redact.patterns import (
    REDACTED,
    Memo,
    hide_credentials,
    hide_option,
    hide_token,
    hide_value,
    names_access,
)

# Changes a message, or a part of it, if there is something to change.
Plan: TypeAlias = Callable[[Any], None]

# All others of its fields are secrets, those of later versions too.
_SHOWN_OF_LOGIN: Final = frozenset({"username", "server_address"})
_LOGIN: Final = "AuthConfig"
_VARIABLE: Final = "KeyValue"
# Texts by the name of their field.
_TEXTS: Final[dict[str, Callable[[str], str]]] = {
    "url": hide_token,
    "credential_spec": hide_value,
    "server_address": hide_credentials,
    "message": hide_credentials,
    "reason": hide_credentials,
}
_COMMANDS: Final = frozenset({"command", "args", "cmd"})
_MOUNT_OPTIONS: Final = "mount_options"
_OUTPUTS: Final = frozenset({"stdout", "stderr"})
_MARK: Final = REDACTED.encode()


class Plans:
    """Makes the plans of a redaction. What is kept is bounded by the protocol."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._json = JsonSecrets(redaction)
        self._env = Memo(redaction.env.hides)
        # By how the name of a map ends: which values are hidden, and how the others are shown. Values of labels are
        # too short and plain to hold anything.
        text = Memo(self._json.any_text)
        label = Memo(redaction.label.hides)
        option = Memo(lambda name: redaction.options or names_access(name))
        self._maps: Final[dict[str, tuple[Memo[bool], Memo[str] | None]]] = {
            "annotations": (Memo(redaction.annotation.hides), text),
            "labels": (label, None),
            "label_selector": (label, None),
            "envs": (self._env, None),
            "options": (option, text),
        }
        self._known: dict[str, Plan | None] = {}

    def of(self, descriptor: Any, *, secrets: bool = False) -> Plan | None:
        """The plan of a whole message; None: nothing can be in it.

        Where `secrets` are, fields that this version does not know may be some, too.
        """
        plan = self._of(descriptor)
        if not self._redaction.unknown and not secrets:
            return plan
        return _all([*([plan] if plan else ()), _drop_unknown])

    def _of(self, descriptor: Any) -> Plan | None:
        name = descriptor.full_name
        if name not in self._known:
            self._known[name] = None  # a message inside of itself ends here
            self._known[name] = self._make(descriptor)
        return self._known[name]

    def _make(self, descriptor: Any) -> Plan | None:
        if descriptor.name == _VARIABLE:
            return _all([self._variable, _drop_unknown])
        steps = [step for step in map(self._step, descriptor.fields) if step is not None]
        if descriptor.name == _LOGIN:
            steps += [_text(field.name, hide_value) for field in descriptor.fields if field.name not in _SHOWN_OF_LOGIN]
            steps.append(_drop_unknown)
        return _all(steps) if steps else None

    def _step(self, field: Any) -> Plan | None:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                return self._map(field)
            inner = self._of(field.message_type)
            return None if inner is None else (_many if field.is_repeated else _one)(field.name, inner)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return _bytes(field.name) if self._redaction.output and field.name in _OUTPUTS else None
        if field.type != FieldDescriptor.TYPE_STRING:
            return None
        if field.is_repeated:
            return self._words(field.name)
        hide = hide_value if field.GetOptions().debug_redact else _TEXTS.get(field.name)
        return None if hide is None else _text(field.name, hide)

    def _words(self, name: str) -> Plan | None:
        if name == _MOUNT_OPTIONS:
            return _each(name, Memo(partial(hide_option, every=self._redaction.options)).__getitem__)
        return _each(name, hide_value) if self._redaction.command and name in _COMMANDS else None

    def _map(self, field: Any) -> Plan | None:
        if field.name == "info":
            return _info(field.name, self._json.info)
        found = next((rules for ending, rules in self._maps.items() if field.name.endswith(ending)), None)
        return None if found is None else _values(field.name, *found)

    def _variable(self, variable: Any) -> None:
        if variable.value and self._env[variable.key]:
            variable.value = _MARK


def _all(steps: list[Plan]) -> Plan:
    if len(steps) == 1:
        return steps[0]

    def run(message: Any) -> None:
        for step in steps:
            step(message)

    return run


def _one(name: str, inner: Plan) -> Plan:
    def step(message: Any) -> None:
        if message.HasField(name):
            inner(getattr(message, name))

    return step


def _many(name: str, inner: Plan) -> Plan:
    def step(message: Any) -> None:
        for part in getattr(message, name):
            inner(part)

    return step


def _text(name: str, hide: Callable[[str], str]) -> Plan:
    def step(message: Any) -> None:
        text = getattr(message, name)
        hidden = hide(text)
        if hidden != text:
            setattr(message, name, hidden)

    return step


def _bytes(name: str) -> Plan:
    def step(message: Any) -> None:
        if getattr(message, name):
            setattr(message, name, _MARK)

    return step


def _each(name: str, hide: Callable[[str], str]) -> Plan:
    """Each word: how many there were stays to be seen."""

    def step(message: Any) -> None:
        words = getattr(message, name)
        if words:
            words[:] = [hide(word) for word in words]

    return step


def _values(name: str, hides: Memo[bool], text: Memo[str] | None) -> Plan:
    def step(message: Any) -> None:
        values = getattr(message, name)
        for key, value in list(values.items()):
            shown = hide_value(value) if hides[key] else value if text is None else text[value]
            if shown != value:
                values[key] = shown

    return step


def _info(name: str, hide: Callable[[str, str], str]) -> Plan:
    def step(message: Any) -> None:
        values = getattr(message, name)
        values.update({key: hide(key, text) for key, text in values.items()})

    return step


def _drop_unknown(message: Any) -> None:
    message.DiscardUnknownFields()
