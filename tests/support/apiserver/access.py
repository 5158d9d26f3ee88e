"""Who asks, and whether they may: tokens and rules as those of a ClusterRole. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.apiserver.paths import Target
from tests.support.apiserver.problems import RefusedError, unauthorized

ANONYMOUS = "system:anonymous"


class _Granted(NamedTuple):
    namespace: str  # "" is everywhere
    rule: Mapping[str, Any]


class Access:
    """Tokens by user, and what users may do. Nobody named in `restrict` may do everything."""

    def __init__(self, tokens: Mapping[str, str] | None = None) -> None:
        """Without tokens nobody has to show one."""
        self.tokens = dict(tokens or {})
        self._granted: dict[str, list[_Granted]] = {}

    def user(self, authorization: str, certificate: str = "") -> str:
        """Who it is, by a header or by the name in a client's certificate; RefusedError 401 if nobody we know."""
        if certificate:
            return certificate
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and (user := self.tokens.get(token.strip())):
            return user
        if authorization or self.tokens:
            raise unauthorized()
        return ANONYMOUS

    def restrict(self, user: str, rules: Sequence[Mapping[str, Any]], *, namespace: str = "") -> None:
        """Let a user do this and nothing else; more calls add up. With a namespace it is a Role of that one."""
        self._granted.setdefault(user, []).extend(_Granted(namespace, rule) for rule in rules)

    def forbid_all(self, user: str) -> None:
        """Take away everything that was granted."""
        self._granted[user] = []

    def check(self, user: str, target: Target, name: str) -> None:
        """RefusedError 403 unless some rule allows it. `name` is what the request restricts itself to, if anything."""
        granted = self._granted.get(user)
        if granted is None or any(_allows(entry, target, name) for entry in granted):
            return
        raise _forbidden(user, target)


def _allows(entry: _Granted, target: Target, name: str) -> bool:
    rule = entry.rule
    names = rule.get("resourceNames") or ()
    return (
        entry.namespace in ("", target.namespace)
        and _has(rule.get("verbs"), target.verb)
        and _has(rule.get("apiGroups"), target.kind.resource.group)
        and _has(rule.get("resources"), target.resource_path)
        # A new object has no name yet: rules by name never allow `create`.
        and (not names or (target.verb != "create" and name in names))
    )


def _has(words: Sequence[str] | None, word: str) -> bool:
    return words is not None and ("*" in words or word in words)


def _forbidden(user: str, target: Target) -> RefusedError:
    kind, where = (
        target.kind,
        f' in the namespace "{target.namespace}"' if target.namespace else " at the cluster scope",
    )
    # A selector by name counts for the rules, and still the message speaks of all objects.
    named = f' "{target.name}"' if target.name else ""
    message = (
        f"{kind.qualified}{named} is forbidden: "
        f'User "{user}" cannot {target.verb} resource "{target.resource_path}" '
        f'in API group "{kind.resource.group}"{where}'
    )
    details = {"name": target.name, "group": kind.resource.group, "kind": kind.resource.plural}
    return RefusedError(403, "Forbidden", message, {key: value for key, value in details.items() if value})
