// Threads that ask for Python's lock when its program is at its end, in functions that may throw nothing.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

extern "C" int PyGILState_Ensure();
extern "C" void PyGILState_Release(int);

static std::atomic<bool> asks, had;

static void wait_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

static void have_lock() noexcept {
    asks = true;
    int state = PyGILState_Ensure();
    had = true;
    PyGILState_Release(state);
}

// A thread that asks so much later.
extern "C" void ask_after(int milliseconds) {
    std::thread([=] { wait_for(milliseconds), have_lock(); }).detach();
}

// A thread that has asked in vain for longer than Python lets a thread wait, when this returns to it with the lock.
extern "C" void ask_in_vain() {
    ask_after(0);
    while (!asks) wait_for(1);
    wait_for(200);
}

__attribute__((destructor)) static void process_ends() { puts(had ? "had it" : "did not"); }
