"""The page that people label in: one local server, one static file, nobody else let in.

It listens on 127.0.0.1, under an address with a random token. A request whose Host is another name (a page elsewhere
that had its own name point here) or whose Origin is another page's is refused, and so is one without the token. What is
shown is sent as JSON and put into the page as text; the page may load nothing but its own script, style and images.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.core.errors import DemurError, StorageError, UsageError
from demur.core.strict_json import parsed_json
from demur.judge.annotation.task import ADJUDICATED, CANNOT, Session, as_json

if TYPE_CHECKING:
    from aiohttp import web

_KINDS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
"""Images that a browser shows and that hold no script."""


class Page:
    """The requests of one annotator's page.

    Args:
        session: whose answers are filed.
        token: that every address begins with.
    """

    def __init__(self, session: Session, token: str = "") -> None:
        self.session = session
        self.token = token or secrets.token_urlsafe(18)
        self.port = 0
        self._html = (
            files("demur.judge.annotation").joinpath("page.html").read_text(encoding="utf-8")
        )
        hashes = {
            tag: " ".join(
                f"'sha256-{_sha(text)}'"
                for text in re.findall(rf"<{tag}>(.*?)</{tag}>", self._html, re.S)
            )
            for tag in ("style", "script")
        }
        self._policy = (
            f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; img-src 'self'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    @property
    def url(self) -> str:
        """Where the annotator goes."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def app(self) -> web.Application:
        """The application; every answer of it goes through `guarded`."""
        from aiohttp import web

        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            if why := self._refusal_reason(request):
                return self._add_headers(web.json_response({"error": why}, status=403))
            try:
                return self._add_headers(await handler(request))
            except web.HTTPException as error:
                return self._add_headers(
                    web.json_response({"error": error.reason}, status=error.status)
                )
            except (DemurError, ValueError, KeyError, TypeError, OverflowError) as error:
                status = 500 if isinstance(error, StorageError) else 400
                return self._add_headers(
                    web.json_response({"error": str(error)[:500]}, status=status)
                )

        app = web.Application(middlewares=[guarded], client_max_size=64_000)
        app.router.add_get("/{token}/", self._page)
        app.router.add_get("/{token}/task", self._task)
        app.router.add_get("/{token}/item", self._item)
        app.router.add_post("/{token}/act", self._act)
        app.router.add_get("/{token}/image/{name}", self._image)
        return app

    def _refusal_reason(self, request: web.Request) -> str:
        own_hosts = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        if request.headers.get("Host", "") not in own_hosts:
            return "this page is served to 127.0.0.1 alone"
        origin = request.headers.get("Origin")
        if (origin is not None or request.method != "GET") and origin not in {
            f"http://{host}" for host in own_hosts
        }:
            return "asked by another page"
        token = request.path.split("/")[1] if "/" in request.path else ""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return "open the address that demur annotate printed"
        return ""

    def _add_headers(self, response: web.StreamResponse) -> web.StreamResponse:
        response.headers.update(
            {
                "Content-Security-Policy": self._policy,
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cache-Control": "no-store",
                "Cross-Origin-Resource-Policy": "same-origin",
            }
        )
        return response

    async def _page(self, request: web.Request) -> web.Response:
        from aiohttp import web

        return web.Response(text=self._html, content_type="text/html")

    async def _task(self, request: web.Request) -> web.Response:
        task, session = self.session.task, self.session
        return self._json(
            {
                "name": task.name,
                "labels": [
                    {"name": label.name, "text": label.text or label.name} for label in task.labels
                ],
                "rubric": task.rubric,
                "version": task.version,
                "annotator": session.name,
                "total": len(session.places),
                "adjudicate": bool(session.others),
                "cannot": CANNOT,
                "start": session.next(),
            }
        )

    async def _item(self, request: web.Request) -> web.Response:
        at = int(request.query.get("at", "0"))
        if not 0 <= at < len(self.session.places):
            raise UsageError(f"place {at} of {len(self.session.places)}", cure="reload the page")
        return self._json(self._item_view(at))

    async def _act(self, request: web.Request) -> web.Response:
        body = parsed_json(await request.text())
        if not isinstance(body, dict):
            raise UsageError("no JSON object", cure="reload the page")
        at = int(body.get("at", 0))
        action = str(body.get("do", ""))
        about = self.session.act(
            action,
            at,
            label=str(body.get("label", "")),
            note=str(body.get("note", "")),
            seconds=float(body.get("seconds", 0.0)),
        )
        where = (
            about
            if action == "undo"
            else self.session.next(at)
            if action in ("label", "skip")
            else at
        )
        view = {} if where is None else self._item_view(where)
        return self._json(
            view | {"nothing": action == "undo" and about is None, "progress": self._progress()}
        )

    def _item_view(self, place_number: int) -> dict[str, Any]:
        session = self.session
        item = session.items[session.places[place_number].item]
        labelling = session.state_at(place_number)
        others = [
            [name, last_labels[item.id].label, last_labels[item.id].note]
            for name, last_labels in session.others.items()
            if item.id in last_labels
        ]
        return {
            "at": place_number,
            "shown": item.shown,
            "marks": item.marks,
            "together": [
                {
                    "at": n,
                    "shown": session.items[session.places[n].item].shown,
                    "marks": session.items[session.places[n].item].marks,
                    "label": session.state_at(n).label,
                }
                for n in session.together(place_number)
            ],
            "images": item.images,
            "label": labelling.label,
            "note": labelling.note,
            "hidden": item.hidden if labelling.seen else [],
            "others": others,
            "progress": self._progress(),
        }

    def _progress(self) -> dict[str, Any]:
        return {
            "done": self.session.done,
            "total": len(self.session.places),
            "rate": self.session.per_minute,
        }

    async def _image(self, request: web.Request) -> web.Response:
        from aiohttp import web

        name = request.match_info["name"]
        is_of_task = any(name in item.images for item in self.session.items.values())
        path = self.session.folder / "images" / name
        if (
            not is_of_task
            or "/" in name
            or "\\" in name
            or path.suffix not in _KINDS
            or not path.is_file()
        ):
            raise web.HTTPNotFound
        data = await asyncio.to_thread(path.read_bytes)
        return web.Response(body=data, content_type=_KINDS[path.suffix])

    @staticmethod
    def _json(value: Any) -> web.Response:
        from aiohttp import web

        return web.Response(text=as_json(value), content_type="application/json")


def _sha(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


async def serving(page: Page, port: int = 0) -> Any:
    """Start serving; returns the runner, whose ``cleanup()`` ends it.

    Raises:
        UsageError: the port is taken, or there is no such port.
    """
    from aiohttp import web

    runner = web.AppRunner(page.app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        raise UsageError(
            getattr(error, "strerror", None) or str(error),
            item=f"port {port}",
            cure="choose another --port",
        ) from error
    page.port = int(runner.addresses[0][1])
    return runner


def serve(
    folder: Path,
    name: str,
    *,
    port: int = 0,
    adjudicate: bool = False,
    ready: Callable[[str], None] = lambda url: None,
) -> Session:
    """Serve a task's page to one annotator until interrupted (Ctrl-C); returns the session, closed.

    Args:
        folder: of the task.
        name: of the annotator; of no meaning where disagreements are settled.
        port: 0 for any that is free.
        adjudicate: the page of disagreements.
        ready: told the address.
    """
    session = Session(folder, ADJUDICATED if adjudicate else name, adjudicate=adjudicate)
    try:
        asyncio.run(_until_stopped(Page(session), port, ready))
    finally:
        session.close()
    return session


async def _until_stopped(page: Page, port: int, ready: Callable[[str], None]) -> None:
    runner = await serving(page, port)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        ready(page.url)
        await stop.wait()
    finally:
        await runner.cleanup()
