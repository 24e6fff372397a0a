// The half-precision product of one of CuTe's tutorials, TUTORIAL. Prints the launch for m n k; see capture.cpp.
#define main tutorial_main
#include TUTORIAL
#undef main
#include "launch.h"

int main(int, char** text) {
  int m = atoi(text[1]), n = atoi(text[2]), k = atoi(text[3]);
  auto half = [](int number) { return static_cast<cute::half_t*>(placeholder(number)); };
  std::printf("workspace 0\n");
  gemm_tn(m, n, k, cute::half_t(1.0f), half(0), k, half(1), k, cute::half_t(0.0f), half(2), m);
}
