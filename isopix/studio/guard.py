"""What the studio answers: requests of its own page on this machine, and uploads up to a limit."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isopix.storage.cache import size_of

# Names of this machine: a page of another site that leads its own name here (DNS rebinding) has none of them.
LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")  # a tunnel may have another port
MAX_FILE, MAX_UPLOADS = 2**26, 2**28  # bytes of an uploaded file, and of all that are kept


class Guard:
    """Middleware (ASGI) around the whole page: every route, also of its files, streams and web sockets."""

    def __init__(self, app: Any, uploads: Path):
        self.app, self.uploads, self.arriving = app, uploads, 0

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope.get("headers", ())}
        unknown = MAX_UPLOADS if "transfer-encoding" in headers else 0  # no browser sends an unknown size
        size = int(headers.get("content-length", unknown))
        self.arriving += size
        try:
            if scope["type"] == "lifespan" or not (problem := self.problem(headers, size)):
                await self.app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
                await send({"type": "http.response.start", "status": 403, "headers": plain})
                await send({"type": "http.response.body", "body": f"isopix: {problem}\n".encode()})
        finally:
            self.arriving -= size

    def problem(self, headers: Mapping[str, str], size: int) -> str:
        """Return in a line why a request is refused; empty for one of the page."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not LOCAL.fullmatch(host):
            return f"the studio is at 127.0.0.1 and localhost, not at '{host}'"
        if origin not in (None, f"http://{host}"):
            return f"the studio answers its own page, not one of '{origin}'"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "the studio answers its own page, not a link of another; type its address"
        full = size and size_of(self.uploads) + self.arriving >= MAX_UPLOADS
        return "uploads take 256 MiB, the limit; start the studio again" if full else ""
