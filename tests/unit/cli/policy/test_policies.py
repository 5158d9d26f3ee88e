"""`interpose policies` lists what there is."""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.cli.policy.policies import OPTIONS
from interpose.config.documents import policy_options
from interpose.config.documents.fields import FieldGroup, Unread
from interpose.config.documents.policy_options import AnyCase
from interpose.core.policy.names import POLICIES
from interpose.core.policy.registry import options_type
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response


def run(*arguments: str) -> Result:
    """The command, where no relay runs unless one is named."""
    admin = [] if "--admin" in arguments else ["--admin", "/nonexistent/admin.sock"]
    return CliRunner().invoke(cli, ["policies", *arguments, *admin])


def keys(kind: AnyCase, prefix: str = "") -> list[str]:
    """The keys that a document may have, those of groups by their paths."""
    group = kind.group
    assert isinstance(group, FieldGroup)
    found: list[str] = []
    for name, value in group.keys.items():
        if isinstance(value, AnyCase):
            found += keys(value, f"{name}.")
        elif not isinstance(value, Unread):
            found.append(prefix + name)
    return found


@pytest.mark.parametrize("name", [one.name for one in POLICIES])
def test_every_option_of_a_document_is_listed(name: str) -> None:
    """And no other."""
    assert sorted(option.name for option in OPTIONS[name]) == sorted(keys(policy_options.OPTIONS[name]))


@pytest.mark.parametrize("name", [one.name for one in POLICIES])
def test_defaults_are_those_of_the_policy(name: str) -> None:
    """As many as it has options."""
    kind = options_type(name)
    defaults = (
        [getattr(kind(), field.name) for field in fields(kind) if field.name not in ("maker", "devices")]
        if is_dataclass(kind)
        else []
    )
    shown = {True: "true", False: "false"}
    expected = sorted(shown[value] if isinstance(value, bool) else str(value or "") for value in defaults)
    assert sorted(option.default for option in OPTIONS[name]) == expected


def test_the_list_needs_no_relay() -> None:
    """Nothing is marked then."""
    result = run()
    assert result.exit_code == 0
    assert all(one.description in result.output for one in POLICIES)
    assert "active" not in result.output
    assert [one["active"] for one in json.loads(run("-o", "json").output)] == [None] * len(POLICIES)


def test_the_active_one_is_marked(serve: Callable[[RouteTable], str]) -> None:
    """If a relay can be asked."""

    async def policy(request: ServerRequest) -> ServerResponse:
        return json_response({"policy": "static"})

    address = serve({("GET", "/v1/policy"): policy})
    assert "static  * active" in run("--admin", address).output
    listed = json.loads(run("-o", "json", "--admin", address).output)
    assert {one["name"]: one["active"] for one in listed}["static"] is True


def test_a_relay_without_policies_marks_nothing(serve: Callable[[RouteTable], str]) -> None:
    """It passes everything through."""
    assert "active" not in run("--admin", serve({})).output
