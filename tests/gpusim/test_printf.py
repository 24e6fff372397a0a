"""printf's conversions against the formats of Python that ISO C shares, and what only C has against its words."""

from __future__ import annotations

import struct

import pytest

from gpusim.host.syscalls import printf


def run(form: str, packed: bytes = b"", strings: dict[int, str] | None = None) -> tuple[str, int]:
    return printf(form, lambda offset, size: packed[offset : offset + size], (strings or {}).__getitem__)


@pytest.mark.parametrize("form", ["%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%.3d", "%7.3d", "%i"])
@pytest.mark.parametrize("value", [0, 7, -42, 123456, -(2**31)])
def test_signed_integers(form: str, value: int) -> None:
    assert run(form, struct.pack("<i", value)) == (form % value, 1)


@pytest.mark.parametrize(
    "form", ["%f", "%8.3f", "%-9.1f|", "%09.2f", "%+e", "%G", "%.0f", "%g", "%#.3g", "% .4e", "%#.0f"]
)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -2.75e-9, 1e20, float("inf"), float("-inf")])
def test_floating(form: str, value: float) -> None:
    if value in (float("inf"), float("-inf")) and "0" in form.split(".")[0]:
        pytest.skip("Python fills infinities with zeros, C does not")
    assert run(form, struct.pack("<d", value)) == (form % value, 1)


@pytest.mark.parametrize(
    ("form", "packed", "text"),
    [
        ("%u %x %X %o", struct.pack("<4I", 2**32 - 1, 0xBEEF, 0xBEEF, 8), "4294967295 beef BEEF 10"),
        ("%#x %#x %#o", struct.pack("<3I", 255, 0, 8), "0xff 0 010"),
        ("%lld %d", struct.pack("<qi", -(2**40), 3), "-1099511627776 3"),
        ("%d %lld", struct.pack("<iiq", 3, 0, 2**40), "3 1099511627776"),  # aligned to its size
        ("%hhd %hu", struct.pack("<iI", 0x1FF, 0x12345), "-1 9029"),
        ("%c%c%%", struct.pack("<2i", 65, 66), "AB%"),
        ("%p %p", struct.pack("<2Q", 0x7F0012345678, 0), "0x7f0012345678 (nil)"),
        ("%*d|%-*d|", struct.pack("<4i", 4, 7, 3, 8), "   7|8  |"),
        ("%.*f", struct.pack("<iid", 2, 0, 3.14159), "3.14"),
        ("%a %.1A %a", struct.pack("<3d", 1.5, -0.1, 0), "0x1.8p+0 -0X1.AP-4 0x0p+0"),
        ("%5.3d|%05.3d|%.0u|%+u", struct.pack("<2i2I", 7, 7, 0, 7), "  007|  007||7"),
        ("%08.2f|%010x", struct.pack("<dI", -1.5, 255), "-0001.50|00000000ff"),
        ("%f %F", struct.pack("<2d", float("nan"), float("inf")), "nan INF"),
        ("no conversion %", b"", "no conversion %"),
        ("%.0d|", struct.pack("<i", 0), "|"),
    ],
)
def test_what_iso_c_says(form: str, packed: bytes, text: str) -> None:
    assert run(form, packed)[0] == text


def test_strings_and_count() -> None:
    strings = {16: "left", 32: "right"}
    packed = struct.pack("<3Q", 16, 32, 0)
    assert run("%s-%.3s-%8s|", packed, strings) == ("left-rig-  (null)|", 3)
