// Two processes that share memory and events, under `gpusim exec --gpus 2`: the first one's memory lies on GPU 0, and the
// other's kernels, on GPU 1, add to it.
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
#include <cuda_runtime.h>

static void check(int code, const char *call) {
  if (code) { printf("%s: %s\n", call, cudaGetErrorName((cudaError_t)code)); exit(1); }
}
#define OK(call) check(call, #call)

struct Told { cudaIpcMemHandle_t memory; cudaIpcEventHandle_t filled, used; };

__global__ void fill(int *x, int first) { x[blockIdx.x * blockDim.x + threadIdx.x] = first; }
__global__ void add(int *x, const int *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] += y[i]; }

static const int blocks = 4, threads = 128, nbytes = blocks * threads * sizeof(int);
static int to_other[2], to_first[2];

static void say(const char *what, cudaError_t code) {
  printf("%s: %s\n", what, cudaGetErrorName(code));
  fflush(stdout);
}

static void first() {
  Told told;
  int *x, all[blocks * threads], wrong = 0;
  cudaEvent_t filled, used, timed;
  const int flags = cudaEventDisableTiming | cudaEventInterprocess;
  OK(cudaMalloc(&x, nbytes));
  OK(cudaEventCreateWithFlags(&filled, flags));
  OK(cudaEventCreateWithFlags(&used, flags));
  OK(cudaEventCreate(&timed));
  OK(cudaIpcGetMemHandle(&told.memory, x + 5));
  OK(cudaIpcGetEventHandle(&told.filled, filled));
  OK(cudaIpcGetEventHandle(&told.used, used));
  void *place;
  cudaIpcEventHandle_t none;
  say("own memory", cudaIpcOpenMemHandle(&place, told.memory, cudaIpcMemLazyEnablePeerAccess));
  say("own event", cudaIpcOpenEventHandle(&timed, told.used));
  say("event with times", cudaIpcGetEventHandle(&none, timed));
  say("memory of the host", cudaIpcGetMemHandle(&told.memory, all));
  OK(cudaIpcGetMemHandle(&told.memory, x));
  fill<<<blocks, threads>>>(x, 100);
  OK(cudaEventRecord(filled));
  char c;
  if (write(to_other[1], &told, sizeof told) < 0 || read(to_first[0], &c, 1) != 1) exit(1);
  OK(cudaEventSynchronize(used));
  say("query", cudaEventQuery(used));
  OK(cudaMemcpy(all, x, nbytes, cudaMemcpyDeviceToHost));
  for (int value : all) wrong += value != 123;
  printf("wrong: %d\n", wrong);
  fflush(stdout);
  OK(cudaFree(x));
  if (write(to_other[1], &told, sizeof told) < 0) exit(1);
}

static void other() {
  Told told;
  int *x, *again, *own;
  cudaEvent_t filled, used;
  close(to_other[1]);
  if (read(to_other[0], &told, sizeof told) != sizeof told) exit(1);
  OK(cudaSetDevice(1));
  OK(cudaIpcOpenMemHandle((void **)&x, told.memory, cudaIpcMemLazyEnablePeerAccess));
  OK(cudaIpcOpenMemHandle((void **)&again, told.memory, cudaIpcMemLazyEnablePeerAccess));
  OK(cudaIpcOpenEventHandle(&filled, told.filled));
  OK(cudaIpcOpenEventHandle(&used, told.used));
  cudaPointerAttributes of;
  OK(cudaPointerGetAttributes(&of, x));
  printf("opened: type %d on GPU %d, %s\n", of.type, of.device, x == again ? "the same again" : "another");
  say("free", cudaFree(x));
  OK(cudaMalloc(&own, nbytes));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  fill<<<blocks, threads, 0, stream>>>(own, 23);
  OK(cudaStreamWaitEvent(stream, filled, 0));
  add<<<blocks, threads, 0, stream>>>(x, own);
  OK(cudaEventRecord(used, stream));
  if (write(to_first[1], "", 1) < 0 || read(to_other[0], &told, sizeof told) != sizeof told) exit(1);
  say("freed memory", cudaIpcOpenMemHandle((void **)&again, told.memory, cudaIpcMemLazyEnablePeerAccess));
  for (int k = 0; k < 3; k++) say("close", cudaIpcCloseMemHandle(x));
  add<<<1, 1, 0, stream>>>(own, x);
  say("closed memory", cudaStreamSynchronize(stream));
}

int main() {
  if (pipe(to_other) || pipe(to_first)) return 1;
  if (fork() == 0) return other(), 0;
  first();
  int status;
  wait(&status);
  return status;
}
