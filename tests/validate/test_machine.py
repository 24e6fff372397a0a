"""The machine of SimPy processes beside recorded hardware."""

import pytest

from gpusim import load_config
from validate.__main__ import main
from validate.machine import mechanisms


def test_both_models_stand_beside_the_hardware(capsys):
    assert main(["machine", "--only", "vector_add", "--most", "20000", "--without"]) == 0
    text = capsys.readouterr().out
    point = next(line.split() for line in text.splitlines() if line.startswith("vector_add@10000"))
    assert len(point) == 3 and all(-15 < float(each.rstrip("%")) < 15 for each in point[1:])
    left = text[text.index("as it is") :].splitlines()
    assert len(left) == 1 + len(mechanisms("h200")) and len({line.split()[-1] for line in left}) > 3  # they tell


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_every_mechanism_can_be_left_out(gpu):
    for overrides in mechanisms(gpu).values():
        assert load_config(gpu, overrides) != load_config(gpu)
