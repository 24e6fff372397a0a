"""One PTX kernel per form, and all that an architecture has in one cubin."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from isa.instruction import Instruction, parse_instruction
from isa.listing import read_sections
from isa.toolchain import find_tool

# Letter of an operand class: (register type, bytes in memory, type of its load and store)
_CLASSES = {
    "h": ("b16", 2, "u16"),
    "r": ("b32", 4, "u32"),
    "l": ("b64", 8, "u64"),
    "f": ("f32", 4, "f32"),
    "d": ("f64", 8, "f64"),
    "q": ("b128", 16, ""),
}
_VERSION = "9.0"
_STRIDE = 64  # bytes of one thread's operands, and of its results


def operand_classes(form: tuple[str, str]) -> str:
    """Classes of the sources that a form's kernel loads, in their order in memory; predicates are words after them."""
    names = sorted(set(re.findall(r"\{(\w+)\.([hrlfdqp])\}", form[0])))
    sources = [kind for each, kind in names if not each.startswith("d")]
    return "".join(kind for kind in sources if kind != "p") + "p" * sources.count("p")


_HEAD = """{
.reg .b64 in, out, wide; .reg .b32 tid, sh, word; .shared .align 16 .b8 buffer[4096];
ld.param.u64 in, [pin]; ld.param.u64 out, [pout]; mov.u32 tid, %tid.x;
mul.wide.u32 wide, tid, STRIDE; add.u64 in, in, wide; add.u64 out, out, wide;
mov.u32 sh, buffer; shl.b32 word, tid, 4; add.u32 sh, sh, word;
""".replace("STRIDE", str(_STRIDE))


def kernel_head(name: str) -> str:
    """Where a kernel `name(in, out)` begins; it ends with "ret; }"."""
    return f".visible .entry {name}(.param .u64 pin, .param .u64 pout)\n{_HEAD}"


def form_text(form: tuple[str, str]) -> str:
    """What a kernel does with one form, in a scope of its own.

    Args:
        form: (template, note). In the template `{d.r}` is a destination and `{a.r}`, `{b.r}`, ... are sources of
            class r (h, r, l, f, d, q, or p for predicates); `[in]`, `[out]` and `[sh]` are addresses of this thread
            in global and shared memory, of which the latter starts as a copy of the former; anything else stands as
            it is. Several instructions are parted by `;`.
    """
    template = form[0]
    names = sorted(set(re.findall(r"\{(\w+)\.([hrlfdq])\}", template)))
    predicates = sorted(set(re.findall(r"\{(\w+)\.p\}", template)))
    rows = ["{", *(f".reg .{_CLASSES[kind][0]} {each}_{kind};" for each, kind in names)]
    rows += [f".reg .pred {each}_p;" for each in predicates]
    if "[sh" in template:
        rows += [".reg .b64 first, second; ld.global.v2.u64 {first, second}, [in];"]
        rows += ["st.shared.v2.u64 [sh], {first, second};"]
    at = 0
    for each, kind in names:
        if each.startswith("d"):
            continue
        _, size, access = _CLASSES[kind]
        at = -(-at // size) * size
        if kind == "q":
            rows.append(f".reg .b64 low_{each}, high_{each}; ld.global.v2.u64 {{low_{each}, high_{each}}}, [in+{at}];")
            rows.append(f"mov.b128 {each}_q, {{low_{each}, high_{each}}};")
        else:
            rows.append(f"ld.global.{access} {each}_{kind}, [in+{at}];")
        at += size
    for each in predicates:
        if not each.startswith("d"):
            rows.append(f"ld.global.u32 word, [in+{at}]; setp.ne.u32 {each}_p, word, 0;")
            at = -(-at // 4) * 4 + 4
    body = re.sub(r"\{(\w+)\.([hrlfdqp])\}", r"\1_\2", template)
    rows.append(body if body.startswith("{") else body + ";")
    at = 0
    for each, kind in names:
        if not each.startswith("d"):
            continue
        _, size, access = _CLASSES[kind]
        at = -(-at // size) * size
        if kind == "q":
            rows.append(f".reg .b64 low_{each}, high_{each}; mov.b128 {{low_{each}, high_{each}}}, {each}_q;")
            rows.append(f"st.global.v2.u64 [out+{at}], {{low_{each}, high_{each}}};")
        else:
            rows.append(f"st.global.{access} [out+{at}], {each}_{kind};")
        at += size
    for each in predicates:
        if each.startswith("d"):
            at = -(-at // 4) * 4
            rows.append(f"selp.u32 word, 1, 0, {each}_p; st.global.u32 [out+{at}], word;")
            at += 4
    return "\n".join([*rows, "}"])


def _groups(kernels: dict[str, tuple[str, str]], together: int) -> list[list[str]]:
    ends = [name for name, (_, note) in kernels.items() if note == "ends"]
    others = [name for name in kernels if name not in ends]
    return [others[at : at + together] for at in range(0, len(others), together)] + [[name] for name in ends]


def assemble_all(
    forms: Iterable[tuple[str, str]], arch: str, together: int = 1
) -> tuple[bytes, dict[str, tuple[str, str]], dict[str, str]]:
    """Assemble every form that the architecture has.

    together: forms of a kernel; one that ends it has a kernel to itself.

    Returns:
        The cubin, its forms by the name that a kernel with one of them has, and those dropped with the assembler's
        reason.
    """
    kernels = {f"k{number}": form for number, form in enumerate(forms)}
    dropped: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "corpus.ptx"), Path(folder, "corpus.cubin")
        while True:
            rows = [f".version {_VERSION}", f".target {arch}", ".address_size 64"]
            rows += [".global .texref texture;", ".global .surfref surface;"]
            owners = [""] * len(rows)
            for group in _groups(kernels, together):
                for name in group:
                    before = kernel_head(name) if name == group[0] else ""
                    after = "\nret; }" if name == group[-1] else ""
                    text = f"{before}{form_text(kernels[name])}{after}".split("\n")
                    rows += text
                    owners += [name] * len(text)
            source.write_text("\n".join(rows) + "\n")
            command = [find_tool("ptxas"), f"-arch={arch}", "-O3", str(source), "-o", str(target)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return target.read_bytes(), kernels, dropped
            found = re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", done.stderr)
            bad = {owners[int(line) - 1]: reason for line, reason in found}
            if not bad or "" in bad:
                raise RuntimeError(done.stderr[:2000])
            for name, reason in bad.items():
                del kernels[name]
                dropped[name] = reason


def decoded(listing: str) -> dict[str, tuple[Instruction, ...]]:
    """The instructions of each code section of a listing."""
    return {
        name: tuple(parse_instruction(at, text, word, part.labels, *place) for at, text, word, *place in part.lines)
        for name, part in read_sections(listing).items()
    }
