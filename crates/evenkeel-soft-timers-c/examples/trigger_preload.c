/*
 * Trigger states in a program that knows nothing of them: loaded before its libraries, this makes the ends of
 * the calls that a server like nginx makes most trigger states. Events that do nothing but note how late they
 * are come by them; or, to compare, by the backing alone, by a timerfd that a thread reads, or by a timer's
 * signal.
 *
 *     EVENKEEL_BY=soft EVENKEEL_INTERVAL_NS=10000 EVENKEEL_REPORT=late.txt LD_PRELOAD=./trigger_preload.so nginx
 *
 * Events begin in each process that calls epoll_wait(), with that; when it exits, it reports how many there
 * were, how late at the median and at 99 %, in nanoseconds, and how many came on the program's own thread.
 * beside_nginx.sh builds it and measures.
 */
#define _GNU_SOURCE
#include <evenkeel_soft_timers.h>

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static evenkeel_soft_clock *events;
static bool triggers;
static uint64_t interval, due, count, count_own;
/* Of the thread that called epoll_wait(), not of the backing's. */
static __thread bool programs;
/* By lateness: 16 for each power of two. */
static uint64_t late[64 * 16];

static void note(uint64_t now)
{
    uint64_t nanos = now > due ? now - due : 0;
    int log = nanos < 16 ? 4 : 63 - __builtin_clzll(nanos);

    late[log * 16 + (nanos >> (log - 4) & 15)]++;
    count++;
}

/* Each is due so long after the one before it was called. */
static void on_event(void *unused)
{
    uint64_t now = evenkeel_measure_time(events);

    note(now);
    count_own += programs;
    due = now + interval;
    if (triggers)
        evenkeel_schedule_soft_event(events, interval, on_event, unused);
    else
        evenkeel_schedule_with_deadline(events, interval, interval, on_event, unused);
}

static uint64_t monotonic(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

/* These are due at even distances. */
static void on_expirations(uint64_t expirations)
{
    due += expirations * interval;
    note(monotonic());
}

static void on_signal(int unused, siginfo_t *info, void *context)
{
    (void)unused, (void)context;
    on_expirations(1 + info->si_overrun);
}

static void *read_timerfd(void *timer)
{
    uint64_t expirations;

    while (read((int)(intptr_t)timer, &expirations, sizeof expirations) > 0)
        on_expirations(expirations);
    return NULL;
}

static void begin(const char *by)
{
    struct itimerspec every = { .it_interval = { 0, interval }, .it_value = { 0, interval } };

    if (!strcmp(by, "soft") || !strcmp(by, "backing")) {
        events = evenkeel_start(EVENKEEL_DEADLINE | EVENKEEL_THREAD, 0);
        if (!events)
            abort();
        due = evenkeel_measure_time(events) + interval;
        triggers = *by == 's';
        evenkeel_schedule_soft_event(events, interval, on_event, NULL);
        return;
    }
    due = monotonic();
    if (!strcmp(by, "timerfd")) {
        int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        pthread_t thread;
        timerfd_settime(timer, 0, &every, NULL);
        pthread_create(&thread, NULL, read_timerfd, (void *)(intptr_t)timer);
    } else if (!strcmp(by, "signal")) {
        struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
        struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
        timer_t timer;
        event._sigev_un._tid = gettid();
        sigaction(SIGRTMIN, &action, NULL);
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &every, NULL);
    }
}

static void begin_once(void)
{
    static bool begun;
    const char *by, *nanos;

    if (begun)
        return;
    begun = programs = true;
    by = getenv("EVENKEEL_BY"), nanos = getenv("EVENKEEL_INTERVAL_NS");
    interval = nanos ? strtoull(nanos, NULL, 10) : 0;
    if (by && interval)
        begin(by);
}

static uint64_t at(double share)
{
    uint64_t below = 0;
    int bucket = 0;

    while (bucket < 64 * 16 - 1 && (below += late[bucket]) <= share * count)
        bucket++;
    return (UINT64_C(16) + bucket % 16) << (bucket / 16 - 4);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("EVENKEEL_REPORT");
    FILE *file = count && path ? fopen(path, "w") : NULL;

    if (file) {
        fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", count, at(0.5), at(0.99), count_own);
        fclose(file);
    }
}

/* What the program calls, and then, if it is told to, a trigger state. */
#define CALL(type, name, parameters, arguments)                                                                \
    type name parameters                                                                                       \
    {                                                                                                          \
        static type(*next) parameters;                                                                         \
        if (!next)                                                                                             \
            next = (type(*) parameters)dlsym(RTLD_NEXT, #name);                                                \
        type result = next arguments;                                                                          \
        int error = errno;                                                                                     \
        if (triggers)                                                                                          \
            evenkeel_trigger(events);                                                                          \
        errno = error;                                                                                         \
        return result;                                                                                         \
    }

CALL(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
CALL(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
CALL(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
CALL(ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n))
CALL(ssize_t, sendfile64, (int to, int from, off64_t *at, size_t n), (to, from, at, n))
CALL(int, setsockopt, (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n))
CALL(int, epoll_ctl, (int fd, int what, int of, struct epoll_event *e), (fd, what, of, e))
CALL(int, close, (int fd), (fd))
CALL(int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms), ((begin_once(), fd), e, n, ms))
