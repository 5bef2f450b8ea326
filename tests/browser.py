"""A headless Chromium for tests, driven over its DevTools protocol through a pair of pipes: no package, no port.

Source: https://chromedevtools.github.io/devtools-protocol (`--remote-debugging-pipe`: the browser reads messages
from descriptor 3 and writes to 4, each a JSON object that ends with a NUL).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(
    BROWSER is None or os.name != "posix", reason="no chromium or google-chrome on PATH"
)
DEADLINE_S = 60
_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# what a shell can't do with descriptors of two digits, and a hook after fork can't do safely beside threads
_PLACE_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
    os.close(end)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Page:
    """One tab. What it asked the network for and what it complained about is kept."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in, self._buffer = to_browser, from_browser, b""
        self._count, self._session = 0, ""
        self._waiting: list[dict[str, Any]] = []
        self.requests: list[str] = []
        """Addresses, the page's own included."""
        self.complaints: list[str] = []
        """Errors and warnings of the console, and exceptions that nobody caught."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        self._count += 1
        number = self._count
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Loads a file at a size and in a scheme, and waits until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(message.get("method") == "Page.loadEventFired" for message in self._waiting):
            self._next()
        self._waiting.clear()

    def value(self, script: str) -> Any:
        """What an expression of JavaScript is, as JSON."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """A key, down and up; the keys that tests need are named as the protocol names them."""
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        about = {"key": key, "code": {" ": "Space"}.get(key, key), "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, path: Path) -> Path:
        """The whole page, as a PNG file."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + DEADLINE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser said nothing for {DEADLINE_S} s"
            part = os.read(self._in, 1 << 16)
            assert part, "the browser ended"
            self._buffer += part
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(raw)
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Page.loadEventFired":
            self._waiting.append(message)
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser of its own, with one tab; ended at the end."""
    assert BROWSER is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    command = [BROWSER, *_FLAGS, f"--user-data-dir={profile}"]
    if os.geteuid() == 0:
        command.append("--no-sandbox")  # the browser refuses its sandbox to root

    process = subprocess.Popen(
        [sys.executable, "-S", "-c", _PLACE_PIPES, str(to_read), str(from_write), *command],
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(to_write, from_read)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(to_write)
        os.close(from_read)
