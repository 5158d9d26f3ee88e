"""`interpose config diff` compares what is meant, whatever it is written in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.config.effective import config_answer
from interpose.config.relay.settings import RelaySettings
from interpose.config.relay.table import RELAY
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response

ROOT = Path(__file__).parents[4]
HEADER = "apiVersion: interpose/v1\nkind: RelayConfig\n"
MAP = "apiVersion: v1\nkind: ConfigMap\ndata:\n"


def diff(*arguments: object, text: str | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["config", "diff", *map(str, arguments)], input=text)


def differences(*arguments: object) -> list[tuple[str, Any, Any]]:
    """Keys and both values."""
    found = json.loads(diff("-o", "json", *arguments).stdout)
    values = [[one[side] and one[side]["value"] for side in ("left", "right")] for one in found]
    return [(one["key"], *value) for one, value in zip(found, values, strict=True)]


def test_values_are_shown_with_their_origins(write: Any) -> None:
    """Of both sides; exit code 1."""
    first, second = write("a.yaml", HEADER + "process: {grace: 60s}\n"), write("b.yaml", HEADER + "listen: /x\n")
    result = diff(first, second)
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"--- {first}",
        f"+++ {second}",
        "listen",
        "  - /var/run/interpose/cri.sock  (default)",
        f"  + /x  (file {second}:3)",
        "process.grace",
        f"  - 1m  (file {first}:3)",
        "  + 30s  (default)",
    ]


def test_the_same_settings_in_other_words_are_no_difference(write: Any) -> None:
    """Exit code 0."""
    first, second = write("a.yaml", HEADER + "process: {grace: 60}\n"), write("b.json", "")
    second.write_text('{"apiVersion": "interpose/v1", "kind": "RelayConfig", "process": {"grace": "1m"}}')
    result = diff(first, second)
    assert (result.exit_code, result.output) == (0, f"no difference between {first} and {second}\n")


def test_one_file_is_compared_with_the_defaults() -> None:
    """The samples have them."""
    assert diff(ROOT / "deploy/interpose.yaml").exit_code == 0
    assert diff(ROOT / "deploy/hookserver.yaml", "default").exit_code == 0


def test_an_option_file_can_be_compared_with_settings(write: Any) -> None:
    """Both are those of a relay."""
    options, settings = write("o.cfg", "policy = static\n"), write("s.yaml", HEADER + "policy: {name: static}\n")
    assert "policy.name" not in [key for key, *_ in differences(options, settings)]


def test_a_document_can_be_compared_with_a_map(write: Any) -> None:
    """Spelling, groups and where it stands do not matter; the node does."""
    document = write("p.yaml", "policy: {active: static, static: {pinmemory: true}}\n")
    text = (
        f"{MAP}  policy: 'Active: static'\n  policy.static: 'PinMemory: true'\n  policy.static.n1: 'PinMemory: false'\n"
    )
    path = write("m.yaml", text)
    assert diff(document, path).exit_code == 0
    assert differences(document, path, "--node", "n1") == [("policy.static.PinMemory", "true", "false")]


def test_what_one_side_does_not_have_is_nothing(write: Any) -> None:
    """A document that says nothing has no active policy."""
    result = diff(write("p.yaml", "policy: {Active: static}\n"))
    assert result.output.splitlines()[2:5] == ["policy.Active", "  - nothing", "  + static  (file " + _place(result)]


def _place(result: Result) -> str:
    return result.output.splitlines()[4].partition("(file ")[2]


def test_a_running_relay_can_be_compared(serve: Callable[[RouteTable], str], write: Any) -> None:
    """With a file, by the address of its admin socket."""

    async def handler(_request: ServerRequest) -> ServerResponse:
        return json_response(config_answer(RELAY, RelaySettings(listen="/run/cri.sock"), {"listen": "flag --listen"}))

    address = serve({("GET", "/v1/config"): handler})
    assert differences("default", f"running:{address}") == [("listen", "/var/run/interpose/cri.sock", "/run/cri.sock")]
    assert diff(f"running:{address}", write("a.yaml", HEADER + "listen: /run/cri.sock\n")).exit_code == 0


def test_directories_for_kubectl_can_be_compared(tmp_path: Path) -> None:
    """Any other directory is too much."""
    (tmp_path / "policy.static").write_text("PinMemory: true\n")
    assert differences(tmp_path) == [("policy.static.PinMemory", "false", "true")]
    result = diff(ROOT / "samples/hookserver.d")
    assert (result.exit_code, "name one of them" in result.output) == (78, True)


def test_standard_input_can_be_compared(write: Any) -> None:
    """As a dash."""
    assert diff(write("a.yaml", HEADER), "-", text=HEADER).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["deploy/interpose.yaml", "deploy/hookserver.yaml"], 2, "cannot be compared: hookserver and relay"),
        (["deploy/interpose.yaml", "--program", "agent"], 2, "cannot be compared"),
        (["running", "samples/policy.yaml"], 2, "'running' has settings, it cannot be compared with policies"),
        (["no-such-file.yaml"], 78, "cannot be read"),
        (["running:/no/such.sock"], 2, "cannot connect to"),
        (["running", "--program", "webhook"], 2, "has no admin socket"),
        (["deploy/kustomize/base/webhook.yaml"], 78, "holds nothing that can be compared"),
    ],
)
def test_mistakes_are_told(arguments: list[str], code: int, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be compared is wrong usage; whoever cannot be asked is no difference."""
    monkeypatch.chdir(ROOT)
    result = diff(*arguments)
    assert (result.exit_code, message in result.output) == (code, True), result.output


def test_defaults_of_any_program_can_be_compared() -> None:
    """Where no file says whose they are."""
    assert diff("default", "default", "--program", "hookserver").exit_code == 0


def maps(**values: str) -> str:
    """A manifest with a map of one name in each of these namespaces."""
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m, namespace: {0}}}\ndata: {{policy.static: '{1}'}}\n"
    return "---\n".join(one.format(*item) for item in values.items())


def slos(**values: str) -> str:
    """A manifest with a NodeSLO for each of these nodes."""
    one = "apiVersion: slo.koordinator.sh/v1alpha1\nkind: NodeSLO\nmetadata: {{name: {0}}}\nspec: {1}\n"
    return "---\n".join(one.format(*item) for item in values.items())


def test_maps_of_one_name_are_not_mixed_up(write: Any) -> None:
    """They are told apart by their namespaces."""
    first = write("a.yaml", maps(one="PinMemory: true", two="PinMemory: true"))
    second = write("b.yaml", maps(one="PinMemory: false", two="PinMemory: true"))
    assert differences(first, second) == [("ConfigMap one/m: policy.static.PinMemory", "true", "false")]


def test_nodes_are_not_mixed_up(write: Any) -> None:
    """Each has a NodeSLO of its own name, in whatever order."""
    on, off = (f"{{resourceUsedThresholdWithBE: {{enable: {word}}}}}" for word in ("true", "false"))
    first, second = write("a.yaml", slos(n1=on, n2=on)), write("b.yaml", slos(n2=on, n1=off))
    assert differences(first, second) == [("NodeSLO n1: slo.suppress_enabled", "true", "false")]


def test_each_of_several_maps_is_compared_with_the_defaults(write: Any) -> None:
    """And not the defaults with nothing."""
    path = write("a.yaml", maps(one="PinMemory: true", two="PinMemory: false"))
    assert differences(path) == [("ConfigMap one/m: policy.static.PinMemory", "false", "true")]


def test_the_only_map_is_compared_whatever_else_is_there(write: Any) -> None:
    """A document means the same as a map beside a NodeSLO, which the document does not have."""
    document = write("p.yaml", "policy: {static: {PinMemory: true}}\n")
    both = write("m.yaml", f"{maps(one='PinMemory: true')}---\n{slos(n1='{}')}")
    found = differences(document, both)
    assert found
    assert {key.partition(": ")[0] for key, *_ in found} == {"NodeSLO n1"}


def test_an_object_that_stands_twice_in_a_file_is_refused(write: Any) -> None:
    """Nobody knows which of them is meant."""
    result = diff(write("a.yaml", f"{maps(one='PinMemory: true')}---\n{maps(one='PinMemory: false')}"))
    assert (result.exit_code, "ConfigMap one/m: appears more than once" in result.output) == (78, True)
