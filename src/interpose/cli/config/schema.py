"""`interpose config schema`: JSON Schema for editors and for checks where interpose is not installed."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import click

from interpose.config.documents.policy_objects import OBJECT_POLICIES, object_form
from interpose.config.json_schema import document_schema, settings_schema
from interpose.config.programs import PROGRAMS

_POLICY: Final = "policy"
_NODESLO: Final = "nodeslo"
# By the names of schemas.
_OBJECTS: Final = MappingProxyType({kind.lower(): kind for kind in OBJECT_POLICIES})
NAMES: Final = (*PROGRAMS, _POLICY, *_OBJECTS, _NODESLO)


@click.command("schema")
@click.argument("name", metavar="[NAME]", type=click.Choice(NAMES), default=NAMES[0])
def schema(name: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a settings file, of policy documents, of objects of policies or of
    NodeSLO documents.

    NAME is relay (the default), hookserver, agent and so on, policy, topologyawarepolicy, balloonspolicy or nodeslo.
    Editors with a language server for YAML
    take it from a comment in the first line of a file:

    \b
      # yaml-language-server: $schema=relay.json

    The program checks more than a schema can say: `interpose config validate` tells what it thinks of a file.
    """
    click.echo(schema_text(name), nl=False)


def schema_text(name: str) -> str:
    """The schema as it stands in a file."""
    return json.dumps(_schema(name), indent=2, ensure_ascii=False) + "\n"


def _schema(name: str) -> Mapping[str, Any]:
    if name == _POLICY:
        from interpose.config.documents.policy import policy_form

        return document_schema("PolicyDocument", policy_form())
    if name in _OBJECTS:
        return document_schema(_OBJECTS[name], object_form(_OBJECTS[name]))
    if name == _NODESLO:
        from interpose.hooks.server.node.node_document import node_form

        return document_schema("NodeSLO", node_form())
    return settings_schema(PROGRAMS[name].schema())
