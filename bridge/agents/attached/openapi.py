"""The OpenAPI 3.1 document of the API for attached agents, generated from the operations and their models.

`palaver agents openapi > docs/agents-openapi.yaml` updates the published copy.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from bridge.agents.attached import messages
from bridge.agents.attached.messages import DOCUMENT, MAX_AGENT_ID, OPERATIONS, SOCKET, Operation

VERSION: Final = "1.0.0"
PROBLEMS: Final[Mapping[int, str]] = {
    400: "The message is invalid; `field` names the wrong field.",
    401: "The token is missing, unknown, expired or revoked.",
    403: "The token belongs to another agent.",
    404: "The agent or the path does not exist.",
    409: "The agent is not attached: register again. Or another session has replaced it: stop.",
    413: "The message is too large.",
    429: "Too many requests; try again after `retry_after_ms`.",
    503: "The node cannot answer at the moment; try again.",
}
_DESCRIPTION: Final = """\
With this API a program attaches itself to a node as one of its agents: it registers, takes tasks, begins
them, reports progress, and answers. `palaver agents token create ID` creates the token that it needs.

Calls are idempotent: tasks are identified by `work_id` and `attempt`, and every call may be repeated until
it is answered. A task that was taken but not begun in time is offered again. A task that was begun is never
offered to another program: if the program is lost, the task fails.

A program can use HTTP alone, where `take` waits for tasks, or the WebSocket, where the node sends tasks as
they arrive, and each text message of the program is a `Call` with the body of the operation over HTTP.
"""
_WEBSOCKET: Final = """\
A WebSocket. The program sends each `Call` as one text message and receives a `CallAnswer` for it. Once it has
registered, the node sends tasks and cancellations as `Push` objects, so `take` is not used here. Closing the
WebSocket does not detach the agent: the program may connect again and register with the same session.
"""


def document() -> dict[str, Any]:
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (messages.Problem, "serialization"),
        (messages.Call, "validation"),
        (messages.CallAnswer, "serialization"),
        (messages.Push, "serialization"),
    ]
    for operation in OPERATIONS:
        if operation.request_type is not None and not operation.in_query:
            models.append((operation.request_type, "validation"))
        models.append((operation.response_type, "serialization"))
    _, found = models_json_schema(models, ref_template="#/components/schemas/{model}")
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    paths[SOCKET] = {"get": _socket()}
    paths[DOCUMENT] = {"get": _document()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Palaver: attached agents", "version": VERSION, "description": _DESCRIPTION},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of one agent: `plv_…`."}
            },
            "responses": {
                f"Problem{status}": {"description": description, "content": _json("Problem")}
                for status, description in PROBLEMS.items()
            },
            "schemas": {name: _without_titles(schema) for name, schema in sorted(found["$defs"].items())},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    described["parameters"] = [_agent_id(), *([_work_id()] if operation.of_task else [])]
    if operation.request_type is not None and operation.in_query:
        described["parameters"] += list(_query(operation.request_type))
    elif operation.request_type is not None:
        described["requestBody"] = {"required": True, "content": _json(operation.request_type.__name__)}
    described["responses"] = {
        "200": {"description": "The operation has succeeded.", "content": _json(operation.response_type.__name__)},
        **_problems(),
    }
    return described


def _socket() -> dict[str, Any]:
    return {
        "operationId": "socket",
        "summary": "Use the operations through a WebSocket.",
        "description": _WEBSOCKET,
        "parameters": [_agent_id()],
        "responses": {"101": {"description": "The connection is upgraded to a WebSocket."}, **_problems()},
    }


def _document() -> dict[str, Any]:
    return {
        "operationId": "openapi",
        "summary": "Return this document.",
        "security": [],
        "responses": {
            "200": {
                "description": "The OpenAPI 3.1 document.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            }
        },
    }


def _problems() -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in PROBLEMS}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _agent_id() -> dict[str, Any]:
    return {
        "name": "agent_id",
        "in": "path",
        "required": True,
        "description": "The agent's id, without the node's.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_AGENT_ID},
    }


def _work_id() -> dict[str, Any]:
    return {
        "name": "work_id",
        "in": "path",
        "required": True,
        "description": "The `work_id` of the task.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,32}$"},
    }


def _query(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    schema = _without_titles(model.model_json_schema())
    for name, described in schema["properties"].items():
        description = described.pop("description", "")
        required = name in schema.get("required", [])
        yield {"name": name, "in": "query", "required": required, "description": description, "schema": described}


def _without_titles(schema: Any) -> Any:
    """Remove the titles that Pydantic generates: they only repeat the names."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema
