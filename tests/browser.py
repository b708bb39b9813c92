"""A real browser without a driver: headless Chromium told what to do through its DevTools pipe.

One JSON message a line ended by a zero byte, in on descriptor 3, out on descriptor 4. Nothing to download and no
version of a driver to match with that of the browser.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 120.0  # seconds for one answer: the machine may be busy


def find_chromium():
    """Path of a browser that runs, or None; some systems have a command of that name which only points elsewhere."""
    for path in filter(None, [os.environ.get("BORROW_CHROMIUM"), *map(shutil.which, NAMES)]):
        try:
            done = subprocess.run([path, "--version"], capture_output=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and b"Chrom" in done.stdout:
            return path
    return None


def moved(descriptor):
    """The same end of a pipe under a number from 20 up."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return copy


class Browser:
    """One headless Chromium with one page."""

    def __init__(self, path, profile):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        # The child finds its ends at 3 and 4: copies far above first, so that neither is overwritten on the way.
        read_there, write_there = moved(read_there), moved(write_there)
        launch = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # root in a container has no user namespace; only our own page is opened
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", launch, "chromium", str(read_there), str(write_there), path, *options],
            pass_fds=(read_there, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self.out, self.into = write_here, read_here
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Send one command and wait for its answer; events on the way are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        until = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            if not select.select([self.into], [], [], max(until - time.monotonic(), 0.0))[0]:
                raise TimeoutError("Chromium did not answer")
            part = os.read(self.into, 1 << 16)
            if not part:
                raise RuntimeError("Chromium ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, width=1100, height=900, scheme="light", media="", scale=1.0):
        """Open a file as it would be from disk, and wait until it is loaded."""
        self.events = []
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=wanted)
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())
        self.run("0")  # one round trip more: what the load set off has been told by now
        return self

    def run(self, code):
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{code}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key, code=None, text=None):
        """Press and release a key."""
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=code or key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code or key)

    def requests(self):
        """Addresses asked for since `open`."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self):
        """What the console holds: errors, warnings, policy violations, exceptions, and dialogs that were opened."""
        kinds = (
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Page.javascriptDialogOpening",
        )
        return [e for e in self.events if e.get("method") in kinds]

    def picture(self, path, whole=True):
        """Save what the page looks like."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path):
        """Save the page as it prints."""
        Path(path).write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def close(self):
        """End the browser."""
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError, TimeoutError):
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for descriptor in (self.out, self.into):
            os.close(descriptor)
