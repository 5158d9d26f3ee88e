"""Objects of policies, as NRI plugins have them: `kind: BalloonsPolicy`, and the options of the policy as its `spec`.

Such an object is a policy document in another form: its kind says which policy is active. It comes as a file, or from
the cluster by way of an agent. Parts of a spec that are about something else than a policy are checked, and named in
warnings; keys that nobody knows are mistakes. Pure.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents.constraints import cpu_constraints
from interpose.config.documents.fields import (
    Choice,
    FieldGroup,
    FieldReader,
    FlagField,
    NamedFields,
    Number,
    Report,
    Text,
    Unread,
    form_of,
)
from interpose.config.documents.policy import (
    PolicyDocument,
    constraint_warnings,
    ineffective,
    read_config_map,
    read_policy_document,
)
from interpose.config.documents.policy_options import OPTIONS, AnyCase, without_effect
from interpose.config.documents.yaml import DocumentNode, make_document_node
from interpose.errors import ConfigError

API_VERSION: Final = "config.nri/v1alpha1"
# The key under which an agent sends an object. No ConfigMap can have it: their keys have no slash.
OBJECT_KEY: Final = API_VERSION
# Kind -> the policy that it configures.
OBJECT_POLICIES: Final[Mapping[str, str]] = MappingProxyType(
    {"TopologyAwarePolicy": "topology-aware", "BalloonsPolicy": "balloons"}
)
_TEMPLATE: Final = "TemplatePolicy"
_MAX_RATE: Final = 1_000_000
# Capitals at the beginning, but for the one that begins the next word.
_FIRST_WORD: Final = re.compile(r"^([A-Z]+(?=[A-Z][a-z])|[A-Z]+)")
_OFF: Final = frozenset(("false", "no", "off"))


def is_policy_object(node: DocumentNode) -> bool:
    """Whether a document is an object of a policy, or says so."""
    header = {name: child.text for name, child in node.entries}
    return header.get("kind") in (*OBJECT_POLICIES, _TEMPLATE) or header.get("apiVersion", "").startswith("config.nri/")


def read_policy_file(node: DocumentNode, where: str) -> PolicyDocument:
    """A policy document in either form; ConfigError with every problem."""
    return read_policy_object(node, where) if is_policy_object(node) else read_policy_document(node, where)


def read_sent_config(data: Mapping[str, str], node_name: str) -> PolicyDocument:
    """A configuration that an agent has sent: the data of a ConfigMap, or an object. ConfigError with every problem."""
    text = data.get(OBJECT_KEY)
    if text is None:
        return read_config_map(data, node_name)
    where = f"object of {OBJECT_KEY}"
    try:
        sent = json.loads(text)
        about = sent["metadata"]
        title = f"{sent['kind']} {about['namespace']}/{about['name']}"
        # Without lines: whoever wrote the object has not written this text.
        node = make_document_node(sent)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{where}: cannot be read: {error}") from None
    except RecursionError:
        raise ConfigError(f"{where}: is nested too deeply") from None
    return read_policy_object(node, title)


def read_policy_object(node: DocumentNode, where: str) -> PolicyDocument:
    """An object as a policy document; `where` names it: "file /etc/x.yaml". ConfigError with every problem."""
    report = Report(where)
    kind = next((child.text for name, child in node.entries if name == "kind"), "")
    found: PolicyDocument | None = _OBJECTS.get(kind, _ANY_OBJECT).read(node, "", report)
    report.settle()
    warnings = tuple(_warnings(OBJECT_POLICIES[kind], spec_of(node), where))
    return replace(found or PolicyDocument(), warnings=warnings)


def spec_of(node: DocumentNode) -> DocumentNode:
    """The spec of an object; an empty group if it has none."""
    return next((child for name, child in node.entries if name == "spec"), DocumentNode(tag="map"))


def object_form(kind: str) -> dict[str, Any]:
    """The JSON Schema of the objects of a kind."""
    return _OBJECTS[kind].form()


# -- what is about something else than a policy


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A part of a spec that is checked and has no effect; the remark says what does it here, or that nothing does."""

    kind: FieldReader
    remark: str

    def read(self, node: DocumentNode, key: str, report: Report) -> None:
        self.kind.read(node, key, report)

    def form(self) -> dict[str, Any]:
        """That of the part."""
        return form_of(self.kind)


def _group(**keys: FieldReader) -> AnyCase:
    return AnyCase(FieldGroup(keys))


_RDT: Final = _group(
    enable=FlagField(), usePodQoSAsDefaultClass=FlagField(), force=FlagField(), options=Unread(), partitions=Unread()
)
_PARTS: Final[Mapping[str, Mapping[str, _Elsewhere]]] = MappingProxyType(
    {
        "control": {
            "cpu": _Elsewhere(_group(classes=NamedFields(Unread())), "frequencies of CPUs are not set"),
            "rdt": _Elsewhere(_RDT, "RDT classes are not assigned; the hook server limits caches by QoS"),
            "blockio": _Elsewhere(
                _group(enable=FlagField(), usePodQoSAsDefaultClass=FlagField()), "block I/O classes are not assigned"
            ),
        },
        "agent": {
            "nodeResourceTopology": _Elsewhere(FlagField(), "no NodeResourceTopology is written"),
            "podResourceAPI": _Elsewhere(FlagField(), "the kubelet is not asked for devices of pods"),
        },
    }
)
_LOG: Final = _Elsewhere(
    _group(debug=Unread(), source=FlagField(), klog=Unread()), "the log is set up by --log-level and --log-debug"
)
_INSTRUMENTATION: Final = _Elsewhere(
    _group(
        samplingRatePerMillion=Number(0, _MAX_RATE),
        tracingCollector=Text(),
        logExporter=Text(),
        metricsExporter=Text(),
        reportPeriod=Text(),
        logExportPeriod=Text(),
        httpEndpoint=Text(),
        prometheusExport=FlagField(),
        metrics=_group(enabled=Unread(), polled=Unread()),
    ),
    "metrics are on the admin socket and at --metrics-listen",
)
_SECTIONS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {
        **{name: AnyCase(FieldGroup(parts)) for name, parts in _PARTS.items()},
        "log": _LOG.kind,
        "instrumentation": _INSTRUMENTATION.kind,
    }
)


def _warnings(policy: str, spec: DocumentNode, where: str) -> Iterator[str]:
    """What stands in a spec and does nothing."""
    whole = {"log": _LOG, "instrumentation": _INSTRUMENTATION}
    for name, child in spec.entries:
        if (part := whole.get(name.lower())) is not None:
            yield from _remark(part, child, where, f"spec.{name}")
        parts = {key.lower(): part for key, part in _PARTS.get(name.lower(), {}).items()}
        for key, value in child.entries if parts else ():
            yield from _remark(parts[key.lower()], value, where, f"spec.{name}.{key}")
        if name.lower() in _CONSTRAINT_NAMES:
            yield from constraint_warnings(child, where, f"spec.{name}")
    for option, child in without_effect(policy, spec):
        yield ineffective(child, where, f"spec.{option}")


def _remark(part: _Elsewhere, node: DocumentNode, where: str, key: str) -> Iterator[str]:
    """A remark, unless the part is switched off."""
    switches = [node, *(child for name, child in node.entries if name.lower() == "enable")]
    if not any(switch.tag == "null" or (switch.tag == "bool" and switch.text.lower() in _OFF) for switch in switches):
        yield f"{ineffective(node, where, key)}: {part.remark}"


# -- the table

_CONSTRAINTS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {"availableResources": cpu_constraints(amounts=False), "reservedResources": cpu_constraints(amounts=True)}
)
_CONSTRAINT_NAMES: Final = frozenset(name.lower() for name in _CONSTRAINTS)


@dataclass(frozen=True, slots=True)
class _ObjectKind:
    """The kind of an object, one of the known ones."""

    kinds: tuple[str, ...]

    def read(self, node: DocumentNode, key: str, report: Report) -> str | None:
        """The kind, or None with a problem in the report."""
        if node.text == _TEMPLATE:
            report.say(node, key, f"{_TEMPLATE} configures no policy, it is a pattern for authors of plugins")
            return None
        found: str | None = Choice({kind: kind for kind in self.kinds}).read(node, key, report)
        return found

    def form(self) -> dict[str, Any]:
        """One of the kinds."""
        return {"type": "string", "enum": list(self.kinds)}


def _camel(name: str) -> str:
    """The name of an option as objects spell it: `pinCPU` for `PinCPU`, `cpuClasses` for `CPUClasses`."""
    return _FIRST_WORD.sub(lambda found: found[0].lower(), name)


def _document(policy: str, values: Mapping[str, Any]) -> PolicyDocument:
    """The document that a spec means: its constraints, and all other values as options of the policy."""
    names = {_camel(name): name for name in OPTIONS[policy].group.keys}
    kept = {names[name]: value for name, value in values.items() if name in names}
    return PolicyDocument(
        active=policy,
        available=values.get("availableResources"),
        reserved=values.get("reservedResources"),
        options=MappingProxyType({policy: OPTIONS[policy].group.make(kept)}),
    )


def _spec(policy: str) -> AnyCase:
    options = {_camel(name): kind for name, kind in OPTIONS[policy].group.keys.items()}
    return AnyCase(FieldGroup({**options, **_CONSTRAINTS, **_SECTIONS}, partial(_document, policy)))


def _object(kinds: tuple[str, ...], spec: FieldReader) -> FieldGroup:
    return FieldGroup(
        {
            "apiVersion": Choice({API_VERSION: API_VERSION}),
            "kind": _ObjectKind(kinds),
            "metadata": Unread(),
            "spec": spec,
            "status": Unread(),
        },
        lambda values: values.get("spec"),
        required=("apiVersion", "kind", "spec"),
    )


_OBJECTS: Final[Mapping[str, FieldGroup]] = MappingProxyType(
    {kind: _object((kind,), _spec(policy)) for kind, policy in OBJECT_POLICIES.items()}
)
# Of an object of another kind only that is wrong.
_ANY_OBJECT: Final = _object(tuple(OBJECT_POLICIES), Unread())
