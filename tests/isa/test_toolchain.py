"""Where the vendor's tools are looked for, and what is said when one is missing or does not work."""

import os

import pytest

from isa import toolchain
from isa.compile import assemble
from isa.errors import CompileError, ToolchainFailed, ToolchainMissing
from isa.toolchain import first_complaint


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


@pytest.fixture
def places(monkeypatch, tmp_path):
    """Three folders that may hold tools: two roots in this order, and one on the path; nothing else is found."""
    roots = (tmp_path / "first", tmp_path / "second")
    monkeypatch.setattr(toolchain, "_roots", lambda: roots)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    yield (*roots, tmp_path / "path")
    for remembered in (toolchain._find_tool, toolchain.tool_version, toolchain.numba_version):
        remembered.cache_clear()


def test_the_first_place_that_has_a_tool_wins(places):
    first, second, path = places
    with pytest.raises(ToolchainMissing, match="nvidia-cuda-nvcc"):
        toolchain.find_tool("ptxas")
    for tool in (path / "ptxas", second / "bin/ptxas", first / "bin/ptxas"):
        script(tool, "")
        toolchain._find_tool.cache_clear()
        assert toolchain.find_tool("ptxas") == str(tool)


def test_a_file_that_cannot_be_executed_is_no_tool(places):
    first, second, _ = places
    script(first / "bin/nvdisasm", "").chmod(0o644)
    tool = script(second / "bin/nvdisasm", "")
    assert toolchain.find_tool("nvdisasm") == str(tool)


def test_library_and_headers(places):
    first, second, _ = places
    with pytest.raises(ToolchainMissing, match="nvidia-cuda-nvrtc"):
        toolchain.find_nvrtc()
    assert toolchain.include_folders() == ()
    for name in ("libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.alt.so.13"):
        script(second / "lib64" / name, "")
    (first / "include").mkdir(parents=True)
    (second / "include/cccl").mkdir(parents=True)
    assert toolchain.find_nvrtc() == str(second / "lib64/libnvrtc.so.13")
    assert toolchain.include_folders() == tuple(
        str(folder) for folder in (first / "include", second / "include", second / "include/cccl")
    )


def test_identity_follows_the_file(places):
    tool = script(places[0] / "bin/ptxas", "")
    before = toolchain.identity("ptxas")
    os.utime(tool, (1, 1))
    assert toolchain.identity("ptxas") != before and str(tool) in before


def test_a_tool_that_fails_says_how(places):
    for text, message in (("echo broken >&2; exit 1", "broken"), ("echo no number", "--version failed")):
        script(places[0] / "bin/nvdisasm", text)
        toolchain.tool_version.cache_clear()
        with pytest.raises(ToolchainFailed, match=message):
            toolchain.tool_version("nvdisasm")
    script(places[0] / "bin/nvdisasm", "echo release 13.5, V13.5.37")
    toolchain.tool_version.cache_clear()
    assert toolchain.tool_version("nvdisasm") == "13.5.37"


def test_a_tool_that_crashes_is_not_the_users_mistake(places):
    script(places[0] / "bin/ptxas", 'echo "malloc: assertion failure, a fatal error" >&2; kill -ABRT $$')
    with pytest.raises(ToolchainFailed, match="ptxas crashed with signal 6: malloc: assertion failure"):
        assemble(".version 8.0")


def test_missing_packages_are_named(places, monkeypatch):
    import importlib.metadata

    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    toolchain.numba_version.cache_clear()
    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(ToolchainMissing, match="numba is not installed"):
        toolchain.numba_version()


def test_compiler_reports_without_a_place():
    """NVRTC's own failures name no line; the first line that says what is wrong is kept."""
    place = first_complaint("note\nk.cu(7): error: expected a ;\n1 error detected", "k.cu", "NVRTC")
    assert isinstance(place, CompileError) and (place.file, place.line) == ("k.cu", 7)
    assert "expected a ;" in str(place)
    plain = first_complaint("remark\nnvrtc: error: invalid value for --gpu-architecture\n", "k.cu", "NVRTC")
    assert "invalid value" in str(plain) and plain.line is None
    assert "without a message" in str(first_complaint("", "k.cu", "NVRTC"))


@pytest.mark.parametrize(
    ("log", "text", "place"),
    [
        ("k.cu(7): error: expected a ;\n  int x\n       ^\n\n1 error\n", "expected a ;", ("k.cu", 7)),
        ("k.cu(7): error #20: undefined\n", "undefined", ("k.cu", 7)),
        (
            "In file included from k.cu:3:\nh.h:1:10: fatal error: nope.h: No such file or directory\n",
            "nope.h: No such file or directory",
            ("h.h", 1),
        ),
        (
            r"C:\k.cu(3): fatal error C1083: Cannot open include file: 'nope.h': No",
            "Cannot open",
            (r"C:\k.cu", 3),
        ),
        (
            "/usr/include/c++/12/new.h(175): error: no\n  x\n  ^\n  detected during:\n"
            '    instantiation of "f" at line 5\n'
            '    instantiation of "g" at line 9 of k.cu\n\nk.cu(20): error: later\n',
            "no",
            ("k.cu", 9),
        ),
    ],
)
def test_complaints_stand_at_the_innermost_place_of_the_user(log, text, place):
    error = first_complaint(log, "k.cu", "nvcc")
    assert error.reason.startswith(text) and (error.file, error.line) == place
