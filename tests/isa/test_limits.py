"""A program image may say anything of itself; what no kernel can have is named."""

import re
from dataclasses import replace

import pytest

from isa import limits
from isa.cubin import GlobalSymbol, Parameter, Relocation
from isa.instruction import parse_instruction
from isa.limits import BANK_BYTES, MOST_PARAMETERS, problem_with_program
from isa.program import Program

EXIT = parse_instruction(0, "EXIT", 0x94D, {})
SOUND = Program(
    name="k",
    symbol="k",
    arch="sm_90",
    instructions=(EXIT,),
    registers=8,
    static_shared_bytes=0,
    local_bytes=0,
    barriers=0,
    constant_banks={0: bytes(0x210)},
    parameter_base=0x210,
    parameter_bytes=8,
    parameters=(Parameter(0, 0, 8),),
    max_threads=None,
    abi="c",
    source={},
    cubin=b"",
    sha256="",
)


def test_variables_take_no_more_than_memory(monkeypatch):
    monkeypatch.setattr(limits, "MOST_GLOBAL_BYTES", 8)
    assert problem_with_program(replace(SOUND, global_image=bytes(8))) is None
    assert problem_with_program(replace(SOUND, global_image=bytes(9))) == "its variables take 9 bytes"


def test_a_sound_program_has_no_problem():
    assert problem_with_program(SOUND) is None
    assert problem_with_program(replace(SOUND, max_threads=128, cluster=(2, 1, 1), source={"k.cu": ["x"]})) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"registers": 256}, "registers is 256"),
        ({"local_bytes": True}, "local_bytes is True"),
        ({"max_threads": -1}, "max_threads is -1"),
        ({"parameters": (Parameter(0, 0, 4),) * (MOST_PARAMETERS + 1)}, "4,097 parameters"),
        ({"parameters": (Parameter(0, -4, 8),)}, "parameter 0 has 8 bytes at -4"),
        ({"parameters": (Parameter(3, BANK_BYTES - 8, 8),)}, "parameter 3 ends outside"),
        ({"constant_banks": {32: b""}}, "constant bank 32 has 0 bytes"),
        ({"constant_banks": {3: bytes(BANK_BYTES + 1)}}, "constant bank 3 has 65,537 bytes"),
        ({"cluster": (2, 1)}, r"cluster is \(2, 1\)"),
        ({"cluster": (0, 1, 1)}, r"cluster is \(0, 1, 1\)"),
        ({"name": 7}, "name is not text"),
        ({"abi": "pascal"}, "abi is 'pascal'"),
        ({"instructions": ()}, "it has 0 instructions"),
        ({"instructions": (replace(EXIT, encoding=1 << 128),)}, "more than 128 bits"),
        ({"instructions": (replace(EXIT, line="2"),)}, "is no place in a source"),
        ({"labels": {"here": "0"}}, "a label has no address"),
        ({"source": {"k.cu": [1]}}, "the source is not text"),
        ({"global_symbols": (GlobalSymbol("x", -1, 4),)}, "variable 'x' has 4 bytes at -1"),
        ({"relocations": (Relocation("text", 0, 2, None, 0),)}, "relocation of None is not one"),
        ({"relocations": (Relocation("data", 0, 2, "x", 0),)}, "relocation of 'x' changes 'data'"),
        ({"relocations": (Relocation("constant", 0, 2, "x", 0),)}, "relocation of 'x' changes 'constant'"),
    ],
)
def test_what_no_kernel_can_have(changes, words):
    problem = problem_with_program(replace(SOUND, **changes))
    assert problem is not None and re.search(words, problem)
