"""Available and reserved resources in documents: `{cpu: ..., memory: ...}`, of which only CPUs are read. Pure."""

from dataclasses import dataclass
from typing import Any

from interpose.config.documents.amounts import DOMAINS, CpuAmount, cpu_amount
from interpose.config.documents.fields import FieldGroup, FieldReader, Report, Unread
from interpose.config.documents.policy_options import AnyCase
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.text import quoted


@dataclass(frozen=True, slots=True)
class CpuConstraint:
    """An amount of CPU; without `amounts` it must say which CPUs."""

    amounts: bool

    def read(self, node: DocumentNode, key: str, report: Report) -> CpuAmount | None:
        if node.tag not in ("str", "int", "float"):
            report.expected("an amount of CPU or a list of CPUs", "str", node, key)
            return None
        try:
            amount = cpu_amount(node.text)
        except ValueError as error:
            report.say(node, key, str(error))
            return None
        if amount.milli is not None and not self.amounts:
            report.say(node, key, f"{quoted(node.text)} is an amount, say which CPUs: cpuset:0-7 or cgroup:DIR")
        return amount

    def form(self) -> dict[str, Any]:
        """A number of CPUs, or text of which only the reader can tell."""
        return {"type": ["string", "number"] if self.amounts else ["string", "integer"]}


def cpu_constraints(*, amounts: bool) -> AnyCase:
    """The group of one kind of resources; without `amounts` it must say which CPUs."""
    kinds: dict[str, FieldReader] = {domain: Unread() for domain in DOMAINS}
    return AnyCase(FieldGroup(kinds | {"cpu": CpuConstraint(amounts)}, lambda values: values.get("cpu")))
