/*
 * A load generator for measurements on veth pairs. The kernel makes frames itself, and runs this program on each (live
 * frames of BPF_PROG_TEST_RUN). The program waits until the frame is due, and sends it.
 */

#include "kernel.h"

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { DROP = 1 };
/* The headers of a datagram of IPv4, in words. Receivers may have changed those of a frame that comes again. */
enum { WORDS = 6, SOURCE_PORT_AT = 34 };
/* The clock is read so often for a frame that is not due, at most. */
enum { LOOKS = 4000 };
/* Times are in units of 2^-8 ns. A generator that has fallen behind catches up with so much. */
enum { SHIFT = 8 };
#define BEHIND (100000ull << SHIFT)

#define htons(value) __builtin_bswap16(value)

static long (*const redirect)(u32 device, u64 flags) = (void *)23;

struct plan {
	u64 interval; /* between frames */
	u64 words[WORDS];
	u32 device, flows, first_port, unused;
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct plan *value;
} plan SEC(".maps");

struct progress {
	u64 due, sent;
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct progress *value;
} progress SEC(".maps");

/* Whether no more is to be sent. */
struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	u32 *value;
} stopped SEC(".maps");

/* Waits until the next frame is due. */
INLINE void wait(struct progress *at, u64 interval)
{
	u64 now = 0;

	for (int i = 0; i < LOOKS; i++) {
		now = monotonic() << SHIFT;
		if (now >= at->due)
			break;
	}
	at->due += interval;
	if (at->due + BEHIND < now)
		at->due = now - BEHIND;
}

SEC("xdp")
int flood(struct xdp_md *frame)
{
	u8 *bytes = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	struct plan *set;
	struct progress *at;
	u32 zero = 0, *over;

	set = lookup(&plan, &zero);
	at = lookup(&progress, &zero);
	over = lookup(&stopped, &zero);
	if (!set || !at || !over || *over || bytes + WORDS * 8 > end)
		return DROP;
	wait(at, set->interval);
#pragma clang loop unroll(full)
	for (int i = 0; i < WORDS; i++)
		((u64 *)bytes)[i] = set->words[i];
	*(u16 *)(bytes + SOURCE_PORT_AT) = htons((u16)(set->first_port + at->sent % set->flows));
	at->sent++;
	return redirect(set->device, 0);
}

char _license[] SEC("license") = "MIT OR Apache-2.0";
