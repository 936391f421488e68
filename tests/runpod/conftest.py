"""A fake account and its clock."""

import pytest
from tests.runpod.helpers import Hands

from llmao_runpod.fake import FakeRunPod


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def fake(hands: Hands) -> FakeRunPod:
    return FakeRunPod(hands)
