"""Two spellings of one thing are equal, and two things are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmao_core.keys import (
    box_key,
    canonical_url,
    commercial_key,
    endpoint_url,
    host_name,
    is_address,
    is_dialable,
    normalise_base,
)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("203.0.113.10", " 203.0.113.10\n"),
        ("203.0.113.10", "::ffff:203.0.113.10"),
        ("203.0.113.10", "[::FFFF:203.0.113.10]"),
        ("203.0.113.10", "::ffff:cb00:710a"),
        ("2001:db8::1", "2001:0DB8:0:0:0:0:0:1"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("c.4711", "C.4711"),
        ("k2h5abcd1234ef", "K2H5ABCD1234EF"),
        ("gpu-1.example.org", "GPU-1.example.org"),
        ("123456", "123456"),
        ("box_1", "box_1"),
    ],
)
def test_one_spelling_of_a_host(name: str, written: str) -> None:
    """Case, space, brackets and the IPv4-in-IPv6 prefix make no difference."""
    assert name == host_name(written)


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "a b",
        "a/b",
        "a\nb",
        "../etc",
        "a..b",
        ".a",
        "a.",
        "-a",
        "a-",
        "ä.example.org",
        "http://a",
        "a:8001",
        "[2001:db8::1",
        "203.0.113",
        "203.0.113.999",
        "203.0.113.010",
        "1.2.3.4.5",
        "a" * 254,
    ],
)
def test_what_is_no_host(written: str) -> None:
    """A typo in an address is not taken for a DNS name; nothing that could leave a path is one."""
    with pytest.raises(ValueError):
        host_name(written)


@given(st.text(max_size=60))
def test_normalising_twice_changes_nothing(written: str) -> None:
    """A normalised name is its own normal form."""
    try:
        name = host_name(written)
    except ValueError:
        return
    assert name == host_name(name)


@pytest.mark.parametrize(
    ("dialable", "host"),
    [
        (True, "203.0.113.10"),
        (True, "2001:db8::1"),
        (True, "gpu.example.org"),
        (True, "localhost"),
        (False, "c.4711"),
        (False, "k2h5abcd1234ef"),
    ],
)
def test_what_can_be_dialled(dialable: bool, host: str) -> None:
    """An address or DNS name can be dialled; a label or pod id cannot."""
    assert dialable == is_dialable(host)


def test_addresses_are_told_from_names() -> None:
    """Only an IP address is an address."""
    assert is_address("203.0.113.10")
    assert is_address("2001:db8::1")
    assert not is_address("c.4711")


def test_ipv6_stands_in_brackets() -> None:
    """An IPv6 host is bracketed in a URL."""
    assert "http://[2001:db8::1]:8001" == canonical_url("2001:db8::1", 8001)


@pytest.mark.parametrize(
    ("base", "written"),
    [
        ("http://a:8001", "http://a:8001/v1"),
        ("http://a:8001", "http://a:8001/v1/"),
        ("http://a:8001", " HTTP://A:8001/ "),
        ("http://a", "http://a:80"),
        ("https://a", "https://a:443/v1"),
        ("https://a:80", "https://a:80"),
        ("https://openrouter.ai/api", "https://openrouter.ai/api/v1"),
        ("http://203.0.113.10:1", "http://[::ffff:203.0.113.10]:1"),
        ("http://a", "http://user:secret@a"),
        ("http://a:99999", "http://a:99999"),
        ("nonsense", "nonsense"),
        ("", ""),
        ("http://[::1", "http://[::1"),
    ],
)
def test_one_spelling_of_a_base(base: str, written: str) -> None:
    """`/v1`, slashes, default ports and case make no difference; nonsense equals itself."""
    assert base == normalise_base(written)


@given(st.text(max_size=60))
def test_normalising_a_base_never_raises_and_is_stable(written: str) -> None:
    """Whatever LiteLLM hands back as api_base can be compared."""
    assert normalise_base(written).strip() == normalise_base(normalise_base(written)).strip()


def test_an_endpoint_is_a_root() -> None:
    """An endpoint of a listing becomes the root to dial."""
    assert "http://203.0.113.10:41234" == endpoint_url("http", "203.0.113.10", 41234)
    assert "https://pod-8001.proxy.example.org" == endpoint_url(
        "https", "POD-8001.proxy.example.org", 443
    )


def test_a_key_never_shows_its_canonical_url() -> None:
    """People see host and port; the URL that nobody dials is not rendered."""
    key = box_key("c.4711", 8001, "qwen3-8b")
    assert "c.4711:8001 qwen3-8b" == str(key)
    assert "http://" not in repr(key)
    assert "openrouter m" == str(commercial_key("openrouter", "https://o.example/api/v1", "m"))


def test_identity_is_url_and_model() -> None:
    """What is shown is no part of identity; the model is."""
    assert commercial_key("a", "https://o.example/v1", "m") == commercial_key(
        "b", "https://o.example", "m"
    )
    assert box_key("a", 1, "m") != box_key("a", 1, "n")
    assert box_key("a", 1, "m") != box_key("a", 2, "m")
