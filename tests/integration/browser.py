# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that tests talk to over a pipe, in the protocol of its developer tools."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 60.0


def browser_problem() -> str | None:
    """Why there is no browser here, or nothing."""
    return None if shutil.which("chromium") else "chromium is not installed"


class Browser:
    """One page. What it logs, what fails in it and what it asks the network for is kept."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.write_end = to_browser
        self.read_end = from_browser
        self.number = 0
        self.buffer = b""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.loaded = False
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _message(self, end: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.read_end, 1 << 20)
            if not part:
                raise ConnectionError("the browser has ended")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(parameters["args"]))
            case "Log.entryAdded":
                self.complaints.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Page.loadEventFired":
                self.loaded = True

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        end = time.monotonic() + SECONDS
        while True:
            answer = self._message(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, url: str) -> None:
        self.loaded = False
        self.call("Page.navigate", url=url)
        end = time.monotonic() + SECONDS
        while not self.loaded:
            self._message(end)

    def look(self, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
        """What the user prefers, and the size of the window."""
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def value(self, expression: str) -> Any:
        """Of a JavaScript expression; of a promise, what it becomes."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def key(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def browser(directory: Path) -> Iterator[Browser]:
    """A browser of its own, that ends with the test. `directory` gets its profile."""
    browser_reads, we_write = os.pipe()
    we_read, browser_writes = os.pipe()

    def place_pipes() -> None:
        # Where the browser looks for them; over numbers that may be those of the pipes themselves.
        reads, writes = os.dup(browser_reads), os.dup(browser_writes)
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    process = subprocess.Popen(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--no-first-run", "--disable-extensions", "--disable-background-networking",
         "--disable-component-update", "--remote-debugging-pipe",
         f"--user-data-dir={directory / 'profile'}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        close_fds=False, preexec_fn=place_pipes, start_new_session=True,
        env=os.environ | {"HOME": str(directory), "TMPDIR": str(directory)})
    os.close(browser_reads)
    os.close(browser_writes)
    try:
        yield Browser(we_write, we_read)
    finally:
        os.close(we_write)
        os.close(we_read)
        # With the helpers that it has started: they are of its process group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS)
