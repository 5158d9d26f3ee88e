"""What a file is can be told by what is in it."""

from pathlib import Path

import pytest

from interpose.cli.config.recognise import KINDS, DocumentForm, recognise
from interpose.errors import ConfigError

SAMPLES = Path(__file__).parents[4] / "samples"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("apiVersion: interpose/v1\nkind: RelayConfig", "RelayConfig"),
        ("kind: HookServerConfig", "HookServerConfig"),
        ("hooks: {timeout: 1s}\nlisten: /x\nlimits: {message: 1MiB}", "RelayConfig"),
        ("policy: {name: static, reserved: cpu=1}", "RelayConfig"),
        ("apiVersion: interpose/v1\npolicy: {name: static}", "RelayConfig"),
        ("reconcile: {interval: 1s}\nmode: proxy", "HookServerConfig"),
        ("policy: {Active: static}", DocumentForm.POLICY),
        ("policy.static: {PinMemory: true}\nlogger: {}", DocumentForm.POLICY),
        ("apiVersion: v1\nkind: ConfigMap\ndata: {}", DocumentForm.CONFIG_MAP),
        ("apiVersion: apps/v1\nkind: DaemonSet", DocumentForm.CONFIG_MAP),
        ("apiVersion: config.nri/v1alpha1\nkind: BalloonsPolicy", DocumentForm.POLICY),
        ("kind: TemplatePolicy", DocumentForm.POLICY),
        ("kind: BalloonsPolicy\napiVersion: config.nri/v1\n---\nkind: Pod\napiVersion: v1", DocumentForm.CONFIG_MAP),
        ("apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: ConfigMap", DocumentForm.CONFIG_MAP),
        ("---\n# only one\nkind: RelayConfig", "RelayConfig"),
        ("kind: RelayConfig\n---\nkind: RelayConfig", "RelayConfig"),
        ('{"Remote-Endpoint": "/x"}', DocumentForm.REGISTRATION),
        ('{"runtime-hooks": []}', DocumentForm.REGISTRATION),
        ("apiVersion: slo.koordinator.sh/v1alpha1\nkind: NodeSLO", DocumentForm.NODE),
        ("apiVersion: interpose/v1\nkind: NodeState", DocumentForm.NODE),
        ("resourceUsedThresholdWithBE: {}", DocumentForm.NODE),
        ("pools: {}", DocumentForm.POOLS),
        ("policy = static\n# x\nlogger = fmt\n  debug = all", DocumentForm.OPTIONS),
        ("policy = static\nreserved-resources = cpu=1\nno such = option", DocumentForm.OPTIONS),
        ("disable-policy-switch", DocumentForm.OPTIONS),
        ("something: else", ""),
        ("just text", ""),
        ("- a\n- b", ""),
        ("{{ if .Values.x }}\na: b\n{{ end }}", ""),
    ],
)
def test_contents_are_recognised(text: str, kind: str) -> None:
    """Kinds count before keys, keys before the form of the text."""
    assert recognise(text, "file x") == kind


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("apiVersion: interpose/v1\nkind: RelayConfg", "kind: 'RelayConfg' is not known, expected one of RelayConfig"),
        ("a: [", "is not valid YAML"),
        ("# nothing", "is empty"),
    ],
)
def test_what_cannot_be_ours_is_refused(text: str, problem: str) -> None:
    """What wants to be ours, or cannot be read at all, is no mystery."""
    with pytest.raises(ConfigError, match=problem):
        recognise(text, "file x")


def test_a_name_that_promises_json_is_taken_at_its_word() -> None:
    """As by the programs."""
    assert recognise('{"remote-endpoint": "/x"}', "file x", json_only=True) == DocumentForm.REGISTRATION
    with pytest.raises(ConfigError, match="is not valid JSON"):
        recognise("remote-endpoint: /x", "file x", json_only=True)


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".cfg"])
def test_samples_are_recognised(suffix: str) -> None:
    """Every one of them is something."""
    found = {path: recognise(path.read_text(), str(path)) for path in SAMPLES.rglob(f"*{suffix}")}
    assert found
    assert set(found.values()) <= set(KINDS)
