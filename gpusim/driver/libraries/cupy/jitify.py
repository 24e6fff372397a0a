"""In the place of `cupy.cuda.jitify`: NVRTC reads headers where they lie, without Jitify's replacements for those of
the host's library."""

from __future__ import annotations

from collections.abc import Mapping

from cupy_backends.cuda.libs import nvrtc


def get_build_version() -> str:
    """Of the library that is not there."""
    return "<unknown>"


def _init_module() -> None:
    pass


def _add_sources(sources: Mapping[bytes, bytes], is_str: bool = False) -> None:
    """CuPy's own headers lie on its path of headers too."""


def jitify(code: str, opt: tuple[str, ...]) -> tuple[str, tuple[str, ...], tuple[()], tuple[()]]:
    """The source's name, which is its first line; options for NVRTC; contents and names of headers to give it. Raises
    RuntimeError where NVRTC does not compile it: Jitify looks for headers by a first trial."""
    name, _, source = code.partition("\n")
    opt = (*opt, "--device-as-default-execution-space")
    program = nvrtc.createProgram(source, name, (), ())
    try:
        nvrtc.compileProgram(program, opt)
    except nvrtc.NVRTCError:
        raise RuntimeError(nvrtc.getProgramLog(program)) from None
    finally:
        nvrtc.destroyProgram(program)
    return name, opt, (), ()
