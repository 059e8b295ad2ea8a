"""Errors as the services answer them: a status, and the JSON object `{"code", "message", "request_id"}`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, compile_path
from starlette.types import Scope

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    DatabaseError,
    EmbeddingModelError,
    FlowError,
    InputError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    NotFoundError,
    ReMeError,
    SpoolError,
    did_you_mean,
)
from reme_core.jobs.log import REQUEST_ID
from reme_core.server.wire import describe_problems

log = logging.getLogger(__name__)

_ANSWERS: Final[tuple[tuple[type[ReMeError], int, str], ...]] = (
    (InputError, 422, ""),
    (NotFoundError, 404, ""),
    (ConflictError, 409, ""),
    (ConfigurationError, 409, ""),  # the request is valid, but this service is not configured for it
    (EmbeddingModelError, 409, ""),
    (FlowError, 422, ""),
    (DatabaseError, 503, "the database is unavailable; try again later, or ask the operator of the service"),
    (SpoolError, 503, ""),
    (ModelUnavailableError, 503, "a model is unavailable; try again later, or ask the operator of the service"),
    (ModelRefusedError, 502, "a model refuses this request; change it, or ask the operator of the service"),
    (ModelAnswerError, 502, "a model's answer is of no use; try again, or ask the operator of the service"),
    (ModelError, 502, "a model refuses this service; ask its operator"),
    (ReMeError, 500, ""),
)
"""The HTTP status of each class of errors, and what callers are told instead of its message, if that is not for them.

The first class counts that an error is an instance of.
"""
INTERNAL_MESSAGE: Final = "an error of the service itself; its log tells more under this request id"

_CODES: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
}


class ErrorBody(BaseModel):
    """What went wrong, and what to do about it."""

    code: str = Field(description="Stable and for programs: `invalid_input`, `not_found`, `model_unavailable` …")
    message: str = Field(description="For people. Errors in a request name the field.")
    request_id: str = Field(description="The same as in the header `X-Request-ID` and in the service's log.")


class AccessError(ReMeError):
    """The caller has no valid API key (`status` 401), or the key does not permit the request (403)."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status
        self.code = _CODES[status]


def openapi_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of an endpoint, for FastAPI's `responses`, which the OpenAPI document shows.

    One endpoint of the service has to name the model as well, so that the document describes it.
    """
    texts = {
        401: "No API key, or an unknown one",
        403: "The API key is not for this workspace",
        404: "What the request names does not exist",
        409: "The request conflicts with stored data, or the service is not configured for it",
        413: "The body is too large",
        415: "The body is compressed",
        422: "The request does not fit; the message names the field",
        500: "An error of the service itself",
        502: "A model answered in an unusable form",
        503: "The database or a model is unavailable; trying again may help",
        504: "It took too long",
    }
    # By reference: for a model FastAPI makes a validator for each status of each route, some five hundred.
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorBody.__name__}"}}}
    return {status: {"description": texts[status], "content": content} for status in statuses}


COMMON_STATUSES: Final = (401, 403, 413, 415, 422, 500, 503, 504)
"""The error statuses of every endpoint that reads or writes memories."""


def took_too_long(seconds: float) -> str:
    """What a caller is told whose request was cancelled after so many seconds."""
    limit = f"{seconds:g} seconds (http.timeout_seconds)"
    return f"it took longer than {limit} and was cancelled; send less at a time, such as fewer or shorter texts"


def error_response(scope: Scope, status: int, code: str, message: str) -> JSONResponse:
    """An error as the response to a request, with the headers that its status calls for."""
    body = {"code": code, "message": message, "request_id": scope.get("request_id", "")}
    headers = {"Retry-After": "1"} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse(body, status, headers)


def answer_to(error: ReMeError, scope: Scope) -> JSONResponse:
    """The response to a request that met an error; an error of the service itself is logged, too."""
    log_own_error(error, scope)
    return error_response(scope, status_of(error), error.code, message_for_caller(error))


def log_own_error(error: ReMeError, scope: Scope) -> None:
    """Log an error that is of the service itself, and not the caller's."""
    if (status := status_of(error)) >= 500:
        # Of a database or a model that is away the message says all; in an outage the rest would bury it.
        log.error("request %s: %s", scope.get("request_id", ""), error, exc_info=error if status == 500 else None)


def message_for_caller(error: ReMeError) -> str:
    """The message of an error, without details of the database and the models; the log has them."""
    # A caller may be one of many tenants. Addresses and roles do not concern them, nor what a model's provider says,
    # which may hold a part of the key.
    return next(told for kind, _, told in _ANSWERS if isinstance(error, kind)) or str(error)


def degraded_for_caller(degraded: str) -> str:
    """What a retrieval went without, from "what: why"; the log has the reason, which may be the message of an error."""
    log.warning("request %s, degraded: %s", REQUEST_ID.get(), degraded)
    return f"{degraded.partition(': ')[0]}: a model failed or took too long; the service's log tells more"


def add_error_handlers(app: FastAPI) -> None:
    """Have the app answer every error in the form of `ErrorBody`."""

    @app.exception_handler(ReMeError)
    async def answer_reme_error(request: Request, error: ReMeError) -> JSONResponse:
        return answer_to(error, request.scope)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid_request(request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(request.scope, 422, InputError.code, _validation_message(error))

    @app.exception_handler(HTTPException)
    async def answer_http_exception(request: Request, error: HTTPException) -> JSONResponse:
        code, message = _CODES.get(error.status_code, "bad_request"), str(error.detail)
        headers = dict(error.headers or {})
        path = request.url.path.removeprefix(request.scope.get("root_path", ""))
        if error.status_code == 404:
            advice = did_you_mean(path, _methods_by_path(app.routes), "see /docs")
            message = f"there is no {path} here; {advice}"
        elif error.status_code == 405:
            # What `/docs` does not describe, such as a page of the inspector, has one route for each path.
            headers["Allow"] = ", ".join(_allowed_methods(app, path)) or headers.get("Allow", "")
            message = f"{path} takes {headers['Allow']} only"
        response = error_response(request.scope, error.status_code, code, message)
        response.headers.update(headers)
        return response


def status_of(error: ReMeError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, AccessError):
        return error.status
    return next(status for kind, status, _ in _ANSWERS if isinstance(error, kind))


def _allowed_methods(app: FastAPI, path: str) -> list[str]:
    # Starlette's own 405 names the methods of the first route that matches; a path here has a route for each method.
    for pattern, methods in _methods_by_path(app.routes).items():
        if compile_path(pattern)[0].match(path):
            return sorted(methods)
    return []


def _methods_by_path(routes: Iterable[BaseRoute]) -> dict[str, set[str]]:
    """The paths that `/docs` describes. Not from its document, which takes seconds to make: nobody is served then."""
    found: dict[str, set[str]] = {}
    for route in routes:
        router = getattr(route, "original_router", None)  # newer versions of FastAPI include a router as one route
        if router is not None and router.include_in_schema:
            for path, methods in _methods_by_path(router.routes).items():
                found.setdefault(path, set()).update(methods)
        elif isinstance(route, APIRoute) and route.include_in_schema:
            found.setdefault(route.path_format, set()).update(route.methods or ())
    return found


def _validation_message(error: RequestValidationError) -> str:
    problems = []
    for problem in error.errors():
        where = problem["loc"][1:]  # without its first part, which is body, query or path
        if problem["type"] == "json_invalid":
            where, problem["msg"] = (), f"not valid JSON: {problem.get('ctx', {}).get('error', 'it cannot be read')}"
        elif not where and problem["type"] == "model_attributes_type":
            problem["msg"] = "give a JSON object, with the header Content-Type: application/json"
        problems.append({**problem, "loc": where})
    return describe_problems(problems)
