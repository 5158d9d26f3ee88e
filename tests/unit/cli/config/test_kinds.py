"""Every kind of file is read by the code of its program, and by nothing else."""

from pathlib import Path

import pytest

from interpose.cli.config.kinds import find_kind, read
from interpose.cli.config.reading import ReadContext
from interpose.cli.config.recognise import KINDS, DocumentForm
from interpose.cli.config.sources import DocumentSource
from interpose.errors import ConfigError

NOWHERE = ReadContext(env={})
HEADER = "apiVersion: interpose/v1\nkind: RelayConfig\n"


def source(text: str, name: str = "f.yaml") -> DocumentSource:
    """A file that is nowhere."""
    return DocumentSource(name=name, data=text.encode())


def refused(text: str, kind: str | None = None, name: str = "f.yaml") -> list[str]:
    """What is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        read(source(text, name), kind, NOWHERE)
    return caught.value.problems


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_reader(kind: str) -> None:
    """Nonsense is refused by each of them, with the name of the file."""
    (problem, *_) = refused("nonsense", kind)
    assert problem.startswith("file f.yaml")


def test_settings_contradict_each_other_here_too() -> None:
    """What no single value shows is found as at a start."""
    (problem,) = refused(f"{HEADER}limits: {{max_total_streams: 10}}\n")
    assert problem.startswith("file f.yaml:3: limits.max_total_streams 10 is below limits.max_streams 1000")


def test_the_name_of_a_settings_file_counts() -> None:
    """The program would refuse it."""
    assert refused(HEADER, name="relay.conf") == ["file relay.conf: the name must end in .yaml, .yml or .json"]


def test_a_settings_file_is_one_document() -> None:
    """A second one would never be read."""
    (problem,) = refused(f"{HEADER}---\n{HEADER}")
    assert "is not valid YAML" in problem


def test_the_environment_counts_if_it_is_there() -> None:
    """And its unknown variables are told."""
    reading = read(source(HEADER), None, ReadContext(env={"INTERPOSE_GRACE": "5s", "INTERPOSE_X": "1"}))
    assert {row.key: row.origin for row in reading.parts[0].rows}["process.grace"] == "environment INTERPOSE_GRACE"
    assert reading.warnings == ("environment INTERPOSE_X: is not a known setting and has no effect",)


def test_an_option_file_gives_settings_of_the_relay() -> None:
    """Values with the line of the file; what has no effect is a warning."""
    reading = read(source("policy = static\nreserved-resources = cpu=1\ntrace = x\n", "o.cfg"), None, NOWHERE)
    assert (reading.kind, reading.parts[0].family) == (DocumentForm.OPTIONS, "relay")
    assert {row.key: row.origin for row in reading.parts[0].rows}["policy.name"] == "file o.cfg line 1: policy"
    assert reading.warnings == ("--trace: tracing is not available; the admin socket has metrics",)
    assert refused("policy = static\npolicy = statik\nx = 1", name="o.cfg") == [
        "file o.cfg line 3: 'x' is not a known option"
    ]


def test_a_registration_is_doubted_by_its_name() -> None:
    """A relay would not look at it."""
    text = '{"remote-endpoint": "/run/x.sock", "runtime-hooks": ["PreRunPodSandbox"]}'
    reading = read(source(text, "x.yaml"), None, NOWHERE)
    assert reading.kind == DocumentForm.REGISTRATION
    assert [one for one in reading.warnings if "reads only names" in one]
    assert {row.key: row.value for row in reading.parts[0].rows}["endpoint"] == "/run/x.sock"


@pytest.mark.parametrize("kind", ["NodeSLO", "NodeState"])
def test_documents_about_the_node_say_which_they_are(kind: str) -> None:
    """Both are read by the hook server."""
    version = "interpose/v1" if kind == "NodeState" else "slo.koordinator.sh/v1alpha1"
    assert read(source(f"apiVersion: {version}\nkind: {kind}\n"), None, NOWHERE).kind == kind


def test_a_file_nobody_knows_is_an_error_if_somebody_named_it(tmp_path: Path) -> None:
    """In a directory there may be anything."""
    assert "cannot tell what this is, --kind says it: RelayConfig" in refused("something: else")[0]
    found = DocumentSource(name="f.yaml", data=b"something: else", is_found=True)
    assert read(found, None, NOWHERE).kind == ""


def test_files_that_are_keys_are_maps() -> None:
    """Whatever is in them."""
    assert find_kind(DocumentSource(name="policy.static", keys={"policy.static": ""})) == DocumentForm.CONFIG_MAP
