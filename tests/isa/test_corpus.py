"""Every instruction that the corpus makes the assembler emit decodes, and lowers or is refused for a stated reason.

The list of what is refused is complete for each architecture: an instruction that comes to be understood has to be
taken out of it.
"""

import re

import pytest

from isa import UnknownInstruction
from isa.cubin import read_cubin
from isa.instruction import parse_instruction
from isa.listing import disassemble, read_sections
from isa.lower import lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout
from isa.templates import templates
from tests.corpus import CHAPTERS, FORMS, assemble_all, asynchronous, decoded

TEXTURES = "SULD SURED SUST TEX TLD TLD4 TXD TXQ"
ASYNCHRONOUS = "LDGMC UBLKCP UMEMSETS UREDGR USTGR UTMALDG"
SINCE_80 = CHAPTERS["conversions"] + CHAPTERS["atomics"] + CHAPTERS["lanes"]
SINCE_100 = CHAPTERS["single"] + CHAPTERS["lanes"]
# Forms, the least number of those that it has, and what is refused. sm_86 and sm_89 have no opcode with modifiers that
# neither sm_80 nor sm_90 has; those that sm_80 and sm_100 alone have come of these chapters.
TARGETS = {
    "sm_75": (FORMS, 1800, f"{TEXTURES} HADD2 UNNAMED"),  # HADD2 of a float32; nvdisasm has no name for F2FP there
    "sm_80": (SINCE_80, 590, ""),
    "sm_90": (FORMS, 2250, TEXTURES),
    "sm_90a": (asynchronous.FORMS, 690, "LDGMC"),
    "sm_100": (SINCE_100, 300, ""),
    "sm_100a": (asynchronous.FORMS, 675, ASYNCHRONOUS),
    "sm_120": (FORMS, 2300, TEXTURES),
}

KNOWN = {"sm_80": 0.8, "sm_90": 0.9, "sm_90a": 0.95}
"""Least parts of the forms that templates know."""
TOGETHER = 48
"""Forms of a kernel: most of the tools' time goes into what every kernel has. Where forms beside each other leave one
out as redundant, a third of them still stand alone in `tests/gpusim/test_corpus.py`, which runs each in a kernel."""
REFUSED: dict[tuple[str, str], set[str]] = {}
"""The opcode of a form that does not lower, or nothing, by its text without numbers; alike on every architecture."""


def _refused(cubin):
    """Opcodes of a cubin of which some form does not lower, and the part of its forms that templates know."""
    refused, known, told, forms = set(), templates(read_cubin(cubin).arch), 0, 0
    for name, section in read_sections(disassemble(cubin)).items():
        for address, text, encoding, _, _ in section.lines:
            ours = known.text(encoding) if known else None
            assert ours is None or "=>" in ours or "@" in text.lstrip("@") or ours == " ".join(text.split())
            told, forms = told + (ours is not None), forms + 1
            opcode, _, operands = text.partition(" ")
            shape = opcode, re.sub(r"0x[0-9a-f]+|\d+", "0", operands)
            if shape not in REFUSED:
                instruction = parse_instruction(address, text, encoding, section.labels)
                try:
                    lower_instruction(instruction, ConstantPool(), RegisterLayout(256, 320), name)
                    REFUSED[shape] = set()
                except UnknownInstruction:
                    REFUSED[shape] = {instruction.opcode}
            refused |= REFUSED[shape]
    return refused, told / forms


@pytest.mark.parametrize("arch", TARGETS)
def test_every_instruction_lowers(arch, toolchain):
    forms, least, refused = TARGETS[arch]
    cubin, kernels, _ = assemble_all(forms, arch, TOGETHER)
    assert len(kernels) >= least
    found, told = _refused(cubin)
    assert found == set(refused.split()) and told >= KNOWN.get(arch, 0)


@pytest.fixture(scope="module")
def textures(toolchain):
    cubin, _, _ = assemble_all([form for form in FORMS if form[1] == "texture"], "sm_90")
    return [each for section in decoded(disassemble(cubin)).values() for each in section]


@pytest.mark.parametrize("opcode", TEXTURES.split())
def test_textures_are_refused_with_a_sentence(opcode, textures):
    found = [each for each in textures if each.opcode == opcode]
    with pytest.raises(UnknownInstruction, match="textures and surfaces are not modelled"):
        lower_instruction(found[0], ConstantPool(), RegisterLayout(256, 320), "kernel")
