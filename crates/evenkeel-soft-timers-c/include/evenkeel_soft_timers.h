/*
 * Soft timers: events in microseconds, without an interrupt for each.
 *
 * A program that is busy comes by places all the time where a function call costs nothing: at the end of a
 * system call, of a request, of a batch. There it calls evenkeel_trigger(), which reads a counter of the
 * processor and compares; the handlers of what is due are called as plain functions. What no such trigger
 * state has come by for, a timer of the kernel takes care of. An event that is scheduled for T ticks happens
 * when more than T have passed. If no trigger state has come by, that timer is aimed at T + X + 1, where X is
 * the ratio of the two resolutions, or at the event's own deadline; to be woken takes some 50 us more.
 *
 * Source: Aron and Druschel, "Soft timers", ACM TOCS 18(3), 2000.
 *
 * All functions may be called from all threads, and by handlers but where it says otherwise. A clock is not to
 * be used by the child after fork(): it starts its own. The backing's thread blocks the signals that the thread
 * that starts it blocks: whoever waits for signals blocks them before.
 *
 * Link with libevenkeel_soft_timers_c.a (and -lpthread -ldl -lm where these are libraries of their own), or
 * with libevenkeel_soft_timers_c.so.
 */
#ifndef EVENKEEL_SOFT_TIMERS_H
#define EVENKEEL_SOFT_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The facility. */
typedef struct evenkeel_soft_clock evenkeel_soft_clock;

/* What an event does. Handlers of a clock are called one after the other, also if several threads come by;
 * whatever time one takes, all others are late. With EVENKEEL_THREAD one may be called on the backing's thread,
 * at any time. It must return: neither longjmp() nor a C++ exception may leave it. */
typedef void (*evenkeel_handler)(void *argument);

/* An event that was scheduled. After it has happened it names nothing. */
typedef struct {
    uint32_t place;
    uint64_t number;
} evenkeel_soft_event;

/* What takes care of events that no trigger state has come by for: */
enum {
    /* a one-shot timer at the earliest deadline; a process in which nothing is pending is not woken, but once
     * for what it was aimed at before; */
    EVENKEEL_DEADLINE = 0,
    /* a periodic one, which knows of no deadlines. */
    EVENKEEL_PERIODIC = 1,
    /* A small thread waits for it; */
    EVENKEEL_THREAD = 0,
    /* the program does, which has evenkeel_descriptor() in its poll() and calls evenkeel_interrupt(). */
    EVENKEEL_PROGRAM = 2
};

/* Starts the facility, with one of each of both added, and with so many interrupts of the backing a second (1
 * to 1 000 000; 0 is 1 000). NULL if the kernel gives no descriptor or no thread. The first one in a process
 * takes 20 ms. */
evenkeel_soft_clock *evenkeel_start(unsigned options, uint64_t interrupt_clock_resolution);

/* Ends it. When it returns, no handler is running, and none is called any more. Not to be called by a handler,
 * nor while another thread uses the clock. NULL does nothing. */
void evenkeel_stop(evenkeel_soft_clock *clock);

/* Ticks in a second. */
uint64_t evenkeel_measure_resolution(const evenkeel_soft_clock *clock);

/* The time in ticks, since some time. */
uint64_t evenkeel_measure_time(const evenkeel_soft_clock *clock);

/* The least resolution at which events can be expected, in Hz. */
uint64_t evenkeel_interrupt_clock_resolution(const evenkeel_soft_clock *clock);

/* Calls the handler when more than so many ticks have passed. */
evenkeel_soft_event evenkeel_schedule_soft_event(const evenkeel_soft_clock *clock, uint64_t ticks,
                                                 evenkeel_handler handler, void *argument);

/* The same with a latest time, in ticks from now, for EVENKEEL_DEADLINE. */
evenkeel_soft_event evenkeel_schedule_with_deadline(const evenkeel_soft_clock *clock, uint64_t ticks,
                                                    uint64_t latest, evenkeel_handler handler, void *argument);

/* Whether the event was cancelled. If not, it has happened, or is just happening on another thread. */
bool evenkeel_cancel(const evenkeel_soft_clock *clock, evenkeel_soft_event event);

/* To be called wherever the program comes by: calls the handlers of what is due, and returns how many. */
size_t evenkeel_trigger(const evenkeel_soft_clock *clock);

/* For EVENKEEL_PROGRAM: readable when the kernel's timer has gone off. It belongs to the clock. */
int evenkeel_descriptor(const evenkeel_soft_clock *clock);

/* For EVENKEEL_PROGRAM: calls the handlers of what is overdue if the kernel's timer has gone off, and returns
 * how many. Not to be called by a handler. */
size_t evenkeel_interrupt(const evenkeel_soft_clock *clock);

#ifdef __cplusplus
}
#endif

#endif
