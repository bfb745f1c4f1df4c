"""The HTTP application: routes, errors in one shape, the page."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from websockets.frames import CloseCode

from voxcli import __version__
from voxcli.errors import OutputError, VoxError
from voxcli.models import all_parameters
from voxcli.parameters import merged
from voxcli.server import live, local, speech, voices
from voxcli.server.dialect import IGNORED
from voxcli.server.failures import (
    ApiError,
    error_body,
    explain_bytes,
    http_message,
)
from voxcli.server.guard import BODY_SILENCE_S, MAX_SHOWN, Guard
from voxcli.server.reading import check_model
from voxcli.server.response import error_response
from voxcli.server.schema import (
    AudioModel,
    AudioModelList,
    ErrorBody,
    Health,
    ModelList,
    ModelRow,
    speech_request,
)
from voxcli.server.service import Service
from voxcli.server.validation import explain_validation
from voxcli.server.worker import RETRY_AFTER_S, State

logger = logging.getLogger(__name__)

PAGE = Path(__file__).with_name("page")
CUT_BODY = f"the body is too large, or nothing of it came for {BODY_SILENCE_S:g} s"
SHOWN_HEADERS = (  # to scripts of other origins
    "X-Model", "X-Voice", "X-Seed", "X-Sample-Rate", "X-Language", "X-Finish-Reason", IGNORED,
    "X-Estimated-Seconds", "X-Not-Followed",
    "Retry-After",
)  # fmt: skip
PAGE_FILES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "worklets.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
# Nothing from elsewhere is loaded, and nobody may frame the page.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; media-src 'self' blob:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def build_app(
    service: Service,
    *,
    api_key: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...] = (),
) -> ASGIApp:
    """The application behind its guard.

    Args:
        api_key, hosts, origins: as for `Guard`.
    """
    guarded = Guard(build_api(service), api_key, hosts, origins)
    if not origins:
        return guarded
    # A key in a header is no credential that a browser sends by itself, so none are allowed. What
    # a browser asks before a request has no key, hence this is outermost.
    return CORSMiddleware(
        guarded, allow_origins=origins, allow_methods=["*"], allow_headers=["*"],
        expose_headers=SHOWN_HEADERS,
    )  # fmt: skip


def build_api(service: Service) -> FastAPI:
    """The routes alone.

    A speech request has fields for what any model can be told: what another one has is refused with
    what this one has.
    """
    app = FastAPI(
        title="voxcli", version=__version__, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json", redirect_slashes=False,
    )  # fmt: skip
    app.state.service = service
    parameters = merged((all_parameters(), service.facts.parameters))
    request_type = speech_request(parameters, is_strict=service.dialect.is_strict)
    app.include_router(speech.build_router(request_type))
    app.include_router(live.build_router(request_type))
    app.include_router(voices.router)
    app.include_router(local.router)
    _add_operations(app, service)
    _add_page(app)
    _add_errors(app)
    app.add_middleware(_Bugs)
    app.add_middleware(_Heads)
    return app


def _add_operations(app: FastAPI, service: Service) -> None:
    def model_rows() -> list[ModelRow]:
        facts = service.engine.facts
        served = ModelRow(
            id=facts.model,
            root=facts.model,
            created=service.started,
            owned_by="voxcli",
            sample_rate=facts.sample_rate,
            languages=list(facts.languages),
            modes=[str(mode) for mode in facts.modes],
        )
        names = dict.fromkeys((facts.model, *service.dialect.models))
        return [served.model_copy(update={"id": name}) for name in names]

    @app.get("/v1/models")
    async def list_models() -> ModelList:
        """The one model that is served, and then its other names."""
        return ModelList(data=model_rows())

    @app.get("/v1/models/{name:path}", responses={404: {"model": ErrorBody}})
    async def get_model(name: str) -> ModelRow:
        """The served model, by any of its names."""
        check_model(name, service)
        return next(row for row in model_rows() if row.id == name)

    @app.get("/v1/audio/models", include_in_schema=False)
    async def list_audio_models() -> AudioModelList:
        """The same for Open WebUI."""
        rows = [AudioModel(id=row.id, name=row.id) for row in model_rows()]
        return AudioModelList(models=rows)

    @app.get("/health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        """200 when speech can be asked for; else 503."""
        worker = service.worker
        condition = worker.condition
        if condition is not State.READY:
            response.status_code = 503
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
        return Health(
            status=condition,
            model=service.facts.model,
            version=__version__,
            pid=os.getpid(),
            streams=worker.num_running,
            queue=worker.num_waiting,
            restarts=service.num_restarts,
            error=http_message(worker.error, is_passing=True) if worker.error else None,
            replicas=service.replicas(),
        )

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Prometheus' text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html", media_type="text/html", headers=PAGE_HEADERS)

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in PAGE_FILES:
            raise HTTPException(404)
        return FileResponse(PAGE / name, media_type=PAGE_FILES[name], headers=PAGE_HEADERS)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(VoxError)
    async def expected(request: Request, error: VoxError) -> Response:
        return _counted(request, error_response(error))

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        return _counted(request, JSONResponse(error.body, error.status))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        problems: Any = error.errors()
        return _counted(request, JSONResponse(explain_validation(problems), 400))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        if isinstance(error.__cause__, ApiError):  # of who reads bodies, by way of FastAPI
            return await refused(request, error.__cause__)
        if isinstance(error.__cause__, VoxError):
            return await expected(request, error.__cause__)
        if isinstance(error.__cause__, ClientDisconnect):
            body = error_body(CUT_BODY, "invalid_request_error", None, "too_large")
            return JSONResponse(body, 413)
        if isinstance(error.__cause__, UnicodeDecodeError):
            return _counted(request, JSONResponse(explain_bytes(error.__cause__), 400))
        if isinstance(error.__cause__, OSError):  # an upload had no room on the disk
            return error_response(OutputError(f"cannot keep an upload: {error.__cause__}"))
        message = f"{request.method} {request.url.path[:MAX_SHOWN]}: {error.detail.lower()}"
        if error.status_code == 404 and (meant := _meant(app, request.url.path)):
            message += f"; the path is {meant}: check the base URL of the client"
        body = error_body(message, "invalid_request_error", None, None)
        return JSONResponse(body, error.status_code, error.headers)

    @app.websocket("/{path:path}")
    async def no_websocket(websocket: WebSocket) -> None:
        path = websocket.url.path[:MAX_SHOWN]
        message = f"{path}: not found; the path of the WebSocket is {live.PATH}"
        body = error_body(message, "invalid_request_error", None, None)
        await websocket.send_denial_response(JSONResponse(body, 404))

    @app.exception_handler(ClientDisconnect)
    async def too_large(request: Request, error: ClientDisconnect) -> Response:
        body = error_body(CUT_BODY, "invalid_request_error", None, "too_large")
        return JSONResponse(body, 413)


def _meant(app: FastAPI, path: str) -> str | None:
    """The path that was meant where a client's base URL lacks /v1, or has it where the client adds
    it too; None where there is no such path."""
    meant = f"/v1/{path.strip('/')}"
    while meant.startswith("/v1/v1/"):
        meant = meant.removeprefix("/v1")
    return meant if meant != path and meant in app.openapi()["paths"] else None


class _Heads:
    """HEAD wherever there is GET: the HTTP server keeps the body to itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


class _Bugs:
    """An unexpected exception as an answer, with its traceback in the log.

    FastAPI's own handler of all exceptions raises them again once it has answered. The connection
    is closed then, and its client, who was told that it stays, may be sending the next request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception as err:
            logger.error("%s %s failed", scope.get("method"), scope.get("path"), exc_info=err)
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": CloseCode.INTERNAL_ERROR})
                return
            if has_begun:  # who listens learns it from a connection that is cut
                raise
            body = error_body("the server failed; see its log", "server_error", None, "bug")
            await JSONResponse(body, 500)(scope, receive, send)


def _counted(request: Request, response: Response) -> Response:
    """Refusals of speech that never became a stream."""
    if request.url.path == "/v1/audio/speech":
        outcome = "refused" if response.status_code < 500 else "failed"
        request.app.state.service.metrics.requests.labels(outcome).inc()
    return response
