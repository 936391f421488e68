"""The derivation, by known answers: a box, LiteLLM and a person at a shell must agree on it."""

import pytest

from llmao_core.bearer import derive
from llmao_core.keys import host_name
from llmao_core.secret import Secret

KNOWN = [
    ("203.0.113.10", 8001, "sk-vllm-dpdbaFAsLhUcCHs8E-ak_LdZR1mvuYesd8T9zyrJm7E"),
    ("203.0.113.10", 8002, "sk-vllm-EM2rI9zYycmL213OJNXRfVfCouEm_o-NNqVkNHfbINc"),
    ("abc123podid", 8001, "sk-vllm-SAgDgoV2HHeO5JIflRVY0UztcY8QZb04UW38YM5pLog"),
    ("C.4711", 8001, "sk-vllm-XA1_iW82x5T9OMyR7c_fwVbcxf1CUufY7um96DJfzc0"),
]


@pytest.mark.parametrize(("host", "port", "bearer"), KNOWN)
def test_known_answers(host: str, port: int, bearer: str) -> None:
    """The bearer of a host as it is written, after normalising, is the published one."""
    assert bearer == derive(Secret("salt-1"), host_name(host), port).reveal()


def test_every_input_counts() -> None:
    """Another salt, host or port is another bearer."""
    made = {
        derive(Secret(salt), host, port).reveal()
        for salt in ("salt-1", "salt-2")
        for host in ("a", "b")
        for port in (8001, 8002)
    }
    assert 8 == len(made)


def test_salt_and_host_beyond_ascii_are_utf_8() -> None:
    """Text beyond ASCII derives like its UTF-8 bytes and raises nothing."""
    assert derive(Secret("sälz"), "a", 1).reveal().startswith("sk-vllm-")
