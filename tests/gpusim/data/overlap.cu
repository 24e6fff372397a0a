// Streams of a program under `gpusim exec`: what overlaps, what waits, and what goes on by itself. Prints times in us.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>
#include <cuda_runtime.h>

static void check(cudaError_t code, const char *call) {
  if (code != cudaSuccess) { printf("%s: %s\n", call, cudaGetErrorName(code)); exit(1); }
}
#define OK(call) check(call, #call)

__global__ void chain(const float *x, float *y, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = x[i];
  for (int k = 0; k < rounds; k++) value = value * 0.5f + 1;
  y[i] = value;
}

__global__ void add(int *x, int value) { x[blockIdx.x * blockDim.x + threadIdx.x] += value; }
__global__ void wait_for(volatile int *flag, int *seen) { while (!*flag) { } *seen = *flag; }
__global__ void put(volatile int *flag, int value) { *flag = value; }
__global__ void fault(int *x) { x[1 << 28] = 1; }

static const int threads = 128, rounds = 20000;
static cudaStream_t streams[4];
static cudaEvent_t first, last;
static float *x, *y;
static int *ints;

static float us() {
  float ms;
  OK(cudaEventSynchronize(last));
  OK(cudaEventElapsedTime(&ms, first, last));
  return 1000 * ms;
}

// All streams begin behind the first event, and the last one comes behind all of them.
static void begin(int count) {
  OK(cudaEventRecord(first, streams[0]));
  for (int k = 1; k < count; k++) OK(cudaStreamWaitEvent(streams[k], first, 0));
}

static void end(int count) {
  cudaEvent_t done;
  OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  for (int k = 1; k < count; k++) {
    OK(cudaEventRecord(done, streams[k]));
    OK(cudaStreamWaitEvent(streams[0], done, 0));
  }
  OK(cudaEventRecord(last, streams[0]));
}

static void kernels(int count) {
  begin(count);
  for (int k = 0; k < 2; k++) chain<<<1, threads, 0, streams[k % count]>>>(x, y + k * threads, rounds);
  end(count);
}

static void pipeline(int count, float *in, float *out) {
  const int chunks = 4, size = 1 << 18;
  begin(count);
  for (int k = 0; k < chunks; k++) {
    cudaStream_t stream = streams[k % count];
    OK(cudaMemcpyAsync(x + k * size, in + k * size, 4 * size, cudaMemcpyHostToDevice, stream));
    chain<<<size / threads, threads, 0, stream>>>(x + k * size, y + k * size, 20);
    OK(cudaMemcpyAsync(out + k * size, y + k * size, 4 * size, cudaMemcpyDeviceToHost, stream));
  }
  end(count);
}

static void overlap() {
  const int n = 1 << 20;
  float *in, *out;
  OK(cudaMallocHost(&in, 4 * n));
  OK(cudaMallocHost(&out, 4 * n));
  for (int i = 0; i < n; i++) in[i] = i % 100;
  for (int count = 1; count <= 2; count++) kernels(count), printf("kernels %d %.3f\n", count, us());
  for (int count = 1; count <= 4; count *= 4) {
    memset(out, 0, 4 * n);
    pipeline(count, in, out);
    printf("pipeline %d %.3f\n", count, us());
    for (int i = 0; i < n; i++) {
      float value = i % 100;
      for (int k = 0; k < 20; k++) value = value * 0.5f + 1;
      if (value != out[i]) { printf("wrong at %d\n", i); return; }
    }
  }
  cudaGraph_t graph;
  cudaGraphExec_t made;
  OK(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeGlobal));
  for (int k = 0; k < 2; k++) chain<<<1, threads, 0, streams[1]>>>(x, y, rounds / 2);
  OK(cudaStreamEndCapture(streams[1], &graph));
  OK(cudaGraphInstantiate(&made, graph, 0));
  begin(1), chain<<<1, threads, 0, streams[0]>>>(x, y + threads, rounds), end(1);
  printf("stream %.3f\n", us());
  begin(1), OK(cudaGraphLaunch(made, streams[0])), end(1);
  printf("graph %.3f\n", us());
  begin(2);
  chain<<<1, threads, 0, streams[0]>>>(x, y + threads, rounds);
  OK(cudaGraphLaunch(made, streams[1]));
  end(2);
  printf("both %.3f\n", us());
}

static void note(void *there) { *(int *)there = *(int *)there * 10 + 1; }

// A function between kernels sees what the first one has done, and the second one what it has.
static void between() {
  int *mapped;
  OK(cudaMallocHost(&mapped, 4));
  *mapped = 1;
  add<<<1, 1, 0, streams[0]>>>(mapped, 1);
  OK(cudaLaunchHostFunc(streams[0], note, mapped));
  add<<<1, 1, 0, streams[0]>>>(mapped, 3);
  OK(cudaStreamSynchronize(streams[0]));
  printf("between %d\n", *mapped);
}

static std::atomic<int> called(0);
static void release(void *) { called = 1; }
static void block(void *) { while (!called) usleep(1000); }

// The program calls nothing while it waits for a function, for memory that a kernel writes, and for a copy.
static void idle() {
  volatile int *mapped;
  static volatile int plain;
  OK(cudaMallocHost((void **)&mapped, 4));
  *mapped = 0;
  OK(cudaMemsetAsync(ints, 0, 4, streams[0]));
  OK(cudaLaunchHostFunc(streams[0], release, 0));
  add<<<1, 1, 0, streams[1]>>>((int *)mapped, 7);
  add<<<1, 1, 0, streams[0]>>>(ints, 9);
  OK(cudaHostRegister((void *)&plain, 4, 0));
  called = 0, plain = 0;
  OK(cudaLaunchHostFunc(streams[0], release, 0));
  add<<<1, 1, 0, streams[1]>>>((int *)mapped, 7);
  OK(cudaMemcpyAsync((void *)&plain, ints, 4, cudaMemcpyDeviceToHost, streams[0]));
  while (!called || *mapped != 14 || plain != 9) usleep(1000);
  printf("idle %d %d\n", *mapped, plain);
}

// A function that another thread of the program has to let on.
static void blocked() {
  called = 0;
  std::thread other([] { usleep(300000), called = 1; });
  OK(cudaLaunchHostFunc(streams[0], block, 0));
  add<<<1, 1, 0, streams[0]>>>(ints, 1);
  OK(cudaStreamSynchronize(streams[0]));
  other.join();
  printf("blocked\n");
}

// Pageable memory may be used again when the call returns.
static void pageable() {
  const int n = 1 << 14;
  int *host = (int *)malloc(4 * n), *there, wrong = 0;
  OK(cudaMalloc(&there, 4 * n));
  for (int i = 0; i < n; i++) host[i] = i;
  OK(cudaMemcpyAsync(there, host, 4 * n, cudaMemcpyHostToDevice, streams[0]));
  memset(host, 0, 4 * n);
  add<<<n / threads, threads, 0, streams[0]>>>(there, 1);
  OK(cudaMemcpyAsync(host, there, 4 * n, cudaMemcpyDeviceToHost, streams[0]));
  for (int i = 0; i < n; i++) wrong += host[i] != i + 1;
  printf("pageable %d\n", wrong);
}

static void flag() {
  int host[2] = {0, 0};
  OK(cudaMemset(ints, 0, 8));
  wait_for<<<1, 1, 0, streams[0]>>>(ints, ints + 1);
  put<<<1, 1, 0, streams[1]>>>(ints, 5);
  OK(cudaMemcpy(host, ints, 8, cudaMemcpyDeviceToHost));
  printf("flag %d\n", host[1]);
}

// Asks until it is done.
static void query() {
  int asked = 0;
  cudaError_t code;
  chain<<<1, threads, 0, streams[0]>>>(x, y, rounds);
  OK(cudaEventRecord(first, streams[0]));
  while ((code = cudaEventQuery(first)) == cudaErrorNotReady) asked++;
  OK(code);
  chain<<<1, threads, 0, streams[0]>>>(x, y, rounds);
  while ((code = cudaStreamQuery(streams[0])) == cudaErrorNotReady) asked++;
  OK(code);
  printf("query %s\n", asked > 10 ? "waited" : "at once");
}

// A fault is told by whoever waits, and by all that come behind; what has not begun does not.
static void faults() {
  volatile int *mapped;
  OK(cudaMallocHost((void **)&mapped, 4));
  *mapped = 0;
  chain<<<1, threads, 0, streams[1]>>>(x, y, rounds);
  fault<<<1, 1, 0, streams[0]>>>(ints);
  add<<<1, 1, 0, streams[0]>>>((int *)mapped, 1);
  printf("faults %s", cudaGetErrorName(cudaGetLastError()));
  printf(" %s", cudaGetErrorName(cudaStreamSynchronize(streams[0])));
  printf(" %s %d\n", cudaGetErrorName(cudaStreamQuery(streams[1])), *mapped);
}

// Three kernels that fill the GPU, and one of a stream that comes before others: which of them ends first?
static void priority() {
  const int blocks = 2048;
  cudaStream_t low, high;
  cudaEvent_t ends[2];
  OK(cudaStreamCreateWithPriority(&low, 0, 0));
  OK(cudaStreamCreateWithPriority(&high, 0, -5));
  for (auto &each : ends) OK(cudaEventCreate(&each));
  for (int k = 0; k < 2; k++) chain<<<blocks, threads, 0, streams[k]>>>(x, y, 20);
  chain<<<blocks, threads, 0, low>>>(x, y, 20);
  OK(cudaEventRecord(ends[0], low));
  chain<<<blocks, threads, 0, high>>>(x, y, 20);
  OK(cudaEventRecord(ends[1], high));
  OK(cudaDeviceSynchronize());
  float ms;
  OK(cudaEventElapsedTime(&ms, ends[0], ends[1]));
  printf("priority %s\n", ms < 0 ? "high" : "low");
}

// Each lets the next one begin and waits for the one before.
__global__ void dependent(int *x, int rounds) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int k = 0; k < rounds; k++) atomicAdd(x + threadIdx.x, 1);
}

static void early() {
  int sum[threads];
  for (int early = 0; early < 2; early++) {
    cudaLaunchAttribute attribute = {cudaLaunchAttributeProgrammaticStreamSerialization};
    attribute.val.programmaticStreamSerializationAllowed = early;
    cudaLaunchConfig_t config = {dim3(1), dim3(threads), 0, streams[0], &attribute, 1};
    OK(cudaMemset(ints, 0, sizeof sum));
    begin(1);
    for (int k = 0; k < 8; k++) OK(cudaLaunchKernelEx(&config, dependent, ints, 1000));
    end(1);
    float time = us();
    OK(cudaMemcpy(sum, ints, sizeof sum, cudaMemcpyDeviceToHost));
    printf("early %.3f %d\n", time, sum[threads - 1]);
  }
}

// A kernel that has no end, in a stream: the program calls nothing.
static void forever() {
  wait_for<<<1, 1, 0, streams[0]>>>(ints, ints + 1);
  printf("running\n");
  fflush(stdout);
  sleep(100);
}

// Nobody waits for it, but at the program's end it is done.
static void unwaited() {
  add<<<1, 1, 0, streams[0]>>>(ints, 1);
  printf("unwaited\n");
}

int main(int count, char **words) {
  for (int k = 0; k < 4; k++) OK(cudaStreamCreate(&streams[k]));
  OK(cudaEventCreate(&first));
  OK(cudaEventCreate(&last));
  OK(cudaMalloc(&x, 4 << 20));
  OK(cudaMalloc(&y, 4 << 20));
  OK(cudaMalloc(&ints, 4 * threads));
  OK(cudaMemset(x, 0, 4 << 20));
  OK(cudaMemset(ints, 0, 4 * threads));
  struct { const char *name; void (*run)(); } parts[] = {
      {"overlap", overlap}, {"between", between}, {"idle", idle}, {"blocked", blocked}, {"pageable", pageable},
      {"flag", flag}, {"query", query}, {"priority", priority}, {"forever", forever}, {"unwaited", unwaited}, {"faults", faults},
      {"early", early}};
  for (int k = 1; k < count; k++)
    for (auto &part : parts)
      if (!strcmp(part.name, words[k])) part.run();
  fflush(stdout);
  return 0;
}
