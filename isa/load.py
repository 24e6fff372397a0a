"""Load a kernel from a file: `.cubin`, `.ptx`, `.cu`, an object to link, or a saved program image."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from isa.assemble import DEFAULT_ARCH, assemble, is_relocatable, link_objects
from isa.cache import ProgramCache, default_cache
from isa.cubin import read_cubin
from isa.cuda import CompiledSource, compile_source, has_nvcc, include_options, reads_more
from isa.demangle import names, squeeze, without_parameters
from isa.errors import CompileError, EntryError, ProgramFileError
from isa.listing import program_from_cubin, with_current_source
from isa.program import DECODER, IMAGE_FORMAT, SUFFIX, Program
from isa.toolchain import INSTANCES, file_identity, host_compiler, identity, include_folders

_OBJECTS = (".o", ".fatbin", ".a")
_SOURCES = (".cu", ".cuda")

# What nvcc and gcc heed besides their options.
_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH", "CPLUS_INCLUDE_PATH", "INCLUDE")
_LARGEST_FILE_BYTES = 1 << 30
# The name of a kernel's template, behind its attributes, such as `__launch_bounds__(128)`.
_TEMPLATE = re.compile(r"\btemplate\s*<\s*[^>\s][^;{}]*?\b__global__\b[^;{}]*?\b((?!__)\w+)\s*\(")


def load(
    path: str | os.PathLike[str],
    entry: str | None = None,
    *,
    abi: str | None = None,
    arch: str = DEFAULT_ARCH,
    options: Sequence[str] = (),
) -> Program:
    """Read one kernel from a file; the suffix says what it is.

    Args:
        path: a `.cubin` (linked if it has to be), `.ptx` (through ptxas), `.cu` (see `isa.cuda`), `.o`, `.fatbin`
            or `.a` (through nvlink), or `.gpuprog` image.
        entry: the kernel's mangled name, or its C++ name with or without namespace, template arguments and
            parameters ('ns::kernel<float, 4>(float*, int)'); may be left out where the file holds one kernel. With
            template arguments also an instance of a `.cu` file's kernel that the file itself does not ask for.
        abi: 'numba' or 'c', how arguments are laid out in constant bank 0; None guesses from the mangled
            name.
        arch: target of `.ptx` and `.cu` files; 'sm_90a' allows instructions of that architecture alone.
        options: options of nvcc or NVRTC for `.cu` files, such as ('-DN=4', '-I', 'include', '-std=c++20').

    Raises:
        ProgramFileError: no such file, or a suffix that is not one of these; NotACubin for a damaged cubin.
        EntryError: no such kernel, or several and none chosen; the message lists what is there.
        CompileError: the source does not compile; with file and line.
        ToolchainMissing: a tool that is needed is not installed.
    """
    if abi not in (None, "numba", "c"):
        raise ProgramFileError(f"abi is 'numba' or 'c', not '{abi}'")
    file = Path(path)
    data = _content(file)
    if file.suffix.lower() == SUFFIX:
        return _checked(Program.from_bytes(data, str(file)), entry, abi, file)
    if options and file.suffix.lower() not in _SOURCES:
        raise ProgramFileError(f"{file}: compiler options ({' '.join(options)}) are for files of CUDA C++ (.cu)")
    if file.suffix.lower() in _SOURCES:
        return _from_source(data, file, entry, abi, arch, options)
    return program_from_cubin(_cubin(data, file, arch), entry, abi=abi, path=str(file))


def _content(file: Path) -> bytes:
    suffix = file.suffix.lower()
    try:
        if file.exists() and (not file.is_file() or file.stat().st_size > _LARGEST_FILE_BYTES):
            raise ProgramFileError(f"{file} is not a file of at most {_LARGEST_FILE_BYTES:,} bytes")
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        raise ProgramFileError(f"cannot read {file}: {getattr(error, 'strerror', error)}") from error
    if suffix not in (".cubin", ".ptx", *_SOURCES, *_OBJECTS, SUFFIX):
        known = ", ".join((".cubin", ".ptx", ".cu", *_OBJECTS))
        raise ProgramFileError(f"{file}: unknown suffix '{suffix}'; known are {known} and {SUFFIX}")
    return data


def _cubin(data: bytes, file: Path, arch: str) -> bytes:
    """The cubin that a file's content is or becomes, or that was compiled from it."""
    suffix = file.suffix.lower()
    if suffix == ".ptx":
        data = assemble(data, arch, path=str(file))
    elif suffix in _OBJECTS:
        data = link_objects([(str(file), data)], arch)
    if is_relocatable(data):
        data = link_objects([(f"{file}.cubin", data)], read_cubin(data, str(file)).arch)
    return data


def _from_source(
    data: bytes, file: Path, entry: str | None, abi: str | None, arch: str, options: Sequence[str]
) -> Program:
    """A kernel of a CUDA C++ file, from the cache if nothing that it is made of has changed."""
    source = data.decode(errors="replace")
    cache, key = default_cache(), _source_key(source, file, arch, options)
    wanted = (str(entry), str(abi))
    program = cache.get(cache.key([cache.full_key(key), *wanted])) if key else None
    if program is not None:
        return with_current_source(program)
    made = (_LAST.get(cache.full_key(key)) if key else None) or compile_source(source, arch, str(file), options)
    if key:
        if made.files is not None:
            cache.put_files(key, made.files)
        _LAST.clear()
        _LAST[cache.full_key(key)] = made
    try:
        program = program_from_cubin(_cubin(made.cubin, file, arch), entry, abi=abi, path=str(file))
    except EntryError as missing:
        made = _with_instance(source, file, entry, arch, options, missing)
        program = program_from_cubin(_cubin(made.cubin, file, arch), entry, abi=abi, path=str(file))
    if key:
        cache.put(cache.key([cache.full_key(key), *wanted]), program)
    return program


_LAST: dict[str, CompiledSource] = {}
"""The source compiled last by this process, by its cache key: another kernel of the file needs no compilation."""


def _with_instance(
    source: str, file: Path, entry: str | None, arch: str, options: Sequence[str], missing: EntryError
) -> CompiledSource:
    """The file compiled with the instance of a kernel's template that an entry names. Raises EntryError for another
    entry, with what can be named."""
    reason, _, _ = str(missing).partition("; the file holds")
    instance = without_parameters(entry or "")
    if instance.endswith(">"):
        try:
            return compile_source(source, arch, str(file), options, [instance])
        except CompileError as error:
            if error.file != INSTANCES:
                raise
            raise EntryError(f"{reason}: {error.reason}", missing.available) from None
    templates = sorted({*_TEMPLATE.findall(source)} - {names(each)[-1] for each in missing.available})
    if templates and (entry is None or entry.rpartition("::")[2] in templates):
        listed = ", ".join(f"'{each}<...>'" for each in templates)
        reason += f" (it has templates of kernels, of which entry= may name an instance: {listed})"
    if not missing.available and not templates:
        reason = f"{file} has no kernel: no function begins with __global__ void"
    raise EntryError(reason, missing.available)


def _source_key(source: str, file: Path, arch: str, options: Sequence[str]) -> str | None:
    """Cache key of what a CUDA C++ file compiles to, None where a macro or an option decides what it includes."""
    own = _own_parts(source, file, include_options(options))
    if own is None or reads_more(options):
        return None
    tools = [identity(name) for name in ("nvrtc", "nvdisasm")]
    if has_nvcc(options):
        compiler = host_compiler()
        tools += [identity("nvcc"), file_identity(compiler) if compiler else ""]
        tools += [f"{name}={os.environ.get(name)}" for name in _ENVIRONMENT]
    what = ["cu", f"{IMAGE_FORMAT}.{DECODER}", arch, repr(list(options)), *tools, *include_folders()]
    return ProgramCache.key([*what, *own])


def _checked(program: Program, entry: str | None, abi: str | None, file: Path) -> Program:
    """An image holds one kernel with its ABI recorded; a request for another one is a mistake."""
    if entry is not None and squeeze(entry) not in (*names(program.symbol), program.name):
        raise EntryError(f"{file} has no kernel '{entry}'", (program.symbol,))
    if abi not in (None, program.abi):
        raise ProgramFileError(f"{file} was recorded with abi '{program.abi}', not '{abi}'")
    return program


_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:(?P<quote>[<\"])(?P<name>[^>\"\n]+)[>\"]|(?P<macro>\S+))", re.M)


def _own_parts(source: str, path: Path, folders: Sequence[str]) -> list[str] | None:
    """A text and its own headers for a cache key, as far as they are known without a compiler: conditions that includes
    stand under are not looked at, and of a header that is not the user's the key has its name and which folders of
    CUDA's hold it. None where a macro names a header.

    folders: where headers are searched besides the file's own folder, those of the options -I. A folder with CUDA's own
    headers is none of the user's.
    """
    path = path.resolve()
    searched = [path.parent, *(Path(each) for each in folders if not Path(each, "cuda_runtime.h").is_file())]
    texts, parts = {path: source}, list[str]()
    todo = [path]
    for file in todo:  # which grows
        parts += str(file), texts[file]
        for match in _INCLUDE.finditer(texts[file]):
            if match["macro"] is not None:
                return None
            name, quote = match["name"], match["quote"]
            near = [file.parent] if quote == '"' else []
            header = next((each.resolve() for folder in (*near, *searched) if (each := folder / name).is_file()), None)
            found = str(header or [Path(each, name).is_file() for each in include_folders()])
            parts += quote + name, found
            if header and header not in texts:
                todo.append(header)
                texts[header] = header.read_text(encoding="utf-8", errors="replace")
    return parts
