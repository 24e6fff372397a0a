"""The page and its answers, on this machine and for this user alone.

It listens on the loopback address. Who opens the page has to know a key that is made anew with each start: it stands in
the address that is printed, and goes into a cookie that no other site's page can send. Requests that name another host
are refused, so that no name of somebody else's can lead here.

Three processes answer: one for sliders, one for what people write, so that a long run does not hold up the sliders, and
one for solutions, which nothing that was written before can have changed. A run can be stopped, which ends its process.
"""

from __future__ import annotations

import hmac
import json
import mimetypes
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gpusim.explore.workers import Ended, Workers
from gpusim.lab import play
from gpusim.lab.answers import answer
from gpusim.lab.exercises import Exercise
from gpusim.lab.page import lab_page, module
from isa.folders import put_file

LIMIT_S = 120.0
"""A run that takes longer is ended."""
KEPT_PAGES = 12
_COOKIE = "gpusim-lab"
_QUICK = ("predict",)
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline' 'self'; script-src 'unsafe-inline' 'self' data:; "
    "img-src data: 'self'; connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; form-action 'none'"
)


class Asker(Workers):
    """One process that answers, one question at a time. A question that waits while a later one of its kind comes is
    not asked: who moves a slider wants the last place alone."""

    def __init__(self) -> None:
        super().__init__(1)
        self._busy = threading.Lock()
        self._latest: dict[Any, int] = {}

    def ask(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, or why there is none."""
        kind = values.get("experiment")
        self._latest[kind] = number = self._latest.get(kind, 0) + 1
        with self._busy:
            if name in _QUICK and number != self._latest[kind]:
                return {"error": "", "late": True}
            _, found = next(self.run(answer, [(name, values)], LIMIT_S))
        return {"error": found.how} if isinstance(found, Ended) else found


class LabServer:
    """State of the server: pages of runs by number, the last run, and progress in the exercises."""

    def __init__(self, progress: Path, exercises: tuple[Exercise, ...]):
        self.quick, self.slow, self.judge = Asker(), Asker(), Asker()
        self.exercises = exercises
        self.pages: OrderedDict[int, str] = OrderedDict()
        self.last: dict[str, Any] | None = None
        self._number = 0
        self._progress = progress

    def warm(self) -> None:
        """Have both processes ready before somebody asks."""
        place = {each.name: each.start for each in play.EXPERIMENTS["banks"].sliders}
        for asker in (self.quick, self.slow):
            asker.ask("predict", {"experiment": "banks", "place": place, "gpu": "h200"})

    def close(self) -> None:
        """End them."""
        for asker in (self.quick, self.slow, self.judge):
            asker.close()

    def keep(self, found: dict[str, Any]) -> dict[str, Any]:
        """Takes the page out of an answer and gives it a number."""
        page = found.pop("page", None)
        if page is not None:
            self._number += 1
            self.pages[self._number] = page
            while len(self.pages) > KEPT_PAGES:
                self.pages.popitem(last=False)
            found["report"] = self._number
        return found

    def progress(self) -> dict[str, Any]:
        """Exercises by title: what was written, how often, and whether it was solved."""
        try:
            found = json.loads(self._progress.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def note(self, title: str, source: str, solved: bool) -> dict[str, Any]:
        """Write down an attempt and return what is known then; what was solved stays so, with the code that did it."""
        known = self.progress()
        before = known.get(title, {"attempts": 0, "solved": False, "source": source})
        kept = before["source"] if before["solved"] and not solved else source
        known[title] = {"attempts": before["attempts"] + 1, "solved": solved or before["solved"], "source": kept}
        put_file(self._progress, json.dumps(known, indent=1).encode())
        return known[title]

    def respond(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question of the page."""
        if name in _QUICK:
            return self.quick.ask(name, values)
        if name == "write":
            found = self.slow.ask(name, {**values, "previous": self.last})
            self.last = found.pop("saved", self.last)
            return self.keep(found)
        if name == "solve":
            exercise = self.exercises[values["number"] - 1]
            found = self.judge.ask(name, {"exercise": exercise, "source": values["source"]})
            found["progress"] = self.note(exercise.title, values["source"], bool(found.get("solved")))
        else:
            found = self.slow.ask(name, values)
        found.pop("saved", None)
        return self.keep(found)


QUESTIONS: dict[str, dict[str, Any]] = {
    "predict": {"experiment": str, "place": dict, "gpu": str},
    "write": {"source": str, "gpu": str, "language": str},
    "solve": {"number": int, "source": str},
    "watch": {"program": str, "gpu": str, "size": (int, type(None))},
    "machine": {"gpu": str, "changes": list, "program": str, "size": (int, type(None))},
}
"""Questions that the page may ask, with the types of their values."""


def make_app(lab: LabServer, key: str) -> Starlette:
    """The application. key: what a browser has to know."""

    def allowed(request: Request) -> bool:
        return hmac.compare_digest(request.cookies.get(_COOKIE, ""), key)

    async def home(request: Request) -> Response:
        given = request.query_params.get("key")
        if given is not None and hmac.compare_digest(given, key):
            response: Response = RedirectResponse("/", status_code=303)
            response.set_cookie(_COOKIE, key, httponly=True, samesite="strict")
            return response
        if not allowed(request):
            return HTMLResponse("<p>Its key is missing: open the address that <code>gpusim lab</code> printed.", 403)
        return HTMLResponse(lab_page(lab.exercises, lab.progress()), headers={"Content-Security-Policy": _POLICY})

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        text = module(name)
        if text is None or not allowed(request):
            return Response(status_code=404)
        kind = mimetypes.guess_type(name)[0] or "text/plain"
        return Response(text, media_type=kind, headers={"Cache-Control": "no-store"})

    async def report(request: Request) -> Response:
        page = lab.pages.get(request.path_params["number"])
        if page is None or not allowed(request):
            return Response("This run is no longer kept; run it again.", 404)
        return HTMLResponse(page)

    async def ask(request: Request) -> Response:
        name = request.path_params["name"]
        if not allowed(request) or request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return JSONResponse({"error": "not allowed"}, 403)
        try:
            values = await request.json()
        except ValueError:
            values = None
        if name == "stop":
            lab.slow.stop()
            lab.judge.stop()
            return JSONResponse({})
        wanted = QUESTIONS.get(name, {})
        known = isinstance(values, dict) and all(isinstance(values.get(each), kind) for each, kind in wanted.items())
        if not known or not wanted:
            return JSONResponse({"error": "not a question that the lab answers"}, 400)
        return JSONResponse(await run_in_threadpool(lab.respond, name, {each: values.get(each) for each in wanted}))

    return Starlette(
        routes=[
            Route("/", home),
            Route("/static/{name:path}", asset),
            Route("/report/{number:int}", report),
            Route("/ask/{name}", ask, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )
