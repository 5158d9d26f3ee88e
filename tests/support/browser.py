"""Debian's chromium without a window, driven over two pipes: JSON messages that end with a zero byte.

For tests of pages. Invariants: nothing leaves the machine (pages are files, every name leads nowhere), the browser is
gone after the `with` block, and what a page complained about is in `errors`.
"""

import base64
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import missing_programs

PROGRAM: Final = "chromium"
_ARGUMENTS: Final = (
    *("--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--no-proxy-server"),
    # Every name that is not a file leads nowhere.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
# The browser reads from 3 and writes to 4; a process of ours puts them there and becomes the browser.
_LAUNCH: Final = (
    "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); os.execvp(sys.argv[3], sys.argv[3:])"
)
# What a key is called, what it types, and its number where a page may ask for it.
_KEYS: Final = {"Enter": ("\r", 13), "Escape": ("", 27), "ArrowDown": ("", 40), "ArrowUp": ("", 38), "Tab": ("\t", 9)}
_LEFT: Final = {"button": "left", "clickCount": 1}


class BrowserError(Exception):
    """The browser did not do what was asked, or said that it cannot."""


class Browser:
    """One browser with one page."""

    def __init__(self, *, width: int = 1280, height: int = 800) -> None:
        self._size = (width, height)
        self._folder = Path(tempfile.mkdtemp(prefix="interpose-browser-"))
        self._number = 0
        self._session = ""
        self._unread = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._loaded = False
        self.errors: list[str] = []

    @staticmethod
    def missing() -> str | None:
        """Why there is no browser here, or None."""
        return missing_programs(PROGRAM)

    def __enter__(self) -> Self:
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        # Above 4, so that neither stands where the other has to go.
        high_in, high_out = (os.dup2(one, one + 60) for one in (theirs_in, theirs_out))
        command = [PROGRAM, *_ARGUMENTS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(high_in), str(high_out), *command],
            pass_fds=(high_in, high_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(self._folder)},
        )
        for one in (theirs_in, theirs_out, high_in, high_out):
            os.close(one)
        os.set_blocking(self._from, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._from, selectors.EVENT_READ)
        try:
            self._attach()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, politely first."""
        try:
            self._send("Browser.close", {}, session=False)
            self._process.wait(WAIT_LIMIT)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._selector.close()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- what a person does

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file, anew also if only the fragment differs."""
        self._loaded = False
        self.command("Page.navigate", {"url": "about:blank"})
        self._wait(lambda: self._loaded, "the empty page")
        self._loaded = False
        self.command("Page.navigate", {"url": page.resolve().as_uri() + (f"#{fragment}" if fragment else "")})
        self._wait(lambda: self._loaded, f"{page.name} to load")
        self.settle()

    def click(self, selector: str, *, at: tuple[float, float] | None = None) -> None:
        """Click the middle of the first element, or a place in it (shares of its width and height)."""
        place = self._place(selector, at)
        self._mouse("mousePressed", place, **_LEFT)
        self._mouse("mouseReleased", place, **_LEFT)
        self.settle()

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag from one place of an element to another."""
        first, last = self._place(selector, start), self._place(selector, end)
        middle = ((first[0] + last[0]) / 2, (first[1] + last[1]) / 2)
        self._mouse("mousePressed", first, **_LEFT)
        self._mouse("mouseMoved", middle, button="left")
        self._mouse("mouseMoved", last, button="left")
        self._mouse("mouseReleased", last, **_LEFT)
        self.settle()

    def hover(self, selector: str, at: tuple[float, float] | None = None) -> None:
        """Move the mouse there."""
        self._mouse("mouseMoved", self._place(selector, at))
        self.settle()

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.command("Input.insertText", {"text": text})
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys: one character each, or a name such as Enter."""
        for key in keys:
            text, number = _KEYS.get(key, (key if len(key) == 1 else "", 0))
            facts: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": number}
            self.command("Input.dispatchKeyEvent", {"type": "keyDown", "text": text, **facts})
            self.command("Input.dispatchKeyEvent", {"type": "keyUp", **facts})
        self.settle()

    def resize(self, width: int, height: int) -> None:
        """Another size of the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", size)
        self.settle()

    def dark(self, wanted: bool) -> None:
        """What the desktop asks for."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
        self.command("Emulation.setEmulatedMedia", {"media": "", "features": [scheme]})
        self.settle()

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        return base64.b64decode(self.command("Page.printToPDF", {})["data"])

    def screenshot(self, path: Path) -> None:
        """What can be seen, as PNG."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", {"format": "png"})["data"]))

    # -- what a test asks

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        answer = self.command(
            "Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True, "userGesture": True}
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {_told(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """What an element says, as it is seen."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def texts(self, selector: str) -> list[str]:
        """What each such element says."""
        found: list[str] = self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)"
        )
        return found

    def settle(self) -> None:
        """Until the page has drawn what it was told."""
        self.evaluate(
            "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 0))"
        )

    # -- the protocol

    def command(self, method: str, values: dict[str, Any], *, page: bool = True) -> dict[str, Any]:
        """One command of the browser's protocol, to the page or to the browser as a whole, and its answer."""
        number = self._send(method, values, session=page and bool(self._session))
        self._wait(lambda: number in self._answers, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def _attach(self) -> None:
        targets = self.command("Target.getTargets", {})["targetInfos"]
        page = next((one["targetId"] for one in targets if one["type"] == "page"), None)
        page = page or self.command("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self.command("Target.attachToTarget", {"targetId": page, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable", {})
        self.dark(False)
        self.resize(*self._size)

    def _send(self, method: str, values: dict[str, Any], *, session: bool) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if session:
            message["sessionId"] = self._session
        rest = memoryview(json.dumps(message).encode() + b"\0")
        while rest:
            rest = rest[os.write(self._to, rest) :]
        return self._number

    def _wait(self, done: Any, what: str) -> None:
        deadline = time.monotonic() + WAIT_LIMIT
        while not done():
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise BrowserError(f"waited {WAIT_LIMIT:g} s in vain for {what}")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise BrowserError(f"the browser is gone while waiting for {what}")
            *whole, self._unread = (self._unread + data).split(b"\0")
            for one in whole:
                self._take(json.loads(one))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
            return
        values = message.get("params", {})
        match message["method"]:
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.errors.append(_told(values["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in values["args"]))
            case "Log.entryAdded" if values["entry"]["level"] in ("error", "warning"):
                self.errors.append(values["entry"]["text"])

    def _mouse(self, kind: str, place: tuple[float, float], **values: Any) -> None:
        self.command("Input.dispatchMouseEvent", {"type": kind, "x": place[0], "y": place[1], **values})

    def _place(self, selector: str, at: tuple[float, float] | None) -> tuple[float, float]:
        right, down = at or (0.5, 0.5)
        found = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            " e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            " return [r.left, r.top, r.width, r.height]; })()"
        )
        if found is None:
            raise BrowserError(f"there is no {selector}")
        left, top, width, height = found
        return left + width * right, top + height * down


def _told(details: dict[str, Any]) -> str:
    return str(details.get("exception", {}).get("description") or details.get("text"))
