"""docs/figures.md shows every picture, small and described as it is drawn."""

import re

import pytest
from PIL import Image

from docs.site import gallery
from gpusim import plot
from validate.scoring.documents import DOCS, DocumentError

TEXT = (DOCS / gallery.DOCUMENT).read_text("utf-8")
SHOWN = {
    name: re.sub(r"\\([\[\]])", r"\1", text)
    for text, name in re.findall(r"!\[((?:[^\]\\]|\\.)*)\]\(figures/(\w+)\.png\)", TEXT)
}


def test_every_picture_is_shown_and_nothing_else():
    assert set(SHOWN) == set(gallery.PICTURES) == {path.stem for path in (DOCS / "figures").iterdir()}
    assert TEXT.count("](figures/") == len(SHOWN)
    assert all(f"plot.{draw.__name__}(" in TEXT for draw in plot.FIGURES)


@pytest.mark.parametrize("name", gallery.PICTURES)
def test_a_picture_is_small_and_carries_its_description(name):
    path = DOCS / "figures" / f"{name}.png"
    assert path.stat().st_size < 80_000
    image = Image.open(path)
    assert image.width == 900
    assert image.info["Description"] == SHOWN[name]


@pytest.mark.parametrize("name", ("occupancy", "lanes", "divergence", "banks", "coalescing"))
def test_pictures_without_time_are_drawn_as_they_are_described(name):
    """What the others say moves with the model of time; `python docs/site/gallery.py` renews them."""
    assert plot.text_alternative(gallery.PICTURES[name]()) == SHOWN[name]


def test_descriptions_are_renewed(tmp_path):
    (tmp_path / gallery.DOCUMENT).write_text(r"![old \[x\]](figures/occupancy.png) and ![](figures/banks.png)", "utf-8")
    (written,) = gallery.write(tmp_path, ["occupancy"])
    assert written == tmp_path / "figures" / "occupancy.png"
    expected = f"![{SHOWN['occupancy']}](figures/occupancy.png) and ![](figures/banks.png)"
    assert (tmp_path / gallery.DOCUMENT).read_text("utf-8") == expected
    with pytest.raises(DocumentError, match=r"measured\.png 0 times"):
        gallery.write(tmp_path, ["measured"])
    with pytest.raises(DocumentError, match="there is no picture cycles"):
        gallery.write(tmp_path, ["cycles"])
