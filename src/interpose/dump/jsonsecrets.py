"""Secrets in the JSON of verbose answers, which is no part of the protocol and differs between runtimes.

containerd shows the create request and the OCI spec, CRI-O the latter with annotations that hold JSON themselves; of
images both show the configuration with its environment, of themselves their settings with registry logins. So nothing
here relies on where something is, only on what it is called.

Pure. A text that cannot be read for certain (no JSON, a key twice, nested without end) is withheld as a whole.
"""

import json
import re
from typing import Any, Final

from interpose.config.dump_redaction import Redaction
from interpose.dump.hiding import REDACTED, Memo, hide_credentials, hide_value

# Plain words and sentences of the runtime about itself, no JSON in some versions.
_HARMLESS: Final = re.compile(r"golang|lastCNILoadStatus(\..*)?")
_LOGIN: Final = re.compile(r"auth|authorization|cookie|credentials?|.*(password|passwd|token|secret|apikey|privatekey)")
_ENV: Final = ("env", "envs")
_COMMANDS: Final = ("args", "cmd", "command", "entrypoint")
_WITHHELD: Final = re.compile(REDACTED + r"(: \d+ characters that are no JSON)?")
_NOTHING_IN_IT: Final = (bool, int, float, type(None))


class _TwiceError(ValueError):
    """A key is there twice: whoever reads it next may see the other value."""


class JsonSecrets:
    """Hides what a redaction says in JSON texts."""

    def __init__(self, redaction: Redaction) -> None:
        self._env = Memo(redaction.env.hides)
        # By how a key ends: `podAnnotations`, `io.kubernetes.cri-o.Labels`.
        self._maps: Final = {"annotations": Memo(redaction.annotation.hides), "labels": Memo(redaction.label.hides)}
        self._command = redaction.command

    def info(self, key: str, text: str) -> str:
        """One value of an `info` map."""
        if _HARMLESS.fullmatch(key):
            return hide_credentials(text)
        return self.text(text)

    def text(self, text: str) -> str:
        """A JSON text; the very same if there is nothing to hide."""
        if not text or _WITHHELD.fullmatch(text):
            return text
        try:
            document = json.loads(text, object_pairs_hook=_no_key_twice)
            hidden = self._value(document)
        except (ValueError, RecursionError):
            return f"{REDACTED}: {len(text)} characters that are no JSON"
        if hidden == document:
            return text
        # A lone surrogate has no UTF-8; as an escape it is what it was.
        shown = json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))
        return shown.encode(errors="backslashreplace").decode()

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._member(key, inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._value(inner) for inner in value]
        return hide_credentials(value) if isinstance(value, str) else value

    def _member(self, key: str, value: Any) -> Any:
        if isinstance(value, _NOTHING_IN_IT):
            return value
        name = key.lower()
        hides = self._map_of(name)
        if hides is not None:
            return self._map(hides, value)
        if name in _ENV:
            return [self._variable(one) for one in value] if isinstance(value, list) else self._named(self._env, value)
        if self._command and name in _COMMANDS:
            return _all_hidden(value)
        if not isinstance(value, dict) and _LOGIN.fullmatch(name.replace("_", "").replace("-", "")):
            return _all_hidden(value)
        return self._value(value)

    def _map_of(self, name: str) -> Memo | None:
        return next((hides for ending, hides in self._maps.items() if name.endswith(ending)), None)

    def _variable(self, variable: Any) -> Any:
        """`NAME=value`, or an object with `key` (or `name`) and `value`."""
        if isinstance(variable, str):
            name, equals, value = variable.partition("=")
            return f"{name}={hide_value(value)}" if equals and self._env[name] else variable
        if isinstance(variable, dict):
            names = [inner for key, inner in variable.items() if key.lower() in ("key", "name")]
            if len(names) == 1 and isinstance(names[0], str) and not self._env[names[0]]:
                return variable
            return {
                key: inner if key.lower() in ("key", "name") else _all_hidden(inner) for key, inner in variable.items()
            }
        return _all_hidden(variable)

    def _map(self, hides: Memo, value: Any) -> Any:
        """Annotations or labels: a map, or the text of one."""
        if isinstance(value, str):
            return self._text_of_map(hides, value)
        return self._named(hides, value)

    def _text_of_map(self, hides: Memo, text: str) -> str:
        try:
            document = json.loads(text, object_pairs_hook=_no_key_twice)
        except (ValueError, RecursionError):
            return hide_value(text)
        hidden = self._named(hides, document)
        return text if hidden == document else json.dumps(hidden, separators=(",", ":"))

    def _named(self, hides: Memo, value: Any) -> Any:
        """The values of a map by their keys. A value may be the text of such a map itself."""
        if not isinstance(value, dict):
            return _all_hidden(value)
        hidden = {}
        for key, inner in value.items():
            inside = self._map_of(key.lower())
            if hides[key]:
                hidden[key] = _all_hidden(inner)
            else:
                hidden[key] = self._value(inner) if inside is None else self._map(inside, inner)
        return hidden


def _all_hidden(value: Any) -> Any:
    """The same shape with marks in the place of texts."""
    if isinstance(value, str):
        return hide_value(value)
    if isinstance(value, dict):
        return {key: _all_hidden(inner) for key, inner in value.items()}
    return [_all_hidden(inner) for inner in value] if isinstance(value, list) else value


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _TwiceError
    return document
