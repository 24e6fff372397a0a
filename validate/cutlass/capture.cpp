// Stands for the CUDA runtime and driver while a host program of CUTLASS prepares a launch on a machine without a GPU:
// the launch is printed instead of made. Arrays have placeholder addresses, and a tensor map is kept as it was asked for.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace {
std::map<const void*, std::string>& kernels() {
  static std::map<const void*, std::string> found;
  return found;
}

struct Dim3 {
  unsigned x, y, z;
};
struct Config {
  Dim3 grid, block;
  size_t shared;
  void* stream;
};
Config pushed;

int launch(const void* function, const Config& config, const Dim3& cluster, void** arguments) {
  std::printf("kernel %s\ngrid %u %u %u\nblock %u %u %u\ncluster %u %u %u\nshared %zu\n", kernels()[function].c_str(),
              config.grid.x, config.grid.y, config.grid.z, config.block.x, config.block.y, config.block.z,
              cluster.x, cluster.y, cluster.z, config.shared);
  const char* sizes = std::getenv("PARAMETER_SIZES");
  for (char* at = const_cast<char*>(sizes ? sizes : ""); *at;) {
    size_t size = std::strtoul(at, &at, 10);
    std::printf("parameter ");
    for (size_t i = 0; i < size; i++) std::printf("%02x", static_cast<const uint8_t*>(*arguments)[i]);
    std::printf("\n");
    arguments++;
  }
  return 0;
}

struct Attribute {
  int id, pad;
  Dim3 value;
  unsigned more[13];
};
struct Extended : Config {
  Attribute* attributes;
  unsigned count;
};

// What a tensor map's 128 bytes hold until they are made.
struct Map {
  char magic[8];
  uint64_t address, shape[5], strides[4];
  uint16_t box[5];
  uint8_t steps[5], kind, rank, interleave, swizzle, promotion, fill;
};
static_assert(sizeof(Map) <= 128);
}  // namespace

extern "C" {
void** __cudaRegisterFatBinary(void*) { static void* handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  kernels()[host] = name;
}
int __cudaGetKernel(void** kernel, const void* host) { *kernel = const_cast<void*>(host); return 0; }

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void* stream) {
  pushed = {grid, block, shared, stream};
  return 0;
}
int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared, void* stream) {
  *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *static_cast<void**>(stream) = pushed.stream;
  return 0;
}
int __cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream) {
  return launch(function, {grid, block, shared, stream}, {1, 1, 1}, arguments);
}
int cudaLaunchKernelExC(const Extended* config, const void* function, void** arguments) {
  Dim3 cluster = {1, 1, 1};
  for (unsigned i = 0; i < config->count; i++)
    if (config->attributes[i].id == 4) cluster = config->attributes[i].value;  // cudaLaunchAttributeClusterDimension
  return launch(function, *config, cluster, arguments);
}

int cuTensorMapEncodeTiled(void* target, int kind, unsigned rank, void* address, const uint64_t* shape,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                           int swizzle, int promotion, int fill) {
  Map map = {};
  std::memcpy(map.magic, "A MAP IS", 8);
  map.address = reinterpret_cast<uint64_t>(address);
  map.kind = kind, map.rank = rank, map.interleave = interleave, map.swizzle = swizzle;
  map.promotion = promotion, map.fill = fill;
  for (unsigned d = 0; d < rank; d++) {
    map.shape[d] = shape[d], map.box[d] = box[d], map.steps[d] = steps[d];
    if (d + 1 < rank) map.strides[d] = strides[d];
  }
  std::memset(target, 0, 128);
  std::memcpy(target, &map, sizeof map);
  return 0;
}

int cudaDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 16 ? 132 : attribute == 97 ? 232448 : 0;  // SMs, shared memory of a block that asks for more
  return 0;
}
int cudaDriverGetVersion(int* version) { *version = 13000; return 0; }
int cudaGetDevice(int* device) { *device = 0; return 0; }
int cudaGetDeviceCount(int* count) { *count = 1; return 0; }
int cudaFuncSetAttribute(const void*, int, int) { return 0; }
int cudaGetLastError() { return 0; }
int cudaPeekAtLastError() { return 0; }
int cudaDeviceSynchronize() { return 0; }
const char* cudaGetErrorString(int) { return "an error"; }
int cudaMemsetAsync(void*, int value, size_t, void*) { return value; }  // scratch is zero from the start
}
