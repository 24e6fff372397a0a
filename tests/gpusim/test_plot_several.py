"""Pictures of several GPUs: what they show is read back and compared with the results."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from gpusim import plot
from gpusim.parallel import CallCost, Communication, Layer, data_parallel, pipeline


class Free(Communication):
    """Stages hand on without taking time."""

    def transfer(self, source: int, destination: int, nbytes: int) -> CallCost:
        return CallCost(0.0, 0.0, 0)


def widths(boxes) -> float:
    return sum(float(np.ptp(path.vertices[:, 0])) for path in boxes.get_paths())


LAYERS = [Layer(f"layer {k}", 100.0, 200.0, 16 << 20, 8 << 20) for k in range(8)]


def test_rectangles_are_the_events_of_a_step():
    schedule = data_parallel(LAYERS, 4)
    ax = plot.training_timeline(schedule)
    kinds = {each.get_label(): each for each in ax.collections}
    out = "gpu0.nvlink>switch0"
    assert list(kinds) == ["forward", "backward", "reduce", max(schedule.link_bytes, key=schedule.link_bytes.get)]
    for kind in ("forward", "backward", "reduce"):
        events = schedule.events(0, kind)
        assert len(kinds[kind].get_paths()) == len(events)
        assert widths(kinds[kind]) == pytest.approx(sum(e.time_us for e in events), rel=0.1)
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["gpu0 compute", "gpu0 communication"]
    assert "layer 7" in {text.get_text() for text in ax.texts}
    words = plot.text_alternative(ax)
    assert f"{schedule.exposed_communication_us:,.0f} us with nothing to compute" in words
    assert "the others do the same" in words and schedule.link_bytes[out] > 0


def test_links_are_as_high_as_they_are_full():
    schedule = data_parallel(LAYERS, 4, bucket_bytes=1)
    ax = plot.training_timeline(schedule, links=2)
    bars = ax.collections[-1]
    heights = [float(np.ptp(path.vertices[:, 1])) for path in bars.get_paths()]
    shares = [share for _, _, share in schedule.link_timeline(bars.get_label())]
    assert np.array(heights) / 0.8 == pytest.approx(shares)


def test_every_gpu_of_a_pipeline():
    schedule = pipeline(LAYERS, 4, 8, communication=Free(4))
    whole = plot.training_timeline(schedule)
    assert len(whole.get_yticks()) == 4 and "all of them" in plot.text_alternative(whole)
    forward = next(each for each in whole.collections if each.get_label() == "forward")
    assert len(forward.get_paths()) == 4 * 8, "the two layers of a stage are one rectangle"
    assert {text.get_text() for text in whole.texts} >= set("01234567")
    with pytest.raises(ValueError, match="nothing happens"):
        plot.training_timeline(pipeline([Layer("nothing", 0.0)], 1, 1))


def test_links_over_time_are_those_of_the_collective():
    result = gpusim.collective("all_gather", 1 << 20, 4, trace=True)
    ax = plot.link_utilisation(result)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(names) == sorted(link.name for link in result.links)
    row = result.link_names.index(names[0])
    assert np.array_equal(ax.images[0].get_array()[0], np.clip(result.utilisation[row], 0, 1))
    assert "8 links carry data" in plot.text_alternative(ax)


def test_steps_are_those_of_a_channel():
    result = gpusim.collective("all_reduce", 4 << 20, 4, trace=True)
    ax = plot.collective_steps(result, 1)
    steps = [step for step in result.steps if step.channel == 1]
    assert sum(len(each.get_paths()) for each in ax.collections) == len(steps)
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"gpu{k}" for k in range(4)]
    assert sum(map(widths, ax.collections)) == pytest.approx(sum(s.end_us - s.start_us for s in steps), rel=0.1)
    with pytest.raises(ValueError, match="no channel 99; there are 0 to"):
        plot.collective_steps(result, 99)


@pytest.mark.parametrize("draw", [plot.link_utilisation, plot.collective_steps])
def test_without_a_trace_there_is_nothing_to_draw(draw):
    with pytest.raises(ValueError, match="trace=True"):
        draw(gpusim.collective("all_reduce", 1 << 20, 2))
