"""Headless Chromium, controlled through its debugging protocol over two pipes: no driver, package or port.

    with Browser() as browser:
        page = browser.open("model.html", width=390)
        page.run("document.title")

Chromium reads commands from file descriptor 3 and writes answers and events to 4; each is JSON followed by a NUL byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 30.0
FLAGS = [
    *("--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-extensions", "--disable-gpu"),
    *("--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--force-color-profile=srgb", "--disable-dev-shm-usage"),
]
KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
    "Tab": 9,
    "Escape": 27,
}


def find_browser() -> str | None:
    """Path of the program, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One process with a new profile; both are removed when the block ends."""

    def __init__(self) -> None:
        program = find_browser()
        assert program is not None, "no Chromium on the path"
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        flags = [*FLAGS, f"--user-data-dir={self.profile}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        commands, answers = _pipe(), _pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, commands[0], 3),
            (os.POSIX_SPAWN_DUP2, answers[1], 4),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        self.process = os.posix_spawn(program, [program, *flags], os.environ, file_actions=actions, setpgroup=0)
        os.close(commands[0])
        os.close(answers[1])
        self.sender, self.receiver = commands[1], answers[0]
        self.rest, self.count, self.pages = b"", 0, {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.sender)
        os.close(self.receiver)
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, path: str | Path, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """Load a file in a window of this size."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.resize(width, height)
        page.choose_theme("dark" if dark else "light")
        page.load(Path(path).resolve().as_uri())
        return page

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer to a command; events that arrive before it are passed to their pages."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        text = json.dumps(message | ({} if session is None else {"sessionId": session})).encode() + b"\0"
        while text:
            text = text[os.write(self.sender, text) :]
        end = time.monotonic() + SECONDS
        while True:
            found = self.receive(end)
            if found.get("id") == self.count:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]

    def receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.receiver], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"Chromium did not answer within {SECONDS} seconds"
            received = os.read(self.receiver, 1 << 20)
            assert received, "Chromium has exited"
            self.rest += received
        text, self.rest = self.rest.split(b"\0", 1)
        found = json.loads(text)
        if "method" in found and found.get("sessionId") in self.pages:
            self.pages[found["sessionId"]].note(found["method"], found["params"])
        return found


class Page:
    """One window: `errors` are the messages of its console, `requests` the requested URLs."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.is_loaded = False

    def note(self, event: str, details: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self.is_loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.errors.append(details["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif event == "Log.entryAdded":
            self.errors.append(details["entry"]["text"])
        elif event == "Runtime.consoleAPICalled":
            self.errors.append(f"console: {details['args']}")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.send(method, self.session, **parameters)

    def close(self) -> None:
        del self.browser.pages[self.session]
        self.browser.send("Target.closeTarget", targetId=self.target)

    def load(self, address: str) -> None:
        self.is_loaded = False
        self.send("Page.navigate", url=address)
        end = time.monotonic() + SECONDS
        while not self.is_loaded:
            self.browser.receive(end)

    def run(self, code: str, *arguments: Any) -> Any:
        """The value of an expression, or of a function called with arguments; promises are awaited."""
        if arguments:
            code = f"({code})({', '.join(json.dumps(argument) for argument in arguments)})"
        found = self.send("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def read(self, selector: str) -> list[str]:
        """Texts of all elements that match a selector."""
        return self.run("(all) => [...document.querySelectorAll(all)].map((node) => node.textContent)", selector)

    def figures(self, selector: str) -> list[float]:
        """The exact values of inputs and data elements."""
        return self.run("(all) => [...document.querySelectorAll(all)].map((node) => Number(node.value))", selector)

    def count(self, selector: str) -> int:
        return self.run("(all) => document.querySelectorAll(all).length", selector)

    def click(self, selector: str) -> None:
        self.run("(one) => document.querySelector(one).click()", selector)
        self.settle()

    def set(self, selector: str, value: Any, event: str = "change") -> None:
        """Set the value of an input and fire its event."""
        code = "(one, value, event) => { const node = document.querySelector(one); node.value = value;"
        self.run(f"{code} node.dispatchEvent(new Event(event, {{ bubbles: true }})); }}", selector, value, event)
        self.settle()

    def show(self, selector: str) -> None:
        """Open the fold around an element, scroll to it, and wait until charts near the window are drawn."""
        code = "(one) => { const node = document.querySelector(one), fold = node.closest('details');"
        self.run(f"{code} if (fold) fold.open = true; node.scrollIntoView(); }}", selector)
        self.settle()

    def settle(self) -> None:
        """Wait for three frames, in which charts near the window are drawn."""
        frame = "await new Promise(requestAnimationFrame);"
        self.run(f"(async () => {{ {3 * frame} }})()")

    def press(self, key: str, shift: bool = False) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=KEYS[key],
                modifiers=8 * shift,
            )

    def write(self, text: str) -> None:
        """Insert text at the cursor."""
        self.send("Input.insertText", text=text)

    def point(self, x: float, y: float, click: bool = False) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def resize(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def choose_theme(self, theme: str) -> None:
        """Set the system colour scheme: "light" or "dark"."""
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    def photograph(self, path: str | Path, whole: bool = False) -> None:
        """Save the window, or the whole page, as a PNG file."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(found["data"]))


def browser_version() -> str:
    program = find_browser()
    return (
        "none"
        if program is None
        else subprocess.check_output([program, "--version"], stderr=subprocess.DEVNULL, text=True).strip()
    )


def _pipe() -> tuple[int, int]:
    """A pipe whose descriptors do not collide with 3 and 4."""
    ends = os.pipe()
    found = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return found[0], found[1]
