"""A fake account, its clock, and a plugin whose waits between pages move that clock."""

import pytest
from tests.vast.helpers import Hands

from llmao_vast import plugin
from llmao_vast.fake import FakeVast


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(plugin, "sleep", hands.sleep)
    return hands


@pytest.fixture
def fake(hands: Hands) -> FakeVast:
    return FakeVast(hands)
