"""The page about dockerd says what is so: its tables are held against the code, its settings exist."""

import re
from pathlib import Path

import pytest

from interpose.cli.compat.koord_runtime_proxy import FLAGS
from interpose.config.endpoint import WELL_KNOWN_DOCKER
from interpose.config.load import load
from interpose.config.relay.table import RELAY
from interpose.dump.model.call import NO_SUBJECT, Assembler, Subject
from interpose.dump.model.frames import Begin, End, Message, MessageSide
from interpose.dump.output.list import CallListWriter
from interpose.net.grpc.status import Code
from interpose.relay.docker.routes import METHODS_OF, DockerOperation, classify
from interpose.relay.docker.translate import hostconfig
from interpose.relay.docker.translate.errors import code_of_status, status_of_code

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/docker.md").read_text()
NINE = 1_763_283_600_219_000_000  # 2025-11-16 09:00 UTC
WEB = Subject(namespace="shop", pod="web-0", container="app")
# Flags of other programs on the page.
FOREIGN = {"--docker-endpoint", "--docker", "--container-runtime-endpoint", "--now", "--mode"}


def rows(title: str) -> list[list[str]]:
    """The cells of the table whose first line is this."""
    lines = PAGE.partition(f"{title}\n")[2].splitlines()[1:]
    table = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]


def codes(cell: str) -> list[str]:
    """What stands as code in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def test_the_table_of_calls_is_that_of_the_relay() -> None:
    """Each act once, with the methods it may become: that of a sandbox first."""
    found = {}
    for endpoint, sandbox, container in rows("| Docker | of a sandbox | of a container |"):
        method, path = codes(endpoint)[0].split(" ")
        route = classify(method, path.replace("{id}", "x"), "")
        assert route.endpoint.name == codes(endpoint)[0]
        assert route.endpoint.operation is not None
        act = DockerOperation.RESET if endpoint.endswith("with a body") else route.endpoint.operation
        found[act] = tuple(codes(sandbox) + codes(container))
    assert found == dict(METHODS_OF)


def test_the_table_of_resources_is_that_of_the_relay() -> None:
    """Every field of CRI that Docker has a key for."""
    found = {codes(ours)[0]: codes(theirs)[0] for ours, theirs in rows("| CRI | Docker |")}
    assert found == dict(hostconfig.KEYS)
    without = codes(rows("| | |")[0][0])
    assert tuple(without) == hostconfig.UNKNOWN


def test_refusals_have_the_statuses_of_the_page() -> None:
    """Code by code."""
    found = {name: int(status) for text, status in rows("| code of the refusal | HTTP |") for name in codes(text)}
    del found["Fail"]
    assert found == {name: status_of_code(Code[name]) for name in found}
    assert len(found) == 11


def test_answers_of_dockerd_have_the_codes_of_the_page() -> None:
    """Status by status; the second code of a row is that of a create."""
    for numbers, text in rows("| HTTP | code |"):
        for number in map(int, numbers.split(", ")):
            usual, *creating = codes(text)
            assert code_of_status(number) is Code[usual]
            assert code_of_status(number, creating=True) is Code[(creating or [usual])[0]]


def test_sockets_are_those_of_the_program() -> None:
    """Where the relay listens, and where it looks for dockerd."""
    settings = load(RELAY, flags={}, env={"INTERPOSE_BACKEND": "docker"}).settings
    assert f"listens on `{settings.listen}`" in PAGE
    assert "finds dockerd at " + " or ".join(f"`{path}`" for path in WELL_KNOWN_DOCKER) in PAGE.replace("\n", " ")


def test_flags_and_keys_of_the_page_exist() -> None:
    """Those of the relay, of the drop-in, and of programs beside it."""
    ours = {setting.flag for setting in RELAY.table} | {f"--{name}" for name in FLAGS}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - ours - FOREIGN == set()
    keys = set(re.findall(r"`(limits\.[a-z_]+)`", PAGE))
    assert len(keys) == 4
    assert keys <= {setting.key for setting in RELAY.table}


def example() -> list[str]:
    """A call that passed and one that was intercepted, as a list shows them."""
    calls = (
        (17, "/docker/GET /v1.41/containers/json", 1_204_000, (), NO_SUBJECT),
        (18, "/runtime.v1.RuntimeService/CreateContainer", 48_100_000, ("batch",), WEB),
    )
    listed = CallListWriter(110)
    lines = [listed.head()]
    for number, path, elapsed, changed_by, subject in calls:
        assembler = Assembler()
        assembler.feed(Begin(number=number, time=NINE + number * 10**8, path=path))
        if subject:
            assembler.feed(Message(number=number, at=0, side=MessageSide.REQUEST, size=1200, body=b""))
        flow = assembler.feed(End(number=number, elapsed=elapsed, code=0, changed_by=changed_by)).flow
        assert flow is not None
        flow.subject = subject
        lines.append(listed.lines(flow)[-1])
    return lines


def test_the_example_of_a_dump_is_what_is_shown() -> None:
    """Line by line."""
    assert "```\n" + "\n".join(example()) + "\n```\n" in PAGE


@pytest.mark.parametrize("name", re.findall(r"deploy/\S+\.conf", PAGE))
def test_files_of_the_page_exist(name: str) -> None:
    """What is to be copied is there."""
    assert (ROOT / name).is_file()


def test_the_list_at_the_top_leads_to_every_section() -> None:
    """In their order."""
    titles = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    listed = re.findall(r"^- \[(.+)\]\(#(.+)\)$", PAGE, re.MULTILINE)
    assert listed == [(title, title.lower().replace(" ", "-")) for title in titles]
