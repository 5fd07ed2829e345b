/*
 * Something is to happen every 20 microseconds beside a program's work: here it only notes when it did. Then
 * the same without trigger states, by the kernel's timer alone. Prints the intervals.
 */
#include <evenkeel_soft_timers.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { EVENTS = 1000, INTERVAL = 20000 };

struct pacer {
    evenkeel_soft_clock *clock;
    uint64_t last, times[EVENTS];
    int events;
};

static void pace(void *argument)
{
    struct pacer *pacer = argument;
    uint64_t now = evenkeel_measure_time(pacer->clock);

    if (now <= pacer->last + INTERVAL) {
        fprintf(stderr, "event %d is early\n", pacer->events);
        exit(1);
    }
    pacer->last = now;
    pacer->times[pacer->events++] = now;
    if (pacer->events < EVENTS)
        evenkeel_schedule_with_deadline(pacer->clock, INTERVAL, 3 * INTERVAL, pace, pacer);
}

static void never(void *argument)
{
    (void)argument;
    fprintf(stderr, "an event that was cancelled happened\n");
    exit(1);
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static void report(const char *name, struct pacer *pacer)
{
    uint64_t intervals[EVENTS - 1];

    for (int n = 0; n < EVENTS - 1; n++)
        intervals[n] = pacer->times[n + 1] - pacer->times[n];
    qsort(intervals, EVENTS - 1, sizeof intervals[0], compare);
    printf("%s: %d events, intervals %" PRIu64 " ns at least, median %" PRIu64 " ns\n", name, pacer->events,
           intervals[0], intervals[EVENTS / 2]);
}

static struct pacer *begin(unsigned options)
{
    struct pacer *pacer = calloc(1, sizeof *pacer);

    pacer->clock = evenkeel_start(options, 0);
    if (!pacer->clock)
        exit(2);
    pacer->last = evenkeel_measure_time(pacer->clock);
    evenkeel_schedule_soft_event(pacer->clock, INTERVAL, pace, pacer);
    return pacer;
}

int main(void)
{
    struct pacer *pacer = begin(EVENKEEL_DEADLINE | EVENKEEL_PROGRAM);
    evenkeel_soft_event event = evenkeel_schedule_soft_event(pacer->clock, 1000000, never, NULL);

    printf("%" PRIu64 " ticks and %" PRIu64 " interrupts a second\n",
           evenkeel_measure_resolution(pacer->clock), evenkeel_interrupt_clock_resolution(pacer->clock));
    if (!evenkeel_cancel(pacer->clock, event) || evenkeel_cancel(pacer->clock, event))
        return 1;
    while (pacer->events < EVENTS) {
        /* A request is handled here. */
        evenkeel_trigger(pacer->clock);
    }
    report("trigger states", pacer);
    evenkeel_stop(pacer->clock);
    free(pacer);

    pacer = begin(EVENKEEL_DEADLINE | EVENKEEL_PROGRAM);
    while (pacer->events < EVENTS) {
        struct pollfd descriptor = { .fd = evenkeel_descriptor(pacer->clock), .events = POLLIN };
        if (poll(&descriptor, 1, 10000) != 1)
            return 1;
        evenkeel_interrupt(pacer->clock);
    }
    report("its timer alone", pacer);
    evenkeel_stop(pacer->clock);
    free(pacer);

    /* What is pending when it stops does not happen. */
    pacer = begin(EVENKEEL_PERIODIC | EVENKEEL_THREAD);
    evenkeel_schedule_soft_event(pacer->clock, 1000000000, never, NULL);
    evenkeel_stop(pacer->clock);
    free(pacer);
    return 0;
}
