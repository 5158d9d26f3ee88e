"""Where secrets can be in a kind of message, found out once: a plan that hides them in a parsed message.

A plan is made of steps, one for each field that can hold something, and descends only where there is something to find.
What a field is follows from the type it has or is in, else from its name; no method is named here, so a message that a
later version adds is covered as far as it is made of the same parts.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from interpose.config.dump_redaction import Redaction
from interpose.dump.hiding import REDACTED, Memo, hide_credentials, hide_token, hide_value
from interpose.dump.jsonsecrets import JsonSecrets

# Changes a message, or a part of it, and says whether there was something to change.
Plan: TypeAlias = Callable[[Any], bool]

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
_OUTPUTS: Final = frozenset({"stdout", "stderr"})
_MARK: Final = REDACTED.encode()


class Plans:
    """Makes the plans of a redaction. What is kept is bounded by the protocol."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._json = JsonSecrets(redaction)
        self._env = Memo(redaction.env.hides)
        # By how the name of a map ends.
        self._maps: Final = {
            "annotations": Memo(redaction.annotation.hides),
            "labels": Memo(redaction.label.hides),
            "label_selector": Memo(redaction.label.hides),
            "envs": self._env,
        }
        self._known: dict[str, Plan | None] = {}

    def of(self, descriptor: Any) -> Plan | None:
        """The plan of a whole message; None: nothing can be in it."""
        plan = self._of(descriptor)
        if not self._redaction.unknown:
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
            steps += [_text(one.name, hide_value) for one in descriptor.fields if one.name not in _SHOWN_OF_LOGIN]
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
            return _command(field.name) if self._redaction.command and field.name in _COMMANDS else None
        hide = hide_value if field.GetOptions().debug_redact else _TEXTS.get(field.name)
        return None if hide is None else _text(field.name, hide)

    def _map(self, field: Any) -> Plan | None:
        if field.name == "info":
            return _info(field.name, self._json.info)
        hides = next((hides for ending, hides in self._maps.items() if field.name.endswith(ending)), None)
        return None if hides is None else _values(field.name, hides)

    def _variable(self, variable: Any) -> bool:
        if variable.value and variable.value != _MARK and self._env[variable.key]:
            variable.value = _MARK
            return True
        return False


def _all(steps: list[Plan]) -> Plan:
    if len(steps) == 1:
        return steps[0]

    def run(message: Any) -> bool:
        changed = False
        for step in steps:
            if step(message):
                changed = True
        return changed

    return run


def _one(name: str, inner: Plan) -> Plan:
    def step(message: Any) -> bool:
        return message.HasField(name) and inner(getattr(message, name))

    return step


def _many(name: str, inner: Plan) -> Plan:
    def step(message: Any) -> bool:
        changed = False
        for part in getattr(message, name):
            if inner(part):
                changed = True
        return changed

    return step


def _text(name: str, hide: Callable[[str], str]) -> Plan:
    def step(message: Any) -> bool:
        text = getattr(message, name)
        hidden = hide(text)
        if hidden == text:
            return False
        setattr(message, name, hidden)
        return True

    return step


def _bytes(name: str) -> Plan:
    def step(message: Any) -> bool:
        if getattr(message, name) in (b"", _MARK):
            return False
        setattr(message, name, _MARK)
        return True

    return step


def _command(name: str) -> Plan:
    """Each word: how many there were stays to be seen."""

    def step(message: Any) -> bool:
        words = getattr(message, name)
        hidden = [hide_value(word) for word in words]
        if list(words) == hidden:
            return False
        words[:] = hidden
        return True

    return step


def _values(name: str, hides: Memo) -> Plan:
    def step(message: Any) -> bool:
        values = getattr(message, name)
        hidden = [key for key in values if hides[key] and values[key] not in ("", REDACTED)]
        for key in hidden:
            values[key] = REDACTED
        return bool(hidden)

    return step


def _info(name: str, hide: Callable[[str, str], str]) -> Plan:
    def step(message: Any) -> bool:
        values = getattr(message, name)
        hidden = {key: hide(key, text) for key, text in values.items()}
        changed = {key: text for key, text in hidden.items() if text != values[key]}
        values.update(changed)
        return bool(changed)

    return step


def _drop_unknown(message: Any) -> bool:
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return bool(message.ByteSize() != size)
