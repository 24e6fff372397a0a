// What streams do beside the default stream, graphs' branches beside each other, and memory in the order of streams, under
// `gpusim exec`. Prints times in us.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <cuda.h>
#include <cuda_runtime.h>

static void check(int code, const char *call) {
  if (code) { printf("%s: %d\n", call, code); exit(1); }
}
#define OK(call) check(call, #call)

__global__ void chain(const float *x, float *y, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  for (int k = 0; k < rounds; k++) value = value * 0.5f + 1;
  y[i] = value;
}

__global__ void add(int *x, int value) { x[threadIdx.x] += value; }

static const int threads = 128, rounds = 10000;
static float *x, *y;
static int *ints;

static float us(cudaEvent_t first, cudaEvent_t last) {
  float ms;
  OK(cudaEventSynchronize(last));
  OK(cudaEventElapsedTime(&ms, first, last));
  return 1000 * ms;
}

static void run(cudaStream_t stream) { chain<<<1, threads, 0, stream>>>(x, y, rounds); }

// A kernel in each of two streams: the time from before the first one to the end of both.
static float both(cudaStream_t one, cudaStream_t other) {
  cudaEvent_t first, ends[2];
  OK(cudaEventCreate(&first));
  for (auto &each : ends) OK(cudaEventCreate(&each));
  OK(cudaDeviceSynchronize());
  OK(cudaEventRecord(first, one));
  run(one);
  run(other);
  OK(cudaEventRecord(ends[0], one));
  OK(cudaEventRecord(ends[1], other));
  float times[2] = {us(first, ends[0]), us(first, ends[1])};
  return times[0] > times[1] ? times[0] : times[1];
}

static void defaults() {
  cudaStream_t waits, free;
  OK(cudaStreamCreate(&waits));
  run(waits);  // warms the caches
  printf("waits, default %.3f\n", both(waits, 0));
  printf("waits, legacy %.3f\n", both(waits, cudaStreamLegacy));
  OK(cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking));
  struct { const char *name; cudaStream_t stream; } others[] = {
      {"default", 0}, {"legacy", cudaStreamLegacy}, {"thread", cudaStreamPerThread}, {"waits", waits}};
  for (auto &each : others) {
    printf("%s, free %.3f\n", each.name, both(each.stream, free));
    printf("free, %s %.3f\n", each.name, both(free, each.stream));
  }
  printf("legacy, thread %.3f\n", both(cudaStreamLegacy, cudaStreamPerThread));
  printf("thread, legacy %.3f\n", both(cudaStreamPerThread, cudaStreamLegacy));
  printf("thread, waits %.3f\n", both(cudaStreamPerThread, waits));
  // A copy that waits is done when it returns, whatever a stream beside it does.
  int host[2] = {-1, -1};
  OK(cudaMemset(ints, 0, 8));
  run(free), run(free), run(free);
  add<<<1, 1, 0, waits>>>(ints, 5);
  add<<<1, 1, 0, cudaStreamLegacy>>>(ints + 1, 7);
  OK(cudaMemcpyAsync(host, ints, 8, cudaMemcpyDeviceToHost, cudaStreamLegacy));
  OK(cudaStreamSynchronize(cudaStreamLegacy));
  printf("copied %d %d %s\n", host[0], host[1], cudaGetErrorName(cudaStreamQuery(free)));
}

int main(int count, char **words) {
  OK(cudaMalloc(&x, 4 << 20));
  OK(cudaMalloc(&y, 4 << 20));
  OK(cudaMalloc(&ints, 4 * threads));
  OK(cudaMemset(x, 0, 4 << 20));
  OK(cudaMemset(ints, 0, 4 * threads));
  struct { const char *name; void (*run)(); } parts[] = {{"defaults", defaults}};
  for (int k = 1; k < count; k++)
    for (auto &part : parts)
      if (!strcmp(part.name, words[k])) part.run();
  fflush(stdout);
  return 0;
}
