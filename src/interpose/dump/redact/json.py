"""Secrets in JSON: of annotations, and of verbose answers, where it differs between runtimes.

containerd shows the create request and the OCI spec, CRI-O the latter with annotations that hold JSON themselves; of
images both show the configuration with its environment and how they were built, of themselves their settings with
registry logins. So nothing here relies on where something is, only on what it is called.

Pure. A text of a verbose answer that cannot be read for certain (no JSON, a key twice, nested without end) is withheld
as a whole. JSON inside of JSON is read however deep it is: with each level its quotes take twice the room.
"""

import json
import re
from enum import Enum, auto
from typing import Any, Final

from interpose.config.dump_redaction import Redaction
from interpose.dump.redact.patterns import (
    REDACTED,
    Memo,
    hide_credentials,
    hide_option,
    hide_value,
    names_access,
    names_secret,
    squeezed,
)

# Plain words and sentences of the runtime about itself, no JSON in some versions.
_HARMLESS: Final = re.compile(r"golang|lastCNILoadStatus(\..*)?")
_WITHHELD: Final = re.compile(REDACTED + r"(: \d+ characters that are not JSON)?")


class _Kind(Enum):
    """What is under a name."""

    ANNOTATIONS = auto()
    LABELS = auto()
    VARIABLES = auto()
    COMMAND = auto()
    OPTIONS = auto()
    SECRET = auto()
    OTHER = auto()


# By names without `-`, `_`, `.` and case: `podAnnotations`, `io.kubernetes.cri-o.Labels`, `default_env`. How an image
# was built shows its variables, and those of the build.
_KINDS: Final = (
    (re.compile(r".*annotations"), _Kind.ANNOTATIONS),
    (re.compile(r".*labels"), _Kind.LABELS),
    (re.compile(r".*(env|envs|envvars?|environ|environment|environmentvariables?)"), _Kind.VARIABLES),
    (re.compile(r"args|cmd|command|commandline|entrypoint"), _Kind.COMMAND),
    (re.compile(r"(mount)?options"), _Kind.OPTIONS),
    (re.compile(r"createdby|comment|containerconfig"), _Kind.SECRET),
)


class _TwiceError(ValueError):
    """A key appears twice: whoever reads it next may see the other value."""


class JsonSecrets:
    """Hides what a redaction says in JSON texts."""

    def __init__(self, redaction: Redaction) -> None:
        self._env = Memo(redaction.env.hides)
        self._maps: Final = {
            _Kind.ANNOTATIONS: Memo(redaction.annotation.hides),
            _Kind.LABELS: Memo(redaction.label.hides),
        }
        self._command = redaction.command
        self._options = redaction.options
        self._option = Memo(lambda name: redaction.options or names_access(name))
        self._kinds = Memo(_kind)

    def info(self, key: str, text: str) -> str:
        """One value of an `info` map."""
        if _HARMLESS.fullmatch(key):
            return hide_credentials(text)
        return self.text(text, key)

    def text(self, text: str, key: str = "") -> str:
        """A JSON text under a key; the very same if there is nothing to hide."""
        if not text or _WITHHELD.fullmatch(text):
            return text
        try:
            return self._hidden(text, key)
        except (ValueError, RecursionError):
            return f"{REDACTED}: {len(text)} characters that are not JSON"

    def any_text(self, text: str) -> str:
        """A text that may be JSON, and need not."""
        if not text.lstrip().startswith(("{", "[")):
            return hide_credentials(text)
        try:
            return self._hidden(text)
        except json.JSONDecodeError:
            return hide_credentials(text)
        except (ValueError, RecursionError):
            return REDACTED

    def _hidden(self, text: str, key: str = "") -> str:
        document = json.loads(text, object_pairs_hook=_no_key_twice)
        hidden = self._member(key, document)
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
        return self.any_text(value) if isinstance(value, str) else value

    def _member(self, key: str, value: Any) -> Any:
        kind = self._kinds[key]
        if kind is _Kind.OTHER:
            return self._value(value)
        if kind in self._maps:
            return self._map(self._maps[kind], value)
        if kind is _Kind.VARIABLES:
            return (
                [self._variable(variable) for variable in value]
                if isinstance(value, list)
                else self._named(self._env, value)
            )
        if kind is _Kind.OPTIONS:
            return self._mount_options(value)
        if kind is _Kind.COMMAND and not self._command:
            return self._value(value)
        return _all_hidden(value)

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

    def _mount_options(self, value: Any) -> Any:
        """A list as mounts have it, or a map; everything else is what it is."""
        if isinstance(value, dict):
            return self._named(self._option, value)
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return [hide_option(text, every=self._options) for text in value]
        return self._value(value)

    def _map(self, hides: Memo[bool], value: Any) -> Any:
        """Annotations or labels: a map, or the text of one."""
        if isinstance(value, str):
            return self._text_of_map(hides, value)
        return self._named(hides, value)

    def _text_of_map(self, hides: Memo[bool], text: str) -> str:
        try:
            document = json.loads(text, object_pairs_hook=_no_key_twice)
        except (ValueError, RecursionError):
            return hide_value(text)
        hidden = self._named(hides, document)
        return text if hidden == document else json.dumps(hidden, separators=(",", ":"))

    def _named(self, hides: Memo[bool], value: Any) -> Any:
        """The values of a map by their keys. A value may be the text of such a map itself."""
        if not isinstance(value, dict):
            return _all_hidden(value)
        hidden = {}
        for key, inner in value.items():
            inside = self._maps.get(self._kinds[key])
            if hides[key]:
                hidden[key] = _all_hidden(inner)
            else:
                hidden[key] = self._value(inner) if inside is None else self._map(inside, inner)
        return hidden


def _kind(name: str) -> _Kind:
    plain = squeezed(name)
    known = next((kind for pattern, kind in _KINDS if pattern.fullmatch(plain)), _Kind.OTHER)
    return _Kind.SECRET if known is _Kind.OTHER and names_secret(name) else known


def _all_hidden(value: Any) -> Any:
    """The same shape with marks in the place of texts and numbers. Nothing, true and false tell nothing."""
    if isinstance(value, dict):
        return {key: _all_hidden(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_all_hidden(inner) for inner in value]
    return value if value is None or value == "" or isinstance(value, bool) else REDACTED


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _TwiceError
    return document
