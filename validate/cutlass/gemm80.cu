// A product by CUTLASS 2's device interface, as for sm_80. Macros say which: TYPE, LAYOUT_A, LAYOUT_B, CLASS, BLOCK, WARP,
// INSTRUCTION, STAGES. Prints the launch for m n k; see capture.cpp.
#include "cutlass/gemm/device/gemm.h"
#include "launch.h"

using namespace cutlass;
constexpr int simt = std::is_same_v<CLASS, arch::OpClassSimt>;
using Finish = epilogue::thread::LinearCombination<TYPE, simt ? 1 : 128 / sizeof_bits<TYPE>::value, float, float>;
using Gemm = gemm::device::Gemm<TYPE, LAYOUT_A, TYPE, LAYOUT_B, TYPE, layout::RowMajor, float, CLASS, arch::Sm80, BLOCK,
                                WARP, INSTRUCTION, Finish, gemm::threadblock::GemmIdentityThreadblockSwizzle<>, STAGES>;

int main(int, char** text) {
  int m = atoi(text[1]), n = atoi(text[2]), k = atoi(text[3]);
  auto *a = static_cast<TYPE*>(placeholder(0)), *b = static_cast<TYPE*>(placeholder(1)), *d = static_cast<TYPE*>(placeholder(2));
  Gemm::Arguments arguments({m, n, k}, {a, k}, {b, k}, {d, n}, {d, n}, {1.0f, 0.0f});
  Gemm gemm;
  std::printf("workspace 0\n");
  return gemm(arguments) == Status::kSuccess ? 0 : 3;
}
