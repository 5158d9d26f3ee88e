"""Alerts about single events: what they count is there before the first event, or increase() would not see it."""

from collections.abc import Callable
from pathlib import Path

from interpose.cri.wrappers import InstrumentedCaller
from interpose.kube.webhook.metrics import Stats, request_collector
from interpose.metrics import gather
from interpose.relay.docker.metrics import TunnelLink, endpoint_collector
from interpose.relay.docker.stats import EndpointStats
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.hookserver import register
from tests.support.kube.plain_documents import read_documents
from tests.support.kube.promql import over_time
from tests.support.lab.relay import Relay, hook_options, hooks_dir

RULES = Path(__file__).parents[2] / "deploy/monitoring/prometheus-rules.yaml"
EVERYTHING = ("--policy", "static", "--reserved-resources", "cpu=cpuset:0")


class Idle:
    """A relay in front of dockerd that nobody has called."""

    def __init__(self) -> None:
        self.endpoints: dict[str, EndpointStats] = {}
        self.links: list[TunnelLink] = []


def test_what_alerts_count_is_exported_by_a_process_that_did_nothing_yet(
    scratch: Path,
    start_runtime: Callable[..., object],
    start_relay: Callable[..., Relay],
    admin: Callable[..., tuple[int, str]],
) -> None:
    """A relay with hook server, policy and recording, before its first call; webhook, Docker mode, our runtime."""
    start_runtime()
    register(hooks_dir(scratch), "plugin", scratch / "plugin.sock")
    recording = ("--state-dir", str(scratch / "state"), "--record", str(scratch / "calls.crirec"))
    start_relay(*hook_options(scratch), *EVERYTHING, *recording)
    _, text = admin("/metrics")
    exported = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    calls = InstrumentedCaller(FakeRuntime()).collect
    others = [request_collector(Stats()), endpoint_collector(Idle(), Idle()), calls]
    exported |= {family.name for family in gather(others) if family.samples}
    [rules] = read_documents(RULES)
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    wanted = {metric for rule in alerts for metric in over_time(rule["expr"])}

    assert "interpose_policy_failures_total" in wanted
    assert wanted <= exported


def test_a_file_that_was_never_good_raises_an_alert(
    scratch: Path, start_relay: Callable[..., Relay], admin: Callable[..., tuple[int, str]]
) -> None:
    """The alert asks for what is wrong now, not for a change."""
    (hooks_dir(scratch) / "bad.json").write_text("{")
    start_relay(*hook_options(scratch))
    [rules] = read_documents(RULES)
    alerts = {rule.get("alert"): rule["expr"] for group in rules["groups"] for rule in group["rules"]}

    assert alerts["InterposeHookRegistrationUnusable"] == "interpose_hook_registrations_unusable > 0"
    assert "interpose_hook_registrations_unusable 1.0" in admin("/metrics")[1]
