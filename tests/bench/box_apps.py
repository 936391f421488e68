"""What bench_box_api serves: llmao's application, and what it is compared with.

Rule of this file: every application answers the same payload at the same path.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from llmao_core.config import Config, FleetConfig, Host, HostRow, Model, Recipe
from llmao_core.intended import build
from llmao_core.secret import Secret
from llmao_web.app import create_app
from llmao_web.commands.serve import tune
from llmao_web.logs import Mask, configure
from llmao_web.shell.board import Board
from llmao_web.shell.clock import SystemClock

from .reconciling import reconciling_app

APPS = ("llmao", "litestar", "fastapi")
RECONCILING = "reconciling"
SERVERS = ("uvicorn", "granian")
BOXES = 500
KEY = "bench-fleet-key"
BARE_PATH = "/vllm/config"


def host_of(box: int) -> str:
    return f"127.1.{box // 250}.{box % 250 + 1}"


def fleet() -> Config:
    """Return a fleet of 500 boxes with two servers each."""
    recipe = Recipe(
        "org/model-8b", args=("--reasoning-parser", "x"), max_model_len=32768, vram_gb=18
    )
    rows = (HostRow("model", 8001, "model-a"), HostRow("model", 8002, "model-b"))
    return Config(
        fleet=FleetConfig(
            key=(Secret(KEY), Secret("bench-fleet-key-before")),
            vllm_api_salt=(Secret("bench-salt"),),
            hosts=tuple(Host(host_of(box), rows) for box in range(BOXES)),
        ),
        models=(Model("model", recipe=recipe),),
    )


def llmao_app() -> Any:
    """Return llmao's application over its own board, logging every fetch to standard output."""
    config, clock = fleet(), SystemClock()
    _log_to_stdout(config)
    board = Board(clock)
    board.intend(build(config))
    return create_app(board, config, clock)


def _log_to_stdout(config: Config) -> None:
    mask = Mask()
    mask.learn(config)
    configure(mask, sys.stdout)


def _payload() -> dict[str, Any]:
    board = Board(SystemClock())
    board.intend(build(fleet()))
    answer = board.answer(host_of(0))
    assert answer is not None
    payload: dict[str, Any] = json.loads(answer.body)
    return payload


def litestar_app() -> Any:
    """Return a Litestar application with one ordinary handler that returns this payload."""
    from litestar import Litestar, get

    payload = _payload()

    @get(BARE_PATH)
    async def config() -> dict[str, Any]:
        return payload

    return Litestar([config], openapi_config=None, logging_config=None)


def fastapi_app() -> Any:
    """Return a FastAPI application with one ordinary handler that returns this payload."""
    from fastapi import FastAPI

    payload = _payload()
    app = FastAPI(openapi_url=None)

    @app.get(BARE_PATH)
    async def config() -> dict[str, Any]:
        return payload

    return app


MAKERS: dict[str, Callable[[], Any]] = {
    "llmao": llmao_app,
    "litestar": litestar_app,
    "fastapi": fastapi_app,
}


async def serve(app: str, server: str, port: int) -> None:
    """Serve until terminated."""
    if app in ("llmao", RECONCILING):
        tune()
    if app == RECONCILING:
        _log_to_stdout(fleet())
        made, beside = reconciling_app(KEY)
        task = asyncio.create_task(beside())
        task.add_done_callback(lambda _: os._exit(1))
    else:
        made = MAKERS[app]()
    if server == "uvicorn":
        import uvicorn

        settings = uvicorn.Config(
            made, port=port, log_config=None, access_log=False, backlog=1024, lifespan="off"
        )
        await uvicorn.Server(settings).serve()
    else:
        from granian.constants import Interfaces
        from granian.server.embed import Server

        await Server(
            made, port=port, interface=Interfaces.ASGINL, log_enabled=False, backlog=1024
        ).serve()
