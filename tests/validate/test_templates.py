"""Templates of instructions' texts, learned from a few."""

from isa.templates import SHOWN, templates
from programs import images
from validate.instructions.learn import Learner


def test_one_of_a_shape_is_enough(toolchain):
    """Operands that no sample had have the texts that the package's templates give them."""
    program = images.image("vector_add")
    seeds = {each.opcode: each.encoding for each in program.instructions if each.opcode in ("FADD", "BRA", "ISETP")}
    learner = Learner("sm_90", seeds.values())
    lines = [*learner.learn(1)]
    known = templates("sm_90")
    assert known and len(seeds) == 3 and "0 of 3 seeds are not known" in lines[0]
    row = next(row for row in learner.rows[seeds["FADD"] & 0xFFF] if row.fits(seeds["FADD"]))
    drawn = {each & SHOWN | 7 << 12 for each in row.drawn(learner._draw, 200)}
    texts = [known.text(each) for each in drawn]
    assert len(drawn) > 100 and None not in texts and [learner._text(each) for each in drawn] == texts
