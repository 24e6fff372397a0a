"""What instructions mean in which the lanes of a warp see each other: shuffles, votes, matches, reductions, elections.

From the PTX ISA's shfl.sync, vote.sync, match.sync, redux.sync and elect.sync; what it leaves open is the recording's.
"""

from functools import reduce

from isa.instruction import Instruction
from tests.oracle import matrices
from tests.oracle.floating import extreme
from tests.oracle.floats import F32
from tests.oracle.lane import WORD, Lane, Undefined, View, signed


def source_lane(kind: set[str], lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that a shuffle reads and whether it is within the segment, as PTX's pseudocode has it."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last = lane & segment | clamp & ~segment & 31
    if "UP" in kind:
        found = lane - b
        valid = found >= last
    else:
        if "DOWN" in kind:
            found = lane + b
        elif "BFLY" in kind:
            found = lane ^ b
        else:
            found = lane & segment | b & ~segment & 31
        valid = found <= last
    return (found if valid else lane), valid


def shfl(views: list[View]) -> None:
    values = {v.lane.number: v.raw(0) for v in views}
    chosen = [source_lane(v.modifiers, v.lane.number, v.raw(1), v.raw(2)) for v in views]
    for v, (source, valid) in zip(views, chosen, strict=True):
        # PTX leaves a source that does not execute undefined; the H200 gives zero.
        v.put(values.get(source, 0))
        v.decide(0, valid)


def vote(views: list[View]) -> None:
    """The predicates between result and source are results: the last one is the vote."""
    votes = {v.lane.number: v.predicate(v.instruction.operands[-1]) for v in views}
    kind = views[0].modifiers
    if "ALL" in kind:
        holds = all(votes.values())
    elif "ANY" in kind:
        holds = any(votes.values())
    else:
        holds = len(set(votes.values())) == 1
    ballot = sum(held << lane for lane, held in votes.items())
    for v in views:
        v.put(ballot)
        v.decide(0, holds)


def match(views: list[View]) -> None:
    words = 2 if views[0].has("U64") else 1
    values = {v.lane.number: v.raw(0, words) for v in views}
    everyone = sum(1 << lane for lane in values)
    agree = len(set(values.values())) == 1
    for v in views:
        if v.has("ALL"):
            v.put(everyone if agree else 0)
            v.decide(0, agree)
        else:
            mine = values[v.lane.number]
            v.put(sum(1 << lane for lane, value in values.items() if value == mine))


def redux_of_floats(views: list[View]) -> None:
    """PTX redux.sync .f32: the least or greatest number, of the sizes with ABS; NaN counts with .NAN, or if all are."""
    first = views[0]
    values = [v.raw(0) & ~F32.sign if first.has("MINABS", "MAXABS") else v.raw(0) for v in views]
    result = values[0]
    for value in values:
        result = extreme(F32, result, value, first.has("MIN", "MINABS"), first.has("NAN"))
    for v in views:
        v.put(result)


def redux(views: list[View]) -> None:
    """Without a name of an operation it is AND."""
    first = views[0]
    if first.has("F32"):
        redux_of_floats(views)
        return
    values = [signed(v.raw(0)) if first.has("S32") else v.raw(0) for v in views]
    if first.has("SUM"):
        result = sum(values)
    elif first.has("MIN"):
        result = min(values)
    elif first.has("MAX"):
        result = max(values)
    elif first.has("OR"):
        result = reduce(int.__or__, values)
    elif first.has("XOR"):
        result = reduce(int.__xor__, values)
    else:
        result = reduce(int.__and__, values)
    for v in views:
        v.put(result & WORD)


def r2ur(views: list[View]) -> None:
    """The lowest lane's word; the predicate is true in lanes that hold another one, with .OR also where it was."""
    word = views[0].raw(0)
    for v in views:
        different = v.raw(0) != word
        if v.has("OR"):
            different |= v.predicate(v.instruction.operands[0])
        v.put(word)
        v.decide(0, different)


def elect(views: list[View]) -> None:
    """The lowest lane whose source predicate holds: its number to all, true to it alone."""
    candidates = [v.lane.number for v in views if v.predicate(v.instruction.operands[-1])]
    if not candidates:
        raise Undefined
    for v in views:
        v.put(candidates[0])
        v.decide(0, v.lane.number == candidates[0])


MEANINGS = {"SHFL": shfl, "VOTE": vote, "VOTEU": vote, "MATCH": match, "REDUX": redux}
MEANINGS |= {"R2UR": r2ur, "ELECT": elect, "CREDUX": redux}
MEANINGS |= matrices.MEANINGS


def view_of(instruction: Instruction, lane: Lane) -> View:
    """Operands with the last predicate of a vote or an election taken for the source that it is."""
    view = View(instruction, lane, instruction.opcode not in matrices.NO_RESULT)
    if instruction.opcode in ("VOTE", "VOTEU", "ELECT"):
        predicates = [operand for operand in instruction.operands if operand.kind in ("pred", "upred")]
        view.results = predicates[:-1]
    return view


def execute_warp(instruction: Instruction, lanes: list[Lane]) -> None:
    """Carry out one instruction on the lanes whose guard holds; a uniform result appears in every lane's copy.

    Raises:
        KeyError: the opcode has no meaning here.
        Undefined: an election without candidates, or NaN among doubles.
    """
    meaning = MEANINGS[instruction.opcode]
    executing = [
        lane
        for lane in lanes
        if (instruction.guard == 7 or lane.predicates[instruction.guard]) != instruction.guard_negated
    ]
    if not executing:
        return
    meaning([view_of(instruction, lane) for lane in executing])
    for lane in lanes:
        lane.uniform.update(executing[0].uniform)
        lane.uniform_predicates.update(executing[0].uniform_predicates)
