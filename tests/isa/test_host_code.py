"""What is taken out of a text for the GPU's compiler, and how compilers' complaints are read."""

from __future__ import annotations

import pytest

from isa.host_code import HostSource, kernel_templates, marking_macros, template_uses
from isa.toolchain import complaints, first_complaint

TEXT = r"""
#define DEVICE __device__ \
  __forceinline__
#define BOTH(type) __host__ DEVICE type
/* { */ // }
const char *brace = "}{\"", sign = '{';
auto raw = R"x( ) } " )x";
#ifdef WIDE
void report(double x) {
#else
void report(float x) {
#endif
  if (x > 1) { puts("}"); }
}
DEVICE float half(float x) { return x / 2; }
BOTH(float) third(float x) { return x / 3; }
template <typename T = int, int N = (1 > 0)> static T host_template(T x) { return x; }
template <typename T> __global__ void __launch_bounds__(128, 2) kernel(T *x) { x[0] = T(); }
template <> __global__ void kernel<int>(int *x) { x[0] = 1; }
namespace a { namespace b {
int table[] = {1, 2, f(3)};
struct alignas(16) Point {
 public:
  Point() : x{0}, y(1) {}
  __device__ Point(int n) : x{n} { y = n; }
  Point &operator=(const Point &o) { x = o.x; return *this; }
  int x, y;
};
enum class Kind { one, two = (1 << 1) };
constexpr int square(int x) { return x * x; }
int declared(int x, Kind kind);
typedef int (*callback)(int);
}}
extern "C" int main(int argc, char **argv) {
  kernel<float><<<1, 1>>>(nullptr); a::b::kernel <a::b::Pair<int>, (3 > 2)> <<<1, 1>>>(x); kernel<int
  ><<<1, 1>>>(y); if (kernel < 3) return 1;
}
"""


@pytest.fixture(scope="module")
def source() -> HostSource:
    return HostSource(TEXT, marking_macros([TEXT]))


def named(source: HostSource, text: str) -> set[int]:
    """The lines on which a text stands."""
    return {number for number, row in enumerate(source.text.splitlines(), 1) if text in row}


def test_what_is_left_out(source: HostSource) -> None:
    assert marking_macros([TEXT]) == {"DEVICE", "BOTH"}
    left = source.code().splitlines()
    gone = {
        number for number, (old, new) in enumerate(zip(TEXT.splitlines(), left, strict=True), 1) if old != new
    }
    body = range(min(named(source, "void report")), min(named(source, "DEVICE float half")))
    main = range(min(named(source, "int main")), len(left) + 1)
    kept = {number for number in body if TEXT.splitlines()[number - 1].startswith("#")}
    assert gone == (
        {*body, *main} - kept
        | named(source, "host_template")
        | named(source, "declared(")
        | named(source, "constexpr int square")
    )
    assert not "".join(left[number - 1] for number in main).strip()
    assert (
        left[min(named(source, "int square")) - 1]
        == "__device__ constexpr int square(int x) { return x * x; }"
    )


def test_members_are_parts(source: HostSource) -> None:
    """A constructor ends with its body, though a brace of an initial value comes first."""
    members = {part.head.split("(")[0].strip(): part for part in source.parts if part.member}
    assert set(members) == {"Point", "__device__ Point", "Point &operator=", "int x, y;"}
    assert members["__device__ Point"].device and source.text[: members["__device__ Point"].end].endswith(
        "y = n; }"
    )
    assert source.text[: members["Point"].end].endswith("y(1) {}")
    (line,) = named(source, "int x, y;")
    inner, outer = source.at(line)
    assert inner is members["int x, y;"] and outer.head.startswith("struct alignas(16) Point")


def test_templates_of_kernels(source: HostSource) -> None:
    assert kernel_templates(TEXT) == {"kernel"}
    assert template_uses(source.masked[source.masked.index("main") :], ["kernel"]) == [
        "kernel<float>",
        "a::b::kernel <a::b::Pair<int>, (3 > 2)>",
        "kernel<int >",
    ]


@pytest.mark.parametrize(
    ("log", "text", "places"),
    [
        ("k.cu(7): error: expected a ;\n  int x\n       ^\n\n1 error\n", "expected a ;", [("k.cu", 7)]),
        ("k.cu(7): error #20: undefined\n", "undefined", [("k.cu", 7)]),
        (
            "In file included from k.cu:3:\nh.h:1:10: fatal error: nope.h: No such file or directory\n",
            "nope.h: No such file or directory",
            [("h.h", 1), ("k.cu", 3)],
        ),
        (
            r"C:\k.cu(3): fatal error C1083: Cannot open include file: 'nope.h': No",
            "Cannot open",
            [(r"C:\k.cu", 3)],
        ),
        (
            '/usr/include/c++/12/new.h(175): error: no\n  x\n  ^\n  detected during:\n'
            '    instantiation of "f" at line 5\n'
            '    instantiation of "g" at line 9 of k.cu\n\nk.cu(20): error: later\n',
            "no",
            [("/usr/include/c++/12/new.h", 175), ("/usr/include/c++/12/new.h", 5), ("k.cu", 9)],
        ),
    ],
)
def test_complaints(log: str, text: str, places: list[tuple[str, int]]) -> None:
    found = next(complaints(log))
    assert found.text.startswith(text) and list(found.places) == places
    assert found.missing_file == ("nope.h" if "nope.h" in log else None)
    error = first_complaint(log, "k.cu", "nvcc")
    own = next(place for place in places if not place[0].startswith("/usr"))
    assert (error.file, error.line) == own
