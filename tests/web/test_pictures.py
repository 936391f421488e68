"""The documents' pictures and links: what is named is there, small, and used."""

import re
from pathlib import Path

import pytest

from .screenshots import IMAGES, LARGEST_BYTES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "box").glob("*.md")]
)
MOST_PICTURES = 8
_LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def links(document: Path, *, pictures: bool = False) -> set[Path]:
    """Return the files of this project that a document leads to."""
    found = _LINK.findall(document.read_text())
    paths = [target.partition("#")[0] for mark, target in found if mark or not pictures]
    return {
        (document.parent / path).resolve()
        for path in paths
        if path and "://" not in path and not path.startswith("mailto:")
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_leads_to_is_there(document: Path) -> None:
    """Every file and picture that it names by a relative path."""
    assert [] == [str(path) for path in links(document) if not path.exists()]


def test_every_picture_is_small_and_used() -> None:
    """What no document shows is not kept."""
    kept = set(IMAGES.glob("*"))
    shown = {path for document in DOCUMENTS for path in links(document, pictures=True)}
    assert kept == {path for path in shown if path.parent == IMAGES}
    assert 0 < len(kept) <= MOST_PICTURES
    assert {} == {path.name: size for path in kept if (size := path.stat().st_size) > LARGEST_BYTES}
