"""Values of a provider's answer made plain: what cannot be made sense of is left empty."""

import pytest

from llmao_core import providers

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        (17.0, "17"),
        (0.5, " 0.5 "),
        (0.0, "0"),
        (30.0, "Fri, 15 Jan 2027 08:00:30 GMT"),
        (0.0, "Fri, 15 Jan 2027 07:59:00 GMT"),
        (86_400.0, "1e300"),
        (86_400.0, "inf"),
        (None, "-1"),
        (None, "nan"),
        (None, "soon"),
        (None, "Fri, 99 Jan 2027 08:00:30 GMT"),
        (None, ""),
        (None, None),
    ],
)
def test_when_to_come_again(seconds: float | None, header: object) -> None:
    """In seconds or as a date; one that has passed is now, and none is longer than a day."""
    assert seconds == providers.retry_after_s(header, NOW)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a b c", " a\tb\n\x00c "),
        ("key=*** rest", "key=" + "Ab3" * 20 + " rest"),
        ("*** and ***", "tell-me and again"),
        ("", None),
        ("", ["x"]),
        ("x" * 31, "x" * 31),
    ],
)
def test_text_is_one_line_without_what_looks_like_a_secret(line: str, value: object) -> None:
    assert line == providers.text(value, ("tell-me", "again"))


def test_long_text_is_cut() -> None:
    assert 160 == len(providers.text("word " * 100))


def test_secrets_inside_of_values_are_found_whole_and_in_parts() -> None:
    """A start script is hidden as it is, and so is each longer word in it."""
    hidden = providers.hidden_in({"a": ["four"]}, "export TOKEN=hf_12345678; run", 7, None, "abc")
    assert ("export TOKEN=hf_12345678; run", "hf_12345678", "four") == hidden


@pytest.mark.parametrize(
    ("local", "url"),
    [
        (True, "http://127.0.0.1:4000"),
        (True, "http://[::1]:4000/v2"),
        (True, "http://localhost"),
        (False, "https://console.vast.ai"),
        (False, ""),
        (False, "http://[::1"),
        (False, "http://localhost.example.org"),
    ],
)
def test_only_a_loopback_url_is_a_fake_s(local: bool, url: str) -> None:
    assert local == providers.is_local(url)


def test_a_place_shows_no_credentials() -> None:
    assert "example.org:8" == providers.place_of("https://me:secret@example.org:8/x")


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (8001, 8001),
        (8001, "8001"),
        (8001, " " * 12 + "8001 "),
        (None, "9" * 5000),
        (None, " " * 20),
        (None, True),
        (None, 0),
        (None, "65536"),
        (None, "٣"),
        (None, None),
    ],
)
def test_a_port_is_a_number_or_its_digits(expected: int | None, said: object) -> None:
    """Whatever stands there, it is a port or nothing, and never an error."""
    assert expected == providers.port(said)
