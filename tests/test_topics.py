"""docs/index.md names what there is, and leaves no program out."""

import re
from pathlib import Path

from programs import registry

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/index.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| subject")
]


def test_every_row_has_its_program_its_page_and_its_measurement():
    assert len(ROWS) == 28
    for subject, programs, shown, measured in ROWS:
        names = re.findall(r"`(\w+)`", programs)
        assert names or programs.startswith("none"), subject
        assert set(names) <= set(registry.families()), subject
        assert re.search(r"\]\([\w./-]+\)", shown), subject
        folders = re.findall(r"`([\w/]+)`", measured)
        assert folders or measured.startswith("none"), subject
        assert all((ROOT / folder).is_dir() for folder in folders), subject


def test_every_program_is_in_a_row():
    named = {name for _, programs, *_ in ROWS for name in re.findall(r"`(\w+)`", programs)}
    assert set(registry.families()) - named == set()


def test_what_is_measured_has_a_baseline():
    for subject, programs, _, measured in ROWS:
        if "validate/baselines" in measured:
            for name in re.findall(r"`(\w+)`", programs):
                assert (ROOT / "validate/baselines/h200" / name).is_dir(), (subject, name)
