"""Wheels of a few lines, and an index on this machine that hands them out and counts."""

from __future__ import annotations

import base64
import hashlib
import html
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any


def make_wheel(
    folder: Path,
    distribution: str,
    version: str,
    files: dict[str, str],
    *,
    requires_python: str = ">=3.9",
    requires: str = "",
    recorded: dict[str, str] | None = None,
) -> Path:
    """A wheel of pure Python that installs `files`, with a script; its RECORD is of `recorded` where given."""
    name = distribution.replace("-", "_")
    dist_info = f"{name}-{version}.dist-info"
    metadata = {
        f"{dist_info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        f"Requires-Python: {requires_python}\n" + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{dist_info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{dist_info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    lines = [
        f"{path},sha256={_digest(text)},{len(text)}"
        for path, text in {**files, **metadata, **(recorded or {})}.items()
    ]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, text in {**files, **metadata}.items():
            wheel.writestr(inner, text)
        wheel.writestr(f"{dist_info}/RECORD", "\n".join([*lines, f"{dist_info}/RECORD,,"]) + "\n")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class Index:
    """What has been asked of the index so far, by path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []

    @property
    def downloads(self) -> int:
        """How many wheels it has handed out."""
        return sum(path.endswith(".whl") for path in self.asked)


@contextmanager
def served(
    folder: Path, held: threading.Event | None = None, requires_python: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Index]:
    """An index of one project, whose wheels lie in `folder`; it answers no download before `held` is set.

    `requires_python` is what it says of versions.
    """

    def link(name: str) -> str:
        needed = html.escape(requires_python.get(name.split("-")[1], ""))
        return f'<a href="/{name}" data-requires-python="{needed}">{name}</a>'

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def do_GET(self) -> None:
            index.asked.append(self.path)
            if self.path.endswith(".whl"):
                if held is not None:
                    held.wait(60)
                super().do_GET()
                return
            links = "".join(link(wheel.name) for wheel in folder.glob("*.whl"))
            page = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_arguments: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index = Index(f"http://127.0.0.1:{server.server_port}/simple")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        if held is not None:
            held.set()
        server.shutdown()
        server.server_close()
        thread.join()
