"""The comparison behind `make bench-pair`, on made-up times; nothing is measured here."""

import subprocess

import pytest

from tests.bench.pair import MOST, ROUNDS, Lacking, base_of, slower


class Fake:
    """A tree's process whose rounds take made-up seconds, by the number of the round."""

    def __init__(self, seconds):
        self.seconds, self.rounds = seconds, 0

    def __call__(self, name):
        self.rounds += 1
        if self.seconds is None:
            raise Lacking("AttributeError: no such thing")
        return self.seconds(self.rounds)

    def close(self):
        pass


def lost(*ours, theirs=lambda number: 1.0):
    """What is said to be slower, with our seconds in the first look, in the second, ..."""
    looks = iter(ours)
    return slower(["vector_add"], lambda: (Fake(next(looks)), Fake(theirs)))


def test_a_loss_is_found_whatever_noise_is_on_top(capsys):
    planted = [lambda number: 1.2 * (1 + 0.5 * (number % 3 == 0))] * 2
    assert lost(*planted) == ["vector_add"]
    assert capsys.readouterr().out.count("+20.0 %") == 2


def test_noise_is_no_loss():
    assert lost(lambda number: 1 + number % ROUNDS) == []
    assert lost(lambda number: 1.0, theirs=lambda number: 0.8 if number == 2 else 1.0) == []
    assert lost(lambda number: 1.5, lambda number: MOST - 0.01) == []


def test_what_the_commit_before_lacks_is_said_and_passes(capsys):
    assert lost(lambda number: 1.0, theirs=None) == []
    assert "no such thing" in capsys.readouterr().out


def test_what_this_tree_lacks_fails():
    with pytest.raises(Lacking):
        lost(None)


def test_what_a_tree_is_compared_with(tmp_path):
    def commit(text):
        (tmp_path / "gpusim" / "a.py").write_text(text)
        for words in (["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"]):
            subprocess.run(["git", *words], cwd=tmp_path, check=True)
        return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tmp_path, text=True).strip()

    assert "no commit before" in base_of(tmp_path, None)[1]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "gpusim").mkdir()
    first = commit("1")
    assert "no commit before" in base_of(tmp_path, None)[1]
    second = commit("2")
    assert base_of(tmp_path, None)[0] == first
    assert "nothing to measure" in base_of(tmp_path, "HEAD")[1]
    (tmp_path / "gpusim" / "a.py").write_text("3")
    assert base_of(tmp_path, None)[0] == second
