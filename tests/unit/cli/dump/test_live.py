"""`interpose dump live`, as far as it goes without a screen."""

import builtins
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from interpose.cli.dump import live as dump_live
from interpose.cli.main import cli
from interpose.dump.live.feed import SourceLostError
from interpose.dump.model.frames import Begin, Dropped, encode
from interpose.testing.recordings import sample_recording


class Terminal:
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """All streams are a terminal."""
    monkeypatch.setattr(dump_live, "_streams", lambda: {"stdin": Terminal()})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command; the screen itself is replaced, and what it was given is in the result."""
    from interpose.dump.live import app

    shown: list[Any] = []
    monkeypatch.setattr(app.LiveApp, "run", lambda self: shown.append(self._view))

    def running(*arguments: str) -> tuple[int, str, list[Any]]:
        result = CliRunner().invoke(cli, ["dump", "live", *arguments], prog_name="interpose")
        return result.exit_code, result.output, shown

    return running


def test_without_a_terminal_it_says_what_to_use(run: Any) -> None:
    """Wrong usage, and another command that works."""
    code, output, shown = run()
    assert code == 2
    assert "needs a terminal, which stdin and stdout and stderr are not" in " ".join(output.split())
    assert "interpose dump follow" in output
    assert shown == []


@pytest.mark.usefixtures("terminal")
def test_without_the_extra_it_says_how_to_install(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One clear line."""
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("interpose.dump.live"):
            raise ModuleNotFoundError("No module named 'textual'", name="textual.app")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    code, output, _ = run()
    assert code == 1
    assert output == "error: the live view needs textual, which is not installed: pip install 'interpose[ui]'\n"


@pytest.mark.usefixtures("terminal")
def test_another_missing_module_is_a_bug(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not blamed on the extra."""
    monkeypatch.delitem(sys.modules, "interpose.dump.live.app")
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "interpose.dump.live.app":
            raise ModuleNotFoundError("No module named 'else'", name="else")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    code, output, _ = run()
    assert code == 1
    assert "interpose[ui]" not in output


@pytest.mark.usefixtures("terminal")
def test_a_recording_is_opened(run: Any, tmp_path: Path) -> None:
    """As it was redacted when it was made, without a banner."""
    code, _, (view,) = run(str(sample_recording(tmp_path / "a.crirec")), "-f", "~s error", "--keep", "7")
    assert code == 0
    assert view.feed.source.name == "a.crirec"
    assert not view.feed.source.returns
    assert view.redaction is None
    assert view.filter_text == "~s error"


@pytest.mark.usefixtures("terminal")
def test_what_is_no_recording_is_said_before_the_screen(run: Any, tmp_path: Path) -> None:
    """With the name of the file."""
    (tmp_path / "a.crirec").write_text("no recording at all")
    code, output, shown = run(str(tmp_path / "a.crirec"))
    assert code == 78
    assert "a.crirec" in output
    assert shown == []


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("arguments", [["-f", "~m ("], ["--redact", "everything"]])
def test_mistakes_are_said_before_the_screen(run: Any, tmp_path: Path, arguments: list[str]) -> None:
    """Of filters and redaction."""
    code, output, shown = run(str(sample_recording(tmp_path / "a.crirec")), *arguments)
    assert code == 78
    assert "error:" in output
    assert shown == []


@pytest.mark.usefixtures("terminal")
def test_a_recording_cannot_be_asked_to_send_less(run: Any, tmp_path: Path) -> None:
    """--only is for relays."""
    code, output, _ = run(str(sample_recording(tmp_path / "a.crirec")), "--only", "*:full")
    assert code == 2
    assert "--filter" in output


@pytest.mark.usefixtures("terminal")
def test_no_relay_is_an_error(run: Any, tmp_path: Path) -> None:
    """It names the address; --wait begins nevertheless."""
    missing = str(tmp_path / "admin.sock")
    code, output, shown = run("--admin", missing)
    assert code == 1
    assert missing in output
    assert shown == []
    code, _, (view,) = run("--admin", missing, "--wait")
    assert code == 0
    assert view.feed.source.returns
    with pytest.raises(SourceLostError, match=r"admin\.sock"):
        view.feed.source.read(lambda batch: None, lambda: False)


@pytest.mark.usefixtures("terminal")
def test_a_relay_is_attached_once_before_the_screen(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when that is over."""
    from interpose.cli.dump import attach as dump_attach

    asked: list[Any] = []

    def attach(admin: str, rules: tuple[str, ...]) -> list[bytes]:
        asked.append((admin, rules))
        if len(asked) > 1:
            raise click.ClickException("gone")
        return [encode(Dropped(frames=1, size=1, time=1))]

    monkeypatch.setattr(dump_attach, "attach", attach)
    code, _, (view,) = run("--admin", "/a.sock", "--only", "*:full")
    assert code == 0
    assert asked == [("/a.sock", ("*:full",))]
    heard: list[Any] = []
    view.feed.source.read(heard.extend, lambda: False)
    assert heard == [Dropped(frames=1, size=1, time=1)]
    with pytest.raises(SourceLostError, match="gone"):
        view.feed.source.read(heard.extend, lambda: False)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("arguments", "rules", "hidden"),
    [([], "default", True), (["--redact", "strict"], "strict", True), (["--redact", "none"], "none", False)],
)
def test_a_relay_is_redacted_unless_told(
    run: Any, tmp_path: Path, arguments: list[str], rules: str, hidden: bool
) -> None:
    """Metadata that holds a token shows whether."""
    _, _, (view,) = run("--admin", str(tmp_path / "admin.sock"), "--wait", *arguments)
    frame = Begin(number=1, time=0, path="/runtime.v1.RuntimeService/Version", metadata=(("authorization", "secret"),))
    refine = view.feed._refine()
    assert ("secret" not in str(refine(frame))) == hidden
    assert view.redaction == rules


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("rules", "said"), [("none", None), ("strict", "strict")])
def test_more_of_a_recording_can_be_hidden(run: Any, tmp_path: Path, rules: str, said: str | None) -> None:
    """Less than was hidden when it was made cannot be."""
    _, _, (view,) = run(str(sample_recording(tmp_path / "a.crirec")), "--redact", rules)
    assert view.redaction == said


def test_help_has_examples(run: Any) -> None:
    """For newcomers."""
    code, output, _ = run("--help")
    assert code == 0
    assert "interpose dump live calls.crirec" in output


def test_the_stream_that_is_no_terminal_is_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one of three."""
    monkeypatch.setattr(dump_live, "_streams", lambda: {"stdin": io.StringIO(), "stdout": Terminal()})
    assert "needs a terminal, which stdin is not" in " ".join(run()[1].split())
