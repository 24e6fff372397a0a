"""PTX that makes the assembler emit as many machine instructions as ordinary CUDA code can: one kernel per form.

`forms.py` lists the PTX instructions with their types and modifiers, `kernels.py` puts each into a kernel of its own
that reads its operands from memory and writes its result there. `assemble_all` drops the forms that an architecture
does not have, by what the assembler says, so one list serves all of them.
"""

from tests.corpus.forms import CHAPTERS, FORMS
from tests.corpus.inputs import BYTES, THREADS, operands
from tests.corpus.kernels import assemble_all, decoded, operand_classes

__all__ = [
    "BYTES",
    "CHAPTERS",
    "FORMS",
    "THREADS",
    "assemble_all",
    "decoded",
    "operand_classes",
    "operands",
]
