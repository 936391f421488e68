"""A real LiteLLM as its admin and its callers see it.

Rule of this file: a new connection for each request, so that every worker gets its share.
"""

import threading
from collections.abc import Mapping
from typing import Any, Self

import httpx
from attrs import frozen
from tests.real.lab.litellm import LiteLLM

from .timing import now

MODEL = "tiny"
_PATIENCE_S = 30
_EVERY_S = 0.2
_TABLE = '"LiteLLM_ProxyModelTable"'


class Proxy:
    """Requests to a running LiteLLM, with its master key."""

    def __init__(self, litellm: LiteLLM) -> None:
        """Say which; nothing is sent yet."""
        self.litellm = litellm

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request and return whatever is answered."""
        headers = {"Authorization": f"Bearer {self.litellm.master_key}", "Connection": "close"}
        with httpx.Client(
            base_url=self.litellm.url, headers=headers, timeout=_PATIENCE_S, trust_env=False
        ) as client:
            return client.request(method, path, **more)

    def rows(self) -> list[dict[str, Any]]:
        """Return every deployment the router has."""
        answer = self.request("GET", "/model/info")
        assert 200 == answer.status_code, answer.text
        rows: list[dict[str, Any]] = answer.json()["data"]
        return rows

    def bases(self) -> set[str]:
        """Return the address of every deployment of our model, without `/v1`."""
        rows = [row for row in self.rows() if row["model_name"] == MODEL]
        return {row["litellm_params"]["api_base"].removesuffix("/v1") for row in rows}

    def row(self) -> dict[str, Any]:
        """Return the one deployment of our model."""
        [row] = [row for row in self.rows() if row["model_name"] == MODEL]
        return row

    def stored(self) -> list[tuple[str, str]]:
        """Return id and time of creation of every row of our model in the database."""
        said = self.litellm.postgres.sql(
            f"SELECT model_id, created_at FROM {_TABLE} WHERE model_name = '{MODEL}'"
        )
        return [(row_id, at) for row_id, _, at in (line.partition("|") for line in said.split("\n"))
                if row_id]  # fmt: skip

    def chat(self, model: str = MODEL) -> httpx.Response:
        """Ask for one token; the id of a deployment is a model name, too."""
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": model, "messages": messages, "max_tokens": 1}
        return self.request("POST", "/v1/chat/completions", json=body)

    def answers(self, model: str = MODEL) -> bool:
        """Tell whether a completion comes back."""
        answer = self.chat(model)
        return answer.status_code == 200 and bool(answer.json()["choices"])

    def add(self, model_name: str, params: Mapping[str, Any]) -> None:
        """Create a deployment by hand."""
        body = {"model_name": model_name, "litellm_params": dict(params), "model_info": {}}
        assert 200 == self.request("POST", "/model/new", json=body).status_code

    def edit(self, row_id: str, **change: Any) -> None:
        """Change a deployment by hand."""
        answer = self.request("PATCH", f"/model/{row_id}/update", json=change)
        assert 200 == answer.status_code, answer.text

    def delete(self, row_id: str) -> None:
        """Remove a deployment by hand."""
        answer = self.request("POST", "/model/delete", json={"id": row_id})
        assert 200 == answer.status_code, answer.text

    def clear(self) -> None:
        """Remove every deployment."""
        for row in self.rows():
            self.delete(row["model_info"]["id"])

    def served(self, line: str) -> int:
        """Return how often a request line stands in LiteLLM's access log."""
        return self.litellm.log.read_text(errors="replace").count(f'"{line} HTTP')


@frozen
class Asked:
    """One request of a caller. status: 0 when there was no answer."""

    at: float
    took_s: float
    status: int
    said: str


class Caller:
    """Somebody who asks a model every 0.2 s while a test goes on; use in `with`."""

    def __init__(self, proxy: Proxy, model: str = MODEL) -> None:
        """Say whom and what."""
        self._proxy = proxy
        self._model = model
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.asked: list[Asked] = []

    @property
    def errors(self) -> list[Asked]:
        """Return the requests that were not answered as they should."""
        return [each for each in self.asked if each.status != 200]

    def says(self) -> str:
        """Return how many requests failed, of how many."""
        return f"{len(self.errors)} of {len(self.asked)} requests failed"

    def _ask(self) -> None:
        while not self._stop.is_set():
            began = now()
            try:
                answer = self._proxy.chat(self._model)
                status, said = answer.status_code, answer.text[:300]
            except httpx.HTTPError as error:
                status, said = 0, type(error).__name__
            took_s = now() - began
            self.asked.append(Asked(began, took_s, status, said))
            self._stop.wait(max(0.0, _EVERY_S - took_s))

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let the last request end, and ask no more."""
        self._stop.set()
        self._thread.join(_PATIENCE_S + 10)
