"""Plain families become expositions that an independent parser reads back."""

import logging
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from interpose import __version__
from interpose.metrics import Buckets, Family, Sample, build_info, gather, render


def _calls() -> Iterable[Family]:
    labelled = [Sample(3, {"method": "Version", "code": "OK"}), Sample(1, {"code": "OK", "method": 'a"\n'})]
    yield Family("interpose_calls_total", "counter", "Calls.", labelled)
    yield Family("interpose_streams", "gauge", "Open streams.", [Sample(2)])
    yield Family("interpose_seconds", "histogram", "Time.", [Buckets([0.1, 1], [5, 0, 2], 9.5, {"method": "x"})])
    yield Family("interpose_nothing_total", "counter", "Nothing yet.", [])


def _samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_families_are_written_in_the_text_format() -> None:
    """Values, labels and cumulative buckets arrive at the scraper."""
    content_type, body = render([_calls])
    assert content_type.startswith("text/plain")
    samples = _samples(body.decode())
    assert samples["interpose_calls_total", (("code", "OK"), ("method", "Version"))] == 3
    assert samples["interpose_calls_total", (("code", "OK"), ("method", 'a"\n'))] == 1
    assert samples["interpose_streams", ()] == 2
    buckets = {dict(labels)["le"]: value for (name, labels), value in samples.items() if name.endswith("_bucket")}
    assert buckets == {"0.1": 5, "1.0": 5, "+Inf": 7}
    assert samples["interpose_seconds_sum", (("method", "x"),)] == 9.5
    assert samples["interpose_seconds_count", (("method", "x"),)] == 7
    assert "# TYPE interpose_nothing_total counter" in body.decode()


def test_openmetrics_is_written_when_accepted() -> None:
    """A scraper that asks for OpenMetrics gets it, with its end mark."""
    content_type, body = render([_calls], "application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize("accept", ["", "*/*", "application/openmetrics-text; version=abc", "text/plain;version=x;;"])
def test_a_strange_accept_header_gets_the_plain_format(accept: str) -> None:
    """Nothing a client writes into Accept breaks the scrape."""
    assert b"interpose_streams 2.0" in render([_calls], accept)[1]


def test_a_failing_collector_is_counted_and_the_others_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    """One broken part does not blind the operator."""

    def broken() -> Iterable[Family]:
        yield Family("interpose_half", "gauge", "Half.", [Sample(1)])
        raise RuntimeError("no")

    with caplog.at_level(logging.ERROR):
        families = {family.name: family for family in gather([broken, _calls])}
    assert families["interpose_collector_failures"].samples == [Sample(1)]
    assert "interpose_streams" in families
    assert "Metrics collector failed" in caplog.text


def test_the_version_is_a_metric() -> None:
    """Which version runs can be asked of every node."""
    (family,) = build_info()
    assert family.name == "interpose_build_info"
    assert family.samples[0].labels["version"] == __version__
    assert family.samples[0].labels["build"] in ("compiled", "pure")


def test_a_histogram_with_the_wrong_number_of_counts_is_refused() -> None:
    """Shifted buckets would be wrong without looking wrong."""
    with pytest.raises(ValueError, match="2 bounds need 3 counts, not 2"):
        Buckets([1, 2], [0, 0], 0)
