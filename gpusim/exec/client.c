/* What stands behind every function of the CUDA libraries in a program under `gpusim exec`: it sends the call to the
   simulator's process and does there what that process asks for until the answer comes. It knows nothing of CUDA.

   A thread has a connection of its own, made at its first call. wire.py is the other end and says what orders mean. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { RETURN, READ, WRITE, TEXT, MOVE, KEEP, CALL, SHARE, MAP, THREAD, SYMBOL, PRINT, ENVIRONMENT };
#if defined(__x86_64__)
enum { REGISTERS_HELD = 6 };             /* that pass integers, System V ABI */
#else
enum { REGISTERS_HELD = 8 };             /* AAPCS64 */
#endif
enum { STACK = 18, WORDS = REGISTERS_HELD + STACK };
enum { CALLS = 0, ORDERS = 1, CALLS_AGAIN = 2, NAME_BYTES = 64 };
enum { STAYS_SECONDS = 60 };              /* in case that the main thread waits for the one that stays */
enum { NOT_INITIALIZED = 3, UNKNOWN = 999 };
/* What a stub says of its function beside its number: it gives a text, or it only tells what the program holds. */
enum { GIVES_TEXT = 1 << 30, REGISTERS = 1 << 29, NUMBER = REGISTERS - 1, GOOD_BYE = NUMBER };

struct hello { uint32_t protocol, what; int32_t process, thread; uint64_t self; };
struct request { uint32_t function, unanswered; uint64_t words[WORDS]; };
struct order { uint32_t what, spare; uint64_t a, b, c, d, e, f; };

/* A program may close every file that it has, and get their numbers for others: a number alone says nothing. */
struct link { int socket; ino_t inode; };

static __thread struct link connection = {-1, 0};
static char server[NAME_BYTES];          /* where this process's simulator listens, once it has one */
static int left_to_parent, lost;
static struct link *open_connections;
static int open_count, open_room;
static struct request *registered;       /* what the program has told before its first call */
static int registered_count, registered_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t at_thread_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int is_open(struct link link) {
    struct stat found;
    return link.socket >= 0 && !fstat(link.socket, &found) && S_ISSOCK(found.st_mode) && found.st_ino == link.inode;
}

static int send_all(struct link link, const void *data, size_t bytes) {
    if (!is_open(link)) return -1;
    for (const char *at = data; bytes;) {
        ssize_t sent = send(link.socket, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return -1;
        at += sent, bytes -= sent;
    }
    return 0;
}

/* file: where a file that comes with the bytes is put. */
static int receive_all(struct link link, void *data, size_t bytes, int *file) {
    for (char *at = data; bytes;) {
        union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
        struct iovec place = {at, bytes};
        struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};
        if (file) message.msg_control = &control, message.msg_controllen = sizeof control;
        ssize_t got = recvmsg(link.socket, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        struct cmsghdr *header = file ? CMSG_FIRSTHDR(&message) : 0;
        if (header && header->cmsg_type == SCM_RIGHTS) memcpy(file, CMSG_DATA(header), sizeof(int));
        at += got, bytes -= got;
    }
    return 0;
}

static void forget(struct link link) {
    pthread_mutex_lock(&lock);
    for (int k = 0; k < open_count; k++)
        if (open_connections[k].inode == link.inode) open_connections[k--] = open_connections[--open_count];
    pthread_mutex_unlock(&lock);
    if (is_open(link)) close(link.socket);
}

static void thread_ends(void *its_connection) {
    forget(*(struct link *)its_connection);
    connection.socket = -1;
}

/* What a parent has begun cannot be used in its child, as on hardware; a child of a parent without CUDA begins anew. */
static void child_begins(void) {
    pthread_mutex_init(&lock, 0);
    left_to_parent |= server[0] != 0;
    for (int k = 0; k < open_count; k++)
        if (is_open(open_connections[k])) close(open_connections[k].socket);
    open_count = 0;
    connection.socket = -1;
    pthread_setspecific(at_thread_end, 0);
}

static void begin(void) {
    pthread_key_create(&at_thread_end, thread_ends);
    pthread_atfork(0, 0, child_begins);
}

/* Who listens may have functions of this process called, so it has to be this user's. */
static struct link connect_to(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct link none = {-1, 0};
    struct ucred its;
    struct stat found;
    size_t length = strlen(name);
    socklen_t room = sizeof its;
    if (!length || length >= NAME_BYTES) return none;
    memcpy(address.sun_path + 1, name, length);  /* the abstract namespace: no file anywhere */
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return none;
    if (connect(made, (void *)&address, offsetof(struct sockaddr_un, sun_path) + 1 + length) || fstat(made, &found) ||
        getsockopt(made, SOL_SOCKET, SO_PEERCRED, &its, &room) || its.uid != getuid()) {
        close(made);
        return none;
    }
    return (struct link){made, found.st_ino};
}

/* A connection to this process's simulator, which the first one brings into being. */
static struct link connect_once(uint32_t what) {
    pthread_once(&once, begin);
    struct hello hello = {GPUSIM_PROTOCOL, what, getpid(), gettid(), (uint64_t)pthread_self()};
    pthread_mutex_lock(&lock);
    const char *asked = getenv("GPUSIM_EXEC");
    int first = !server[0];
    struct link made = connect_to(first ? (asked ? asked : "") : server);
    int failed = made.socket < 0 || send_all(made, &hello, sizeof hello);
    if (!failed && first) {
        failed = receive_all(made, server, NAME_BYTES, 0) ||
                 send_all(made, registered, registered_count * sizeof *registered);
        registered_count = 0;
    }
    if (!failed && open_count == open_room)
        open_connections = realloc(open_connections, (open_room = 2 * open_room + 8) * sizeof *open_connections);
    if (!failed)
        open_connections[open_count++] = made;
    else if (made.socket >= 0)
        close(made.socket), made.socket = -1;
    pthread_mutex_unlock(&lock);
    return made;
}

/* Make pages of this process shared memory at the same place, with the same contents. */
static void share(const struct order *order, int file) {
    char *start = (char *)order->a;
    for (size_t done = 0; done < order->b;) {
        ssize_t wrote = pwrite(file, start + done, order->b - done, done);
        if (wrote <= 0) return;
        done += wrote;
    }
    mmap(start, order->b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
}

/* What kernels print goes where the program's own text does, in order with it. */
static int print(struct link link, uint64_t bytes) {
    char text[512];
    for (uint64_t size; bytes; bytes -= size) {
        size = bytes < sizeof text ? bytes : sizeof text;
        if (receive_all(link, text, size, 0)) return -1;
        fwrite(text, 1, size, stdout);
    }
    fflush(stdout);
    return 0;
}

static void *serve_orders(void *);

/* The thread takes no signals: the program's handlers run where they would without it. */
static void start_thread(void) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_create(&thread, 0, serve_orders, 0)) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

/* Python raises KeyboardInterrupt behind a call of its main thread that succeeds. It is told to here, since the answer to
   the call may be there before the signal that its handler waits for. False where it would not raise it. */
static int python_interrupted(void) {
    struct sigaction handler;
    void (*interrupt)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "PyErr_SetInterrupt"); /* needs no lock of Python's */
    if (!interrupt || gettid() != getpid() || sigaction(SIGINT, 0, &handler)) return 0;
    if (handler.sa_handler == SIG_DFL || handler.sa_handler == SIG_IGN) return 0;
    interrupt();
    return 1;
}

/* Do what the simulator asks for until it returns; -1 if it is gone. */
static int obey(struct link link, uint64_t *value) {
    for (;;) {
        struct order order;
        int file = -1;
        uint64_t answer = 0;
        const void *data = &answer;
        size_t bytes = 0;
        if (receive_all(link, &order, sizeof order, &file)) return -1;
        switch (order.what) {
        case RETURN: *value = order.b && python_interrupted() ? 0 : order.a; return 0; /* b: an interrupt has ended it */
        case READ: data = (void *)order.a, bytes = order.b; break;
        case WRITE:
            if (receive_all(link, (void *)order.a, order.b, 0)) return -1;
            break;
        case TEXT:
            answer = strlen((char *)order.a);
            if (send_all(link, &answer, sizeof answer)) return -1;
            data = (void *)order.a, bytes = answer;
            break;
        case ENVIRONMENT:                /* with its end; nothing if there is none */
            data = getenv((char *)order.a);
            answer = data ? strlen(data) + 1 : 0;
            if (send_all(link, &answer, sizeof answer)) return -1;
            bytes = answer;
            break;
        case MOVE:
            for (uint64_t row = 0; row < order.d; row++)
                memmove((char *)order.a + row * order.e, (char *)order.b + row * order.f, order.c);
            break;
        case KEEP:
            answer = (uint64_t)malloc(order.a), bytes = sizeof answer;
            break;
        case CALL:
            answer = ((uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))order.a)(order.b, order.c, order.d,
                                                                                             order.e, order.f);
            bytes = sizeof answer;
            break;
        case SHARE: share(&order, file); break;
        case MAP:
            answer = order.a == (uint64_t)mmap((void *)order.a, order.b, PROT_READ | PROT_WRITE,
                                               MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
            bytes = sizeof answer;
            break;
        case THREAD: start_thread(); break;
        case SYMBOL:
            answer = (uint64_t)dlsym(RTLD_DEFAULT, (char *)order.a), bytes = sizeof answer;
            break;
        case PRINT:
            if (print(link, order.a)) return -1;
            break;
        default: return -1;
        }
        if (file >= 0) close(file);
        if (bytes && send_all(link, data, bytes)) return -1;
    }
}

/* A thread on which the simulator calls functions of the program's that streams have to call. */
static void *serve_orders(void *unused) {
    uint64_t value;
    struct link link = connect_once(ORDERS);
    if (link.socket >= 0) {
        obey(link, &value);
        forget(link);
    }
    return unused;
}

/* A program's start tells what it holds, whether or not it will use the device: kept until it does. */
static int keep_registration(const struct request *request) {
    pthread_mutex_lock(&lock);
    int kept = !server[0];
    if (kept) {
        if (registered_count == registered_room)
            registered = realloc(registered, (registered_room = 2 * registered_room + 64) * sizeof *registered);
        registered[registered_count] = *request;
        registered[registered_count++].unanswered = 1;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

/* Every function of every library comes here, from the stubs, with what it was called with. */
__attribute__((visibility("default"))) uint64_t gpusim_call(uint32_t function, const uint64_t *registers,
                                                           const uint64_t *stack) {
    struct request request = {function & NUMBER, 0, {0}};
    int before = errno;
    uint64_t value = 0;
    if (left_to_parent) return function & GIVES_TEXT ? (uint64_t)"initialization error" : NOT_INITIALIZED;
    memcpy(request.words, registers, REGISTERS_HELD * sizeof(uint64_t));
    memcpy(request.words + REGISTERS_HELD, stack, STACK * sizeof(uint64_t));
    if (function & REGISTERS && keep_registration(&request)) return request.words[0];
    if (!lost && !is_open(connection)) {
        connection = connect_once(connection.socket < 0 ? CALLS : CALLS_AGAIN);
        if (connection.socket >= 0) pthread_setspecific(at_thread_end, &connection);
    }
    if (connection.socket < 0 || send_all(connection, &request, sizeof request) || obey(connection, &value)) {
        if (!__atomic_exchange_n(&lost, 1, __ATOMIC_SEQ_CST))
            fprintf(stderr, "gpusim: the simulator's process is gone: no CUDA function works in process %d any more\n",
                    (int)getpid());
        return function & GIVES_TEXT ? (uint64_t)"the simulator's process is gone" : UNKNOWN;
    }
    errno = before;
    return value;
}

/* Python before 3.14 ends a thread that asks for its lock while the interpreter ends, by pthread_exit. That unwinds the
   thread, and a C++ function on the way that may throw nothing aborts the whole process. PyTorch's threads get there when
   they drop a failed backward()'s exception behind the main thread, with any GPU, if there is no core for them; the
   simulator takes one. So the thread stays where it is, as with Python 3.14, until the main one has ended the process. */
__attribute__((visibility("default"), noreturn)) void pthread_exit(void *value) {
    int (*ending)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    void (*go_on)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "pthread_exit");
    Dl_info caller, python;
    if (!ending) ending = (int (*)(void))dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");  /* before 3.13 */
    if (ending && gettid() != getpid() && dladdr(__builtin_return_address(0), &caller) && dladdr(ending, &python) &&
        caller.dli_fbase == python.dli_fbase && ending())
        sleep(STAYS_SECONDS);
    go_on(value);
    abort();
}

/* A program that ends by itself lets its streams do what it has not waited for. */
__attribute__((destructor)) static void program_ends(void) {
    uint64_t nothing[WORDS] = {0};
    if (server[0] && !lost) gpusim_call(GOOD_BYE, nothing, nothing);
}
