"""A little of the fuzzing in every run of the tests: the inputs that once were findings, and some thousand new ones."""

import random

import pytest

from tests.fuzz.fuzz import attempt, fuzz
from tests.fuzz.mutate import mutate_bytes, mutate_text
from tests.fuzz.targets import CORPUS, TARGETS, Target

COUNTS = {
    "cubin": 300,
    "image": 30,
    "config": 100,
    "override": 100,
    "listing": 1000,
    "instruction": 1000,
    "stream": 30,
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_readers_answer_every_input(name):
    assert [words for _, words in fuzz(name, COUNTS.get(name, 500), seed=1)] == []


def test_the_corpus_belongs_to_targets():
    names = {path.name.partition("-")[0] for path in CORPUS.iterdir()}
    assert names and names <= set(TARGETS)


def test_the_harness_sees_what_it_should():
    def never(_data):
        while True:
            pass

    assert "took more" in attempt(Target(None, never, (ValueError,), seconds=0.05), b"")
    assert "ZeroDivisionError" in attempt(Target(None, lambda _: 1 // 0, (ValueError,)), b"")
    assert attempt(Target(None, int, (ValueError,)), b"x") is None


def test_mutations_repeat_and_change_something():
    data = bytes(range(200))
    changed = [mutate_bytes(random.Random(seed), data) for seed in range(20)]
    assert changed == [mutate_bytes(random.Random(seed), data) for seed in range(20)] and len(set(changed)) > 10
    assert mutate_text(random.Random(4), "IADD3 R1, R2, 0x4") != "IADD3 R1, R2, 0x4"
