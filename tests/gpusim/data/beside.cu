// What streams do beside the default stream, graphs' branches beside each other, and memory in the order of streams, under
// `gpusim exec`. Prints times in us.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>
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

// --- graphs ---------------------------------------------------------------------------------------------------------

static cudaGraphNode_t kernel(cudaGraph_t graph, std::initializer_list<cudaGraphNode_t> after, void *function, void **values) {
  cudaKernelNodeParams parameters = {function, dim3(1), dim3(threads), 0, values, 0};
  cudaGraphNode_t node;
  OK(cudaGraphAddKernelNode(&node, graph, after.begin(), after.size(), &parameters));
  return node;
}

static cudaGraphExec_t made(cudaGraph_t graph) {
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}

static float launched(cudaGraphExec_t graph, cudaStream_t stream) {
  cudaEvent_t first, last;
  OK(cudaEventCreate(&first));
  OK(cudaEventCreate(&last));
  OK(cudaEventRecord(first, stream));
  OK(cudaGraphLaunch(graph, stream));
  OK(cudaEventRecord(last, stream));
  return us(first, last);
}

// Six kernels of one block: a root, four and one that waits for them; in line, beside each other, and in a graph inside
// another.
static void graphs() {
  cudaStream_t stream;
  cudaGraph_t line, fork, outer;
  cudaGraphNode_t nodes[6], inside;
  void *pointers[] = {x, y};
  int count = rounds;
  void *values[] = {&pointers[0], &pointers[1], &count};
  OK(cudaStreamCreate(&stream));
  OK(cudaGraphCreate(&line, 0));
  OK(cudaGraphCreate(&fork, 0));
  OK(cudaGraphCreate(&outer, 0));
  for (int k = 0; k < 6; k++) nodes[k] = k ? kernel(line, {nodes[k - 1]}, (void *)chain, values) : kernel(line, {}, (void *)chain, values);
  nodes[0] = kernel(fork, {}, (void *)chain, values);
  for (int k = 1; k < 5; k++) nodes[k] = kernel(fork, {nodes[0]}, (void *)chain, values);
  nodes[5] = kernel(fork, {nodes[1], nodes[2], nodes[3], nodes[4]}, (void *)chain, values);
  OK(cudaGraphAddChildGraphNode(&inside, outer, 0, 0, fork));
  kernel(outer, {inside}, (void *)chain, values);
  kernel(outer, {}, (void *)chain, values);
  cudaGraphExec_t all[] = {made(line), made(fork), made(outer)};
  launched(all[0], stream);  // warms the caches
  cudaGraph_t one;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  run(stream);
  OK(cudaStreamEndCapture(stream, &one));
  printf("one %.3f\n", launched(made(one), stream));
  cudaEvent_t first, last;
  OK(cudaEventCreate(&first));
  OK(cudaEventCreate(&last));
  OK(cudaEventRecord(first, stream));
  for (int k = 0; k < 6; k++) run(stream);
  OK(cudaEventRecord(last, stream));
  printf("stream %.3f\n", us(first, last));
  printf("line %.3f\n", launched(all[0], stream));
  printf("fork %.3f\n", launched(all[1], stream));
  printf("fork, default %.3f\n", launched(all[1], 0));
  printf("inside %.3f\n", launched(all[2], stream));
}

static void fill(void *there) { for (int k = 0; k < threads; k++) ((int *)there)[k] = k + 1; }

// A function of the host fills pageable memory, which is copied to the device while a branch beside sets memory there; a
// graph inside adds to both; what comes out is copied back. Launched in two streams, one run comes after the other.
static void nodes() {
  static int in[threads], out[2 * threads];
  int *sums, *set, one = 1, wrong = 0;
  cudaStream_t streams[2];
  cudaEvent_t between;
  OK(cudaMalloc(&sums, 8 * threads));
  set = sums + threads;
  for (auto &each : streams) OK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  OK(cudaEventCreate(&between));
  cudaGraph_t graph, inner;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphCreate(&inner, 0));
  cudaHostNodeParams function = {fill, in};
  cudaMemsetParams zeros = {set, 0, 7, 4, threads, 1};
  cudaGraphNode_t filled, copied, zeroed, added, event, back;
  OK(cudaGraphAddHostNode(&filled, graph, 0, 0, &function));
  OK(cudaGraphAddMemcpyNode1D(&copied, graph, &filled, 1, sums, in, 4 * threads, cudaMemcpyHostToDevice));
  OK(cudaGraphAddMemsetNode(&zeroed, graph, 0, 0, &zeros));
  for (int *each : {sums, set}) {
    void *values[] = {&each, &one};
    kernel(inner, {}, (void *)add, values);
  }
  cudaGraphNode_t both[] = {copied, zeroed};
  OK(cudaGraphAddChildGraphNode(&added, graph, both, 2, inner));
  OK(cudaGraphAddEventRecordNode(&event, graph, &added, 1, between));
  OK(cudaGraphAddMemcpyNode1D(&back, graph, &event, 1, out, sums, 8 * threads, cudaMemcpyDeviceToHost));
  cudaGraphExec_t executable = made(graph);
  for (int k = 0; k < 4; k++) OK(cudaGraphLaunch(executable, streams[k % 2]));
  OK(cudaDeviceSynchronize());
  OK(cudaEventQuery(between));
  for (int k = 0; k < threads; k++) wrong += out[k] != k + 2 || out[threads + k] != 8;
  printf("nodes %d\n", wrong);
}

// --- memory in the order of streams ---------------------------------------------------------------------------------

// Memory that a stream allocates, uses and frees while another one computes.
static void ordered() {
  cudaStream_t stream, other;
  cudaMemPool_t pool;
  int *there, *host, *again;
  unsigned long long used[2];
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  OK(cudaMallocHost(&host, 4 * threads));
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  for (int k = 0; k < 4; k++) run(other);
  OK(cudaMallocAsync(&there, 4 * threads, stream));
  OK(cudaMemsetAsync(there, 0, 4 * threads, stream));
  add<<<1, threads, 0, stream>>>(there, 5);
  OK(cudaMemcpyAsync(host, there, 4 * threads, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(there, stream));
  cudaError_t twice = cudaFreeAsync(there, stream);
  OK(cudaMallocAsync(&again, 4 * threads, stream));
  OK(cudaStreamSynchronize(stream));
  printf("ordered %d %s %s", host[threads - 1], cudaGetErrorName(twice), cudaGetErrorName(cudaStreamQuery(other)));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used[0]));
  OK(cudaFreeAsync(again, other));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used[1]));
  printf(" %llu %llu\n", used[0], used[1]);
}

int main(int count, char **words) {
  OK(cudaMalloc(&x, 4 << 20));
  OK(cudaMalloc(&y, 4 << 20));
  OK(cudaMalloc(&ints, 4 * threads));
  OK(cudaMemset(x, 0, 4 << 20));
  OK(cudaMemset(ints, 0, 4 * threads));
  struct { const char *name; void (*run)(); } parts[] = {{"defaults", defaults}, {"graphs", graphs}, {"nodes", nodes},
                                                  {"ordered", ordered}};
  for (int k = 1; k < count; k++)
    for (auto &part : parts)
      if (!strcmp(part.name, words[k])) part.run();
  fflush(stdout);
  return 0;
}
