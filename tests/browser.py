"""A headless Chromium driven over its debugging pipe: no driver, no port, no package.

Knows pages, scripts, keys and what the console said; knows nothing about voxcli.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from needs import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--no-first-run", "--remote-debugging-pipe", "--mute-audio",
    "--autoplay-policy=no-user-gesture-required", "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)  # fmt: skip


class Browser:
    """One page in a fresh profile.

    Args:
        microphone: a WAV file that plays over and over as the microphone; None means beeps.

    Attributes:
        complaints: console errors, exceptions and failed loads so far.
        loaded: addresses that were asked for so far, but for data in addresses.
    """

    def __init__(
        self,
        folder: Path,
        width: int = 1200,
        height: int = 1000,
        *,
        microphone: Path | None = None,
    ) -> None:
        ours, theirs = os.pipe(), os.pipe()  # (read, write): to the browser, from it
        command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={folder / 'profile'}"]
        command += [f"--use-file-for-fake-audio-capture={microphone}"] if microphone else []
        command += ["about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "bash", *command],
            pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(ours[0])
        os.close(theirs[1])
        self._write, self._read = ours[1], theirs[0]
        self._buffer = b""
        self._last_id = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.loaded: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> Any:
        """One command of the DevTools protocol."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 16)
            assert data, "the browser went away"
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        method, facts = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(facts["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning"):
            self.complaints.append(str(facts["args"]))
        elif method == "Log.entryAdded" and facts["entry"]["level"] == "error":
            self.complaints.append(str(facts["entry"]))
        elif method == "Network.requestWillBeSent":
            url = facts["request"]["url"]
            self.loaded += [] if url.startswith(("data:", "blob:")) else [url]

    def resize(self, width: int, height: int, *, is_phone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=2 if is_phone else 1, mobile=is_phone,
        )  # fmt: skip

    def dark(self, is_dark: bool) -> None:
        value = "dark" if is_dark else "light"
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": value}],
        )

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True,
            userGesture=True,
        )  # fmt: skip
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str, timeout_s: float = PATIENCE_S) -> Any:
        """Wait until an expression is true."""
        deadline = time.monotonic() + timeout_s
        while not (value := self.run(script)):
            assert time.monotonic() < deadline, f"never true: {script}; {self.complaints}"
            time.sleep(0.05)
        return value

    def press(self, key: str, code: int, modifiers: int = 0) -> None:
        """A key; modifiers as the protocol has them (2 is Ctrl)."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, modifiers=modifiers,
            )  # fmt: skip

    def hover(self, selector: str) -> None:
        """Bring the mouse over the first element of a selector."""
        x, y = self.run(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            " found.scrollIntoView({block: 'center'}); const at = found.getBoundingClientRect();"
            " return [at.x + at.width / 2, at.y + at.height / 2]; })()"
        )
        for step in (-2, 0):  # a mouse comes from somewhere
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + step, y=y)

    def screenshot(self, path: Path) -> None:
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))
