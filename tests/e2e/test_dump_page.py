"""The page of a recording in a real browser, opened from disk and without a network."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interpose.dump.decode.decode import Decoder
from interpose.dump.filter.language import parse_filter
from interpose.dump.model.call import Assembler, CallEventKind, Flow
from interpose.dump.model.subject import Subjects
from interpose.dump.output.formats import FlowTexts
from interpose.dump.output.json import flow_document
from interpose.dump.page import render_page
from interpose.testing.recordings import story_frames
from tests.support.browser import Browser
from tests.support.dump.call_documents import WEB, document, many_documents, message, sample_documents
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.e2e

CREATE = '.row[aria-rowindex="8"]'
ROWS = "#list .row"
METHODS = "#list .c.method"


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    """One browser for all tests of this file."""
    if reason := Browser.missing():
        pytest.skip(f"no browser: {reason}")
    with Browser() as started:
        yield started


@pytest.fixture
def browser(running: Browser) -> Iterator[Browser]:
    """A browser that must not have had anything to complain about."""
    running.errors.clear()
    running.resize(1280, 800)
    running.dark(False)
    yield running
    assert running.errors == []


def write(path: Path, documents: Iterable[dict[str, Any]], **options: Any) -> Path:
    """A page in a file."""
    options = {"header": {"host": "worker-3"}, "title": "worker-3.crirec", **options}
    with path.open("w", encoding="utf-8") as file:
        file.writelines(render_page(documents, **options))
    return path


@pytest.fixture(scope="module")
def sample() -> Iterator[Path]:
    """The page of the sample calls."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    yield write(folder / "sample.html", sample_documents())
    shutil.rmtree(folder)


def search(browser: Browser, text: str) -> None:
    """Type it into the search box, in place of what is there."""
    browser.press("/")
    browser.type(text)


def test_the_page_says_what_it_is(browser: Browser, sample: Path) -> None:
    """Node, time, calls, and each of them in the list."""
    browser.open(sample)

    assert browser.text("h1") == "worker-3.crirec"
    facts = browser.text("#facts")
    assert all(text in facts for text in ("node worker-3", "2025-11-16", "30 calls", "2 pods"))
    assert browser.text("#count") == "30 calls"
    assert browser.texts(METHODS)[:3] == ["Version", "GetContainerEvents", "Status"]


def test_searching_narrows_the_list(browser: Browser, sample: Path) -> None:
    """And Esc brings everything back."""
    browser.open(sample)
    search(browser, "~m Update ~p web")

    assert browser.texts(METHODS) == ["UpdateContainerResources"]
    assert browser.text("#count") == "1 of 30 calls"
    browser.press("Escape")
    assert browser.text("#count") == "30 calls"


def test_a_mistake_in_a_search_is_explained(browser: Browser, sample: Path) -> None:
    """The list stays as it was."""
    browser.open(sample)
    search(browser, "~zz x")

    assert "there is no ~zz" in browser.text("#searchnote")
    assert browser.text("#count") == "30 calls"


@pytest.mark.parametrize("text", ["25:00", "2026-13-01", "soon", "-10m", "09:61"])
def test_what_is_no_time_is_explained(browser: Browser, sample: Path, text: str) -> None:
    """With examples of what is; a page does not know when now is."""
    browser.open(sample)
    search(browser, f"~since {text}")

    note = browser.text("#searchnote")
    assert note.startswith(f"{text} counts from now" if text == "-10m" else f"{text} is not a time")
    assert "2026-11-16T09:00:00Z" in note


@pytest.mark.parametrize(
    "text",
    [
        *(
            "create",
            "!list",
            "~m Create|Start",
            "~ns shop & !(~m List | ~s error)",
            "~d >5ms",
            "~d <= 1ms",
            "method=Create",
        ),
        *("~s error", "~s open", "~s NOT_FOUND", "~s 0", "~h", "~h koord", "changed & pod=web", "~k orig", "~o client"),
        *(
            "~t cpuset",
            "~q registry",
            "~r cpu",
            "~n 3-7,9",
            "~n 20-",
            "~c app",
            "status!=OK",
            "duration>1ms",
            '"web"',
            "~i .",
        ),
        *(
            "~since 09:00:03",
            "~until 2025-11-16T09:00:03.000001Z",
            "since=09:00:01.5 & until=09:00:05",
            '~until "2025-11-16 11:00:03+02:00"',
            "~since 09:00 !~since 09:00:03",
        ),
    ],
)
def test_filters_find_what_the_command_finds(browser: Browser, tmp_path: Path, text: str) -> None:
    """The same language on the page as on the command line."""
    subjects, decoder = Subjects(), Decoder()
    flows: dict[int, Flow] = {}
    for event in Assembler(subjects.identify).feed_all(story_frames()):
        if event.kind is CallEventKind.BEGIN and event.flow is not None:
            flows[event.flow.number] = event.flow
    wanted, texts = parse_filter(text), FlowTexts(decoder)
    numbers = [str(flow.number) for flow in flows.values() if wanted.matches(flow, texts)]

    page = write(tmp_path / "page.html", [flow_document(flow, decoder) for flow in flows.values()])
    browser.resize(1280, 2400)  # every row in sight
    browser.open(page)
    search(browser, text)

    assert browser.text("#searchnote") == ""
    assert 0 < len(numbers) < len(flows)
    assert browser.texts("#list .c.num") == numbers


def test_a_call_opens_with_its_request_as_yaml(browser: Browser, sample: Path) -> None:
    """Branches fold; what was redacted is a badge."""
    browser.open(sample)
    browser.click(CREATE)

    assert browser.text(".call h2") == "CreateContainer"
    text = browser.text(".tree")
    assert "working_dir: /srv" in text
    assert "memory_limit_in_bytes: 1073741824" in text
    assert "<redacted>" not in text
    assert browser.texts(".tree .redacted")[0] == "redacted"
    browser.click(".tree > details > summary")
    assert "working_dir" not in browser.text(".tree")


def test_what_was_changed_is_shown_as_a_difference(browser: Browser, sample: Path) -> None:
    """With who did it, and both sides of it."""
    browser.open(sample)
    browser.click(CREATE)
    browser.click("#tab-diff")

    assert browser.text(".by") == "Changed by koordlet, static-pools"
    assert [line.split()[-1] for line in browser.texts(".diff .removed")] == ["200000", "2048"]
    assert any("cpuset_cpus: 2-3" in line for line in browser.texts(".diff .added"))
    browser.click("#tab-request")
    assert browser.texts(".message .name") == ["As the caller sent it", "As the runtime got it"]


def test_a_stream_shows_its_messages(browser: Browser, sample: Path) -> None:
    """One below the other, opened one by one."""
    browser.open(sample, "call=2")
    browser.click("#tab-reply")

    assert browser.texts(".message .name") == ["Message 1", "Message 2 of 3", "Message 3 of 3"]
    browser.click(".message:last-child summary")
    assert "cron" in browser.text(".message:last-child .tree")


def test_large_numbers_are_shown_digit_by_digit(browser: Browser, sample: Path) -> None:
    """Times in nanoseconds are beyond what a browser counts to; what is copied has them, too."""
    browser.open(sample, "call=10")
    browser.click("#tab-reply")

    assert "created_at: 1763283602123456789" in browser.text(".tree")
    browser.command("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]}, page=False)
    browser.press("y")
    copied = browser.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[0] == "status:"
    assert "  created_at: 1763283602123456789" in copied.splitlines()


def test_everything_goes_by_keys(browser: Browser, sample: Path) -> None:
    """Down, open, tabs, next failure, both ends, close."""
    browser.open(sample)
    browser.press("j", "j", "Enter")
    assert browser.text(".call .number") == "#2"
    browser.press("ArrowDown", "k", "k")
    assert browser.text(".call .number") == "#1"
    browser.press("e")
    assert browser.text(".call .pill") == "DEADLINE_EXCEEDED"
    browser.press("4")
    assert browser.evaluate("document.querySelector('#tab-info').getAttribute('aria-selected')") == "true"
    browser.press("G")
    assert browser.text(".call .number") == "#30"
    browser.press("g", "Escape")
    assert browser.text(".call") == ""
    browser.press("?")
    assert browser.evaluate("document.querySelector('#help').open") is True


def test_a_link_leads_to_a_call(browser: Browser, sample: Path) -> None:
    """The address follows what is open, with the search."""
    browser.open(sample, "call=18&q=~s+error")

    assert browser.text(".call h2") == "ExecSync"
    assert browser.text("#count") == "2 of 30 calls"
    browser.press("j")
    assert browser.evaluate("location.hash") == "#call=30&q=%7Es+error"


def test_a_link_to_a_call_that_is_not_there_says_so(browser: Browser, sample: Path) -> None:
    """Until a call is chosen."""
    browser.open(sample, "call=999")

    assert browser.texts(".banner") == ["Not on this page: call 999, which the link asks for."]
    browser.press("j", "Enter")
    assert browser.texts(".banner") == []


def test_a_page_with_secrets_says_so(browser: Browser, tmp_path: Path) -> None:
    """Whoever gets it should know."""
    browser.open(write(tmp_path / "page.html", sample_documents(), header={"redaction": "none"}))
    assert browser.texts(".banner")[0].startswith("Not redacted: passwords, tokens")
    browser.open(write(tmp_path / "page.html", sample_documents(), header={"redaction": "default"}))
    assert browser.texts(".banner") == []


def test_centuries_between_two_calls_are_drawn(browser: Browser, tmp_path: Path) -> None:
    """A node may begin in 1970: the axis has as many ticks as it has room for, with dates."""
    documents = [document(1, "Version", time_ns=0), document(2, "Version", time_ns=250 * 365 * 86_400 * 10**9)]
    browser.open(write(tmp_path / "page.html", documents))
    browser.evaluate(
        "window.drawn = []; const old = CanvasRenderingContext2D.prototype.fillText;"
        "CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {"
        " window.drawn.push(text); return old.call(this, text, ...rest); }; undefined"
    )
    browser.press("j")
    wait_for(lambda: browser.evaluate("window.drawn.length") > 0, what="the timeline")
    drawn = json.loads(browser.evaluate("JSON.stringify(window.drawn)"))
    dates = [text for text in drawn if text.count("-") == 2]
    assert 2 < len(dates) < 50


def test_toggles_and_methods_narrow_the_list(browser: Browser, sample: Path) -> None:
    """Kinds of calls and, until they are taken back, methods."""
    browser.open(sample)
    browser.click(".chip.originated")
    assert browser.texts(METHODS) == ["UpdateContainerResources"] * 2
    browser.press("Escape")
    browser.click('.chip[data-name="PullImage"]')
    browser.click('.chip[data-name="ExecSync"]')
    assert browser.texts(METHODS) == ["PullImage", "PullImage", "ExecSync"]


def test_the_list_is_sorted_by_its_titles(browser: Browser, sample: Path) -> None:
    """The slowest first, then the fastest; calls that are not over come last."""
    browser.open(sample)
    browser.click("#titles .took button")
    assert browser.texts(METHODS)[0] == "PullImage"
    browser.click("#titles .took button")
    assert browser.texts(METHODS)[0] == "Version"
    browser.press("G", "Enter")
    assert browser.text(".call h2") == "GetContainerEvents"


def test_the_timeline_zooms_and_selects(browser: Browser, sample: Path) -> None:
    """Dragging leaves the calls of that time; a click opens the bar under it; 0 brings the whole time back."""
    browser.open(sample)
    browser.drag("#canvas", (0.72, 0.5), (0.86, 0.5))
    shown = int(browser.text("#count").split()[0])
    assert 0 < shown < 30
    assert browser.evaluate("document.querySelector('#unzoom').hidden") is False
    browser.press("0")
    assert browser.text("#count") == "30 calls"
    browser.click("#canvas", at=(0.79, 0.78))
    assert browser.text(".call h2") == "ExecSync"


def test_latencies_are_drawn_for_what_is_in_the_list(browser: Browser, sample: Path) -> None:
    """One row per method, with its numbers."""
    browser.open(sample)
    search(browser, "~m ^PullImage")

    assert browser.texts(".latency tbody th") == ["PullImage"]
    assert browser.texts(".latency tbody td.num")[:2] == ["2", "1.84\u202fs"]
    assert browser.evaluate("document.querySelectorAll('.latency .bin').length") == 1


def test_hostile_text_does_not_run(browser: Browser, tmp_path: Path) -> None:
    """Wherever it stands, it is text."""
    attack = "</script><script>window.owned=1</script><img src=x onerror='window.owned=1'><svg onload=window.owned=1>"
    hostile = document(
        1,
        "CreateContainer",
        subject={**WEB, "pod": attack, "namespace": attack, "container": attack, "image": attack},
        status="UNKNOWN",
        message=attack,
        origin=attack,
        changed=True,
        changed_by=[attack],
        metadata=[[attack, attack]],
        request_diff=[f"- {attack}", f"+ {attack}"],
        messages=[message("request", {attack: [attack, {"name": attack}]}, note=attack), message("reply", attack)],
    )
    foreign = document(2, attack, path=f"/{attack}")
    facts = {"host": attack, "damage": attack, attack: attack}
    browser.open(write(tmp_path / "page.html", [hostile, foreign], header=facts, title=attack, filter_text=attack))
    browser.press("j", "Enter", "1", "2", "3", "4")
    browser.hover("#canvas", (0.5, 0.5))

    assert browser.evaluate("window.owned") is None
    assert browser.evaluate("document.querySelectorAll('img, svg[onload]').length") == 0
    assert browser.text("h1") == attack
    assert attack in browser.text(".failure")


def test_the_policy_stops_what_got_in_anyway(browser: Browser, sample: Path) -> None:
    """Even a script that somebody put into the page does not run, and text is not taken for markup."""
    browser.open(sample)
    browser.evaluate(
        "(() => { const s = document.createElement('script'); try { s.text = 'window.owned = 1' } catch { return };"
        " document.body.append(s); })()"
    )
    browser.evaluate("(() => { try { document.body.innerHTML = '<b>x</b>' } catch { window.refused = true } })()")

    assert browser.evaluate("window.owned") is None
    assert browser.evaluate("window.refused") is True
    browser.errors.clear()  # the browser complains, as it should


def test_twenty_thousand_calls_load_and_scroll(browser: Browser, tmp_path: Path) -> None:
    """Only the rows in sight exist, at the top, in the middle and at the end."""
    browser.open(write(tmp_path / "page.html", many_documents(20_000)))

    assert browser.text("#count") == "20\u202f000 calls"
    browser.evaluate("document.querySelector('#list').scrollTop = 260000")
    wait_for(lambda: "10005" in browser.texts("#list .c.num"), what="rows in the middle")
    browser.press("G")
    wait_for(lambda: "20000" in browser.texts("#list .c.num"), what="the last row")
    assert browser.evaluate(f"document.querySelectorAll({json.dumps(ROWS)}).length") < 100
    search(browser, "~m Create ~p x2x4q-3$")
    wait_for(lambda: browser.text("#count").startswith("17 of"), what="the search")


def test_what_is_missing_is_said(browser: Browser, tmp_path: Path) -> None:
    """Damage, calls above the limit, messages above theirs, and the filter of the export."""
    facts = {"host": "n1", "damage": ["312 bytes at offset 81230 are damaged", "the end is missing"]}
    options = {"header": facts, "limit": 20, "bodies": 8000, "filter_text": "~ns shop"}
    browser.open(write(tmp_path / "page.html", sample_documents(), **options), "call=18")

    banners = "\n".join(browser.texts(".banner"))
    assert "312 bytes at offset 81230" in banners
    assert "the end is missing" in banners
    assert "10 later calls left out" in banners
    assert "are left out to keep the page small" in banners
    assert "~ns shop" in banners


def test_a_call_without_its_messages_says_how_to_see_them(browser: Browser, tmp_path: Path) -> None:
    """What is known of it is still there."""
    browser.open(write(tmp_path / "page.html", sample_documents(), bodies=0), "call=8")

    assert "interpose dump show FILE --number 8" in browser.text(".panel")
    browser.click("#tab-info")
    assert "/runtime.v1.RuntimeService/CreateContainer" in browser.text(".panel")


@pytest.mark.parametrize("documents", [[], [document(1, "Version")], [document(1, "Version", status="")]])
def test_the_smallest_recordings_have_pages(browser: Browser, tmp_path: Path, documents: list[dict[str, Any]]) -> None:
    """Nothing to show is shown as that."""
    browser.open(write(tmp_path / "page.html", documents))
    browser.press("j", "Enter", "G", "e", "+", "-", "0", "Escape")

    assert browser.text("#count") == ("1 call" if documents else "0 calls")


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080), (800, 700)])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_overflows(browser: Browser, sample: Path, size: tuple[int, int], dark: bool) -> None:
    """The window never scrolls sideways, and neither does any pane."""
    browser.resize(*size)
    browser.dark(dark)
    browser.open(sample, "call=8")

    wide = (
        "[document.documentElement, ...document.querySelectorAll('main, .left, .list, .side, .panel, .top, .chips')]"
        ".filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.className || e.tagName)"
    )
    assert browser.evaluate(wide) == []
    browser.press("Escape")
    assert browser.evaluate(wide) == []


def test_it_prints(browser: Browser, sample: Path) -> None:
    """The list, or the call that is open; the timeline stays away, and nothing goes on for ever because of it."""
    browser.open(sample)
    assert browser.pdf().startswith(b"%PDF")
    browser.command("Emulation.setEmulatedMedia", {"media": "print"})
    browser.settle()
    assert len(browser.texts(METHODS)) == 30
    browser.dark(False)
    browser.press("j", "Enter")
    assert browser.pdf().startswith(b"%PDF")
