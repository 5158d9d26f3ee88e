"""Log lines have the form of klog or JSON, hold no secrets, and never disturb the caller."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from interpose.log import LineHandler, LogControl, RateLimited, is_secret, kv, quote_value, redacted, setup

log = logging.getLogger("interpose.test")


@pytest.fixture
def stream() -> io.StringIO:
    """Where the lines of a test go."""
    return io.StringIO()


@pytest.fixture
def text_log(stream: io.StringIO) -> Iterator[LogControl]:
    """Text logging at level info."""
    control = setup("info", "text", stream)
    yield control
    control.close()


@pytest.fixture
def json_log(stream: io.StringIO) -> Iterator[LogControl]:
    """JSON logging at level debug."""
    control = setup("debug", "json", stream)
    yield control
    control.close()


def test_text_lines_have_klogs_form(text_log: LogControl, stream: io.StringIO) -> None:
    """Severity, date, time, process, file and line, then the quoted message and its fields."""
    log.warning("Backend was lost", extra=kv(endpoint="/run/a b.sock", attempt=3, retry=True, err=None, wait=0.5))
    assert re.fullmatch(
        r"W\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_log\.py:\d+\] "
        r'"Backend was lost" endpoint="/run/a b\.sock" attempt=3 retry=true err=null wait=0\.5\n',
        stream.getvalue(),
    )


def test_groups_and_lists_are_no_python(text_log: LogControl, stream: io.StringIO) -> None:
    """A group is several fields, unless others chose its names."""
    log.info("Started", extra=kv(pods={"ready": 1, "age": {"max": 0.5}}, nodes=["a", "b"], md={"x-y\n": "1", "z": 2}))
    assert stream.getvalue().endswith(r'"Started" pods.ready=1 pods.age.max=0.5 nodes="a, b" md="x-y\n=1, z=2"' + "\n")


def test_a_forged_line_stays_inside_its_quotes(text_log: LogControl, stream: io.StringIO) -> None:
    """Line breaks and terminal escapes in a value cannot make a second line or colour the terminal."""
    log.info("Call came", extra=kv(path='/x"\nE0101 forged\x1b[31m\u2028\udc80\\'))
    assert stream.getvalue().count("\n") == 1
    assert r'path="/x\"\nE0101 forged\x1b[31m\u2028\udc80\\"' in stream.getvalue()


def test_a_traceback_follows_indented(text_log: LogControl, stream: io.StringIO) -> None:
    """Nothing of a traceback starts in the first column, where records start."""
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        log.exception("Handler failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.startswith("E")
    assert "  ValueError: first" in rest
    assert all(line.startswith("  ") for line in rest)


def test_json_lines_hold_the_same(json_log: LogControl, stream: io.StringIO) -> None:
    """One object per line with time, level, verbosity, logger, caller and message; fields beside them."""
    log.debug("Call %s came", "x", extra=kv(msg="collides", n=1, nested={"a": [1.5, float("nan")]}, other=object))
    line = json.loads(stream.getvalue())
    assert line["level"] == "debug"
    assert line["v"] == 4
    assert line["logger"] == "interpose.test"
    assert line["caller"].startswith("test_log.py:")
    assert isinstance(line["ts"], float)
    assert line["msg"] == "Call x came"
    assert line["msg_"] == "collides"
    assert line["nested"] == {"a": [1.5, "nan"]}
    assert line["other"] == "<class 'object'>"


def test_json_tracebacks_are_part_of_the_object(json_log: LogControl, stream: io.StringIO) -> None:
    """A failure is still one line."""
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("Handler failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: no" in json.loads(line)["stacktrace"]


def test_the_level_can_change_while_running(text_log: LogControl, stream: io.StringIO) -> None:
    """Debug lines appear after the level was lowered; unknown names change nothing."""
    log.debug("Hidden")
    text_log.set_level("debug")
    log.debug("Shown")
    with pytest.raises(ValueError, match="'loud' is not one of debug, info, warning, error"):
        text_log.set_level("loud")
    assert text_log.level == "debug"
    assert re.findall(r'"(\w+)"', stream.getvalue()) == ["Shown"]
    assert stream.getvalue().startswith("I")


def test_a_closed_log_takes_no_more_lines(stream: io.StringIO) -> None:
    """After close nothing is written and nothing is left installed."""
    before = list(logging.getLogger().handlers), logging.getLogger().level
    control = setup("info", "text", stream)
    control.close()
    log.error("Late")
    assert stream.getvalue() == ""
    assert (logging.getLogger().handlers, logging.getLogger().level) == before


class BrokenStream:
    """A stderr whose reader has gone."""

    def write(self, text: str) -> None:
        """Fail as a closed pipe does."""
        raise BrokenPipeError

    def flush(self) -> None:
        """Never reached."""


def test_a_line_that_cannot_be_written_is_counted_not_raised() -> None:
    """A dead stderr does not reach the caller."""
    control = setup("info", "text", BrokenStream())
    try:
        log.info("Lost")
        assert control.dropped == 1
    finally:
        control.close()


def test_a_line_that_cannot_be_formatted_is_counted_not_raised(stream: io.StringIO) -> None:
    """A wrong argument in a log call costs its own line only."""
    handler = LineHandler(stream)
    handler.handle(logging.LogRecord("x", logging.INFO, "x.py", 1, "Bad %d", ("argument",), None))
    handler.handle(logging.LogRecord("x", logging.INFO, "x.py", 1, "Good", (), None))
    assert handler.dropped == 1
    assert stream.getvalue() == "Good\n"


def test_secrets_are_recognised_by_name() -> None:
    """Names stay, values of credentials and binary values go."""
    metadata = {"Authorization": "Bearer x", "trace-bin": "AAE=", "x-csi-token": "t", "user-agent": "kubelet"}
    assert redacted(metadata) == {
        "Authorization": "<redacted>",
        "trace-bin": "<redacted>",
        "x-csi-token": "<redacted>",
        "user-agent": "kubelet",
    }
    assert is_secret("set-cookie")


def test_plain_text_is_quoted_as_it_is() -> None:
    """Quoting changes only what must change."""
    assert quote_value("Grüße, 世界") == '"Grüße, 世界"'


class Clock:
    """Time that moves when told."""

    now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_repeats_are_counted_and_shown_with_the_next_line(text_log: LogControl, stream: io.StringIO) -> None:
    """The same event is logged once per interval; the next line says how many were left out."""
    clock = Clock()
    limited = RateLimited(log, interval=60.0, clock=clock)
    results = [limited.log(logging.ERROR, "Dial failed", err="refused") for _ in range(4)]
    clock.now = 60.0
    results.append(limited.log(logging.ERROR, "Dial failed", err="refused"))
    assert results == [True, False, False, False, True]
    first, second = stream.getvalue().splitlines()
    assert "suppressed" not in first
    assert "suppressed=3" in second
    assert "test_log.py:" in first


def test_a_few_in_a_row_may_be_told(text_log: LogControl, stream: io.StringIO) -> None:
    """What happens twice in a minute is no flood; the next interval begins with what was left out."""
    clock = Clock()
    limited = RateLimited(log, interval=60.0, burst=2, clock=clock)
    results = []
    for clock.now in (0.0, 30.0, 59.0, 60.0, 61.0, 62.0):
        results.append(limited.log(logging.INFO, "Connected"))
    assert results == [True, True, False, True, True, False]
    assert [line.partition("suppressed=")[2] for line in stream.getvalue().splitlines()] == ["", "", "1", ""]


def test_different_keys_do_not_silence_each_other(text_log: LogControl, stream: io.StringIO) -> None:
    """Two backends that fail are two events."""
    limited = RateLimited(log, clock=Clock())
    assert limited.log(logging.ERROR, "Dial failed", key="a")
    assert limited.log(logging.ERROR, "Dial failed", key="b")
    assert not limited.log(logging.ERROR, "Dial failed", key="a")


def test_the_memory_for_keys_is_bounded(text_log: LogControl) -> None:
    """With too many keys the one logged longest ago is forgotten, the others stay silent."""
    limited = RateLimited(log, clock=Clock(), max_keys=2)
    for key in "abc":
        limited.log(logging.ERROR, "Dial failed", key=key)
    assert not limited.log(logging.ERROR, "Dial failed", key="b")
    assert limited.log(logging.ERROR, "Dial failed", key="a")


def test_single_sources_are_debugged(stream: io.StringIO) -> None:
    """A package with everything in it, or a module; the others keep the level, and all is undone at the end."""
    control = setup("warning", "text", stream, debug=("resmgr", "cri.store.sync"))
    try:
        for name in ("resmgr.interceptor", "cri.store.sync", "cri.store.store", "relay.proxy"):
            logging.getLogger(f"interpose.{name}").debug("From %s", name)
        found = re.findall(r'"From (\S+)"', stream.getvalue())
        assert found == ["resmgr.interceptor", "cri.store.sync"]
    finally:
        control.close()
    assert not logging.getLogger("interpose.resmgr.interceptor").isEnabledFor(logging.DEBUG)


def test_all_but_some_sources_are_debugged(stream: io.StringIO) -> None:
    """Those keep to the level, also when it changes; parts of them can be debugged again."""
    control = setup("info", "text", stream, debug=("*", "-resmgr", "resmgr.interceptor"))
    loggers = {
        name: logging.getLogger(f"interpose.{name}")
        for name in ("cri.store.sync", "resmgr.tracker", "resmgr.interceptor")
    }
    others = logging.getLogger("asyncio.other")

    def enabled(level: int) -> list[str]:
        return [name for name, one in loggers.items() if one.isEnabledFor(level)]

    try:
        assert enabled(logging.DEBUG) == ["cri.store.sync", "resmgr.interceptor"]
        assert enabled(logging.INFO) == list(loggers)
        assert not others.isEnabledFor(logging.DEBUG)
        control.set_level("warning")
        assert enabled(logging.INFO) == ["cri.store.sync", "resmgr.interceptor"]
        control.set_level("debug")
        assert enabled(logging.DEBUG) == list(loggers)
    finally:
        control.close()
    assert enabled(logging.INFO) == []


def test_a_source_that_does_not_exist_is_told(stream: io.StringIO) -> None:
    """With a guess. Names of other libraries' loggers are none of ours."""
    setup("warning", "text", stream, debug=("resmngr", "asyncio")).close()
    lines = stream.getvalue().splitlines()
    assert 'source="resmngr, did you mean resmgr?"' in lines[0]
    assert 'source="asyncio' in lines[1]
