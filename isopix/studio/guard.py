"""What the studio answers: requests of its own page on this machine, and uploads up to a limit."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isopix.core.text import format_bytes
from isopix.storage.cache import size_of

# Names of this machine: a page of another site that leads its own name here (DNS rebinding) has none of them.
LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")  # a tunnel may have another port
MAX_FILE = 2**26  # bytes of an uploaded file
MAX_UPLOADS = 2**28  # bytes of all uploaded files that are kept


class Guard:
    """Middleware (ASGI) around the whole page: every route, also of its files, streams and web sockets."""

    def __init__(self, app: Any, uploads: Path):
        self.app, self.uploads, self.arriving = app, uploads, 0

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope.get("headers", ())}
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif problem := foreign(headers):
            await _refuse(scope["type"], 403, problem, send)
        else:
            most = MAX_UPLOADS if "transfer-encoding" in headers else 0  # no browser sends an unknown size
            await self._limited(int(headers.get("content-length", most)), scope, receive, send)

    async def _limited(self, size: int, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.arriving += size
        try:
            if size and size_of(self.uploads) + self.arriving >= MAX_UPLOADS:
                problem = f"uploads take {format_bytes(MAX_UPLOADS)}, the limit; start the studio again"
                await _refuse(scope["type"], 413, problem, send)
            else:
                await self.app(scope, receive, send)
        finally:
            self.arriving -= size


def foreign(headers: Mapping[str, str]) -> str:
    """Return in a line what shows that a request is of another site; empty for one of the page."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if not LOCAL.fullmatch(host):
        return f"the studio is at 127.0.0.1 and localhost, not at '{host}'"
    if origin not in (None, f"http://{host}"):
        return f"the studio answers its own page, not one of '{origin}'"
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "the studio answers its own page, not a link of another; type its address"
    return ""


async def _refuse(kind: str, status: int, problem: str, send: Any) -> None:
    if kind == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"isopix: {problem}\n".encode()})
