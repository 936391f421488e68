"""Bases and hosts that are written oddly: what is made of them, and what is left as it is."""

import pytest

from llmao_core.keys import commercial_key, host_name, is_host, normalise_base


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("http://A_.Example/v1", "http://a_.example"),
        ("http://-Bad-:8001/v1", "http://-bad-:8001"),
        ("//203.0.113.10:8001/v1/", "//203.0.113.10:8001/v1/"),
        ("203.0.113.10:8001/v1/", "203.0.113.10:8001/v1/"),
        ("mailto:box/v1/", "mailto:box/v1/"),
        (" http:///v1/ ", "http:///v1/"),
        ("http://box.example/X//", "http://box.example/X"),
        ("http://box.example/X//v1", "http://box.example/X"),
        ("http://box.example/api ", "http://box.example/api"),
        ("http://box.example/abc", "http://box.example/abc"),
        ("http://box.example/a /v1", "http://box.example/a "),
    ],
)
def test_a_base_loses_only_what_means_nothing(written: str, base: str) -> None:
    """A host in any case, `/v1` and slashes at the end; what is no URL is only trimmed."""
    assert base == normalise_base(written)


def test_a_commercial_key_is_its_providers_address() -> None:
    """In its one spelling, so that a `/v1` makes no other key of it."""
    one = commercial_key("acme", "https://API.acme.example/v1/", "gpt")
    assert ("https://api.acme.example", "gpt", "acme") == (one.base, one.model, one.shown)


@pytest.mark.parametrize(
    ("text", "can"), [("203.0.113.10", True), ("C.4711", True), ("a b", False)]
)
def test_whether_a_text_can_name_a_host(text: str, can: bool) -> None:
    """It is asked before it is made one spelling."""
    assert can is is_host(text)


def test_what_names_no_host_says_what_does() -> None:
    """The message is shown where the name was written."""
    with pytest.raises(ValueError, match=r"^a host is an address, a DNS name, a contract label or"):
        host_name("a b")
