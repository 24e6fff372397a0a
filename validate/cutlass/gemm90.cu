// A product by CUTLASS 3's collective builder. Macros say which: TYPE_A, TYPE_B, TYPE_D, SUM (of the accumulators),
// LAYOUT_A, LAYOUT_B, TILE, CLUSTER, SCHEDULE, EPILOGUE, SCHEDULER. Prints the launch for m n k; see capture.cpp.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"
#include "launch.h"

using namespace cute;
using namespace cutlass;

template <class T>
constexpr int aligned = 128 / cute::sizeof_bits_v<T>;

using Epilogue = epilogue::collective::CollectiveBuilder<
    arch::Sm90, arch::OpClassTensorOp, TILE, CLUSTER, epilogue::collective::EpilogueTileAuto, SUM, SUM, void,
    layout::RowMajor, aligned<TYPE_D>, TYPE_D, layout::RowMajor, aligned<TYPE_D>, EPILOGUE>::CollectiveOp;
using Mainloop = gemm::collective::CollectiveBuilder<
    arch::Sm90, arch::OpClassTensorOp, TYPE_A, LAYOUT_A, aligned<TYPE_A>, TYPE_B, LAYOUT_B, aligned<TYPE_B>, SUM, TILE,
    CLUSTER,
    gemm::collective::StageCountAutoCarveout<int(sizeof(Epilogue::SharedStorage))>, SCHEDULE>::CollectiveOp;
using ProductKernel = gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, SCHEDULER>;
using Gemm = gemm::device::GemmUniversalAdapter<ProductKernel>;

int main(int, char** text) {
  int m = atoi(text[1]), n = atoi(text[2]), k = atoi(text[3]);
  KernelHardwareInfo hardware;
  hardware.sm_count = 132;
  typename Gemm::Arguments arguments{
      gemm::GemmUniversalMode::kGemm,
      {m, n, k, 1},
      {static_cast<TYPE_A*>(placeholder(0)), make_cute_packed_stride(ProductKernel::StrideA{}, {m, k, 1}),
       static_cast<TYPE_B*>(placeholder(1)), make_cute_packed_stride(ProductKernel::StrideB{}, {n, k, 1})},
      {{}, nullptr, {}, static_cast<TYPE_D*>(placeholder(2)), make_cute_packed_stride(ProductKernel::StrideD{}, {m, n, 1})},
      hardware};
  arguments.epilogue.thread = {SUM(1), SUM(0)};
  Gemm gemm;
  if (gemm.can_implement(arguments) != Status::kSuccess) return 2;
  size_t workspace = Gemm::get_workspace_size(arguments);
  std::printf("workspace %zu\n", workspace);
  if (gemm.initialize(arguments, workspace ? placeholder(3) : nullptr) != Status::kSuccess) return 3;
  return gemm.run() == Status::kSuccess ? 0 : 4;
}
