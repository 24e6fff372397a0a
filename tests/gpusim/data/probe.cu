// What tests of `gpusim exec` run: one executable, whose first argument says what it does. It ends with status 0 and
// PASS where the work is right. Linked with the shared runtime library.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int *x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += value;
}
__global__ void forever(volatile int *x) {
    while (*x >= 0) *x = (*x + 1) & 0xffff;  // a spin on what nobody writes would be found
}
__global__ void speak() {
    if (threadIdx.x == 0) printf("kernel\n");
}

static bool refused_by_design;  // in a child, where nothing works and nobody wonders
static int wrong(const char *what, int a, int b = 0, int c = 0) {
    if (!refused_by_design) fprintf(stderr, what, a, b, c);
    return 0;
}
// A thousand numbers through copies, a launch and back; 1 if they are right.
static int works(int value) {
    const int n = 1000;
    int host[n] = {0}, *device = 0;
    cudaMalloc(&device, sizeof host);
    cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
    add<<<(n + 127) / 128, 128>>>(device, n, value);
    cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(device);
    for (int i = 0; i < n; i++)
        if (host[i] != value) return wrong("host[%d] is %d, not %d\n", i, host[i], value);
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess || wrong("the last error: %d\n", error);
}
static int verdict(int right) {
    puts(right ? "PASS" : "FAIL");
    return !right;
}
static void *in_thread(void *value) { return (void *)(size_t)works((int)(size_t)value); }

static int threads(int count, size_t stack) {
    pthread_t made[64];
    pthread_attr_t with;
    void *right;
    int all = 1;
    pthread_attr_init(&with);
    if (stack) pthread_attr_setstacksize(&with, stack);
    for (int k = 0; k < count; k++) pthread_create(&made[k], &with, in_thread, (void *)(size_t)(k + 1));
    for (int k = 0; k < count; k++) pthread_join(made[k], &right), all &= right != 0;
    return verdict(all);
}
static int in_child(int (*what)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int status = what();
        fflush(stdout);
        _exit(status);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static int child_works(void) { return works(5) ? 0 : 1; }
static int child_is_refused(void) {
    refused_by_design = true;
    int *x, refused = cudaMalloc(&x, 4) == cudaErrorInitializationError && !works(5);
    return refused && !strcmp(cudaGetErrorString(cudaErrorInitializationError), "initialization error") ? 0 : 1;
}
static int deep(int frames) {
    volatile char room[1024];
    room[0] = (char)frames;
    return frames ? deep(frames - 1) + room[0] * 0 : works(3);
}
// The numbers of closed files are given to new ones, which must not be written to.
static int close_all(void) {
    int right = works(1);
    cudaMemset(0, 0, 16);  // an error that this thread has still to be told
    for (int file = 3; file < 256; file++) close(file);
    char name[] = "victimXXXXXX", byte;
    int victims[8];
    victims[0] = mkstemp(name);
    unlink(name);
    for (int k = 1; k < 8; k++) victims[k] = dup(victims[0]);
    right &= cudaGetLastError() == cudaErrorInvalidValue && works(2);
    right &= pread(victims[0], &byte, 1, 0) == 0;
    return verdict(right && in_child(child_is_refused) == 0 && fcntl(victims[7], F_GETFD) >= 0);
}
static int open_libraries(void) {
    int count = 0, total = 0;
    for (const char *name : {"libcuda.so.1", "libcuda.so", "libcudart.so.13", "libcudart.so"}) {
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        bool driver = strstr(name, "libcuda.") != 0;
        auto init = (int (*)(unsigned))(library && driver ? dlsym(library, "cuInit") : 0);
        if (init && init(0)) return verdict(0);
        auto ask = (int (*)(int *))(library ? dlsym(library, driver ? "cuDeviceGetCount" : "cudaGetDeviceCount") : 0);
        if (!ask || ask(&count)) return printf("%s\n", name), verdict(0);
        total += count;
    }
    return verdict(total == 4);
}
static int run_forever(void) {
    int *x;
    cudaMalloc(&x, 4);
    cudaMemset(x, 0, 4);
    forever<<<1, 32>>>(x);
    return cudaDeviceSynchronize();
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    int number = count > 2 ? atoi(words[2]) : 0;
    if (!strcmp(what, "works")) return verdict(works(7));
    if (!strcmp(what, "threads")) return threads(number, 0);
    if (!strcmp(what, "small-stack")) return threads(2, 16384);
    if (!strcmp(what, "deep-stack")) return verdict(deep(6000));
    if (!strcmp(what, "fork-before")) return verdict(in_child(child_works) == 0 && works(1));
    if (!strcmp(what, "fork-after")) return verdict(works(1) && in_child(child_is_refused) == 0 && works(2));
    if (!strcmp(what, "close-all")) return close_all();
    if (!strcmp(what, "open")) return open_libraries();
    if (!strcmp(what, "exit")) return cudaFree(0), number;
    if (!strcmp(what, "raise")) return cudaFree(0), raise(number);
    if (!strcmp(what, "count")) {
        int devices = 0;
        cudaError_t error = cudaGetDeviceCount(&devices);
        return printf("%d %s\n", devices, cudaGetErrorName(error)), error != cudaSuccess;
    }
    if (!strcmp(what, "print")) {
        puts("before");
        speak<<<2, 32>>>();
        cudaDeviceSynchronize();
        return puts("after"), 0;
    }
    if (!strcmp(what, "forever")) return puts("running"), fflush(stdout), run_forever();
    return fprintf(stderr, "what is %s?\n", what), 2;
}
