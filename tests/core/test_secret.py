"""A secret shows nothing, however it is looked at."""

import copy
import json
import pickle
import traceback
from collections.abc import Callable

import attrs
import pytest

from llmao_core.config import Config, FleetConfig
from llmao_core.secret import Secret

PLAIN = "hunter2-hunter2"


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        "{}".format,
        "{!r:>30}".format,
        lambda secret: f"{secret}",
        lambda secret: f"{[secret]} {secret!r}",
        lambda secret: json.dumps({"key": secret}, default=str),
        lambda secret: repr(Config(fleet=FleetConfig(key=(secret,)))),
        lambda secret: repr(attrs.asdict(FleetConfig(vllm_api_salt=(secret,)))),
        lambda secret: "".join(traceback.format_exception(ValueError(secret))),
    ],
)
def test_no_way_of_showing_it_shows_it(show: Callable[[Secret], str]) -> None:
    """Text made of a secret does not hold it."""
    assert PLAIN not in show(Secret(PLAIN))


def test_only_reveal_lets_it_out() -> None:
    """The one way out returns the text itself."""
    assert Secret(PLAIN).reveal() == PLAIN


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_not_copied_by_machinery(take: Callable[[Secret], object]) -> None:
    """Pickling, which could write it to a disk, is refused."""
    with pytest.raises(TypeError):
        take(Secret(PLAIN))


@pytest.mark.parametrize("claimed", [b"", b"hunter2", b"\xff\xfe", "hünter".encode(), b"x" * 9999])
def test_other_bytes_do_not_match(claimed: bytes) -> None:
    """Whatever bytes somebody claims are compared and are not it."""
    assert not Secret(PLAIN).matches(claimed)


def test_its_own_bytes_match() -> None:
    """The UTF-8 of a secret matches it, beyond ASCII too."""
    assert Secret("schlüssel").matches("schlüssel".encode())


def test_equality_is_by_value_and_by_type() -> None:
    """Two secrets of one text are equal; a secret never equals its text."""
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert 1 == len({Secret("a"), Secret("a")})


def test_an_empty_one_is_not_set() -> None:
    """Emptiness can be asked for without showing anything."""
    assert not Secret("")
    assert Secret("a")


def test_fingerprint_follows_secret_and_salt() -> None:
    """A fingerprint is 16 hex digits, the same for the same two inputs only."""
    one = Secret("a").fingerprint(Secret("s"))
    assert 16 == len(one)
    assert one == Secret("a").fingerprint(Secret("s"))
    assert one != Secret("b").fingerprint(Secret("s"))
    assert one != Secret("a").fingerprint(Secret("t"))
