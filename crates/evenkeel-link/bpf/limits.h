/*
 * Limits for what no socket's queue shows: so many packets of a kind a second on each processor, and so many at once.
 * They are far above what is of use to anybody, and cost the kernel few percent of a processor.
 */

/* The kinds. Each has an account, under this number in the place of a protocol if it is not of a port. */
enum limit { UDP_CLOSED, TCP_CLOSED, STRAYS, ECHOES, LIMITS };

/* For each kind: the time up to which what is allowed is spent. */
struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, LIMITS);
	u32 *key;
	u64 *value;
} spent SEC(".maps");

/* Returns whether the kernel gets one more packet of a kind. */
INLINE enum fate fate_within(enum limit limit, u64 now)
{
	u32 kind = limit;
	/* Refusals 1000 times a second, which also keeps those few that a client waits for; echoes 20 000. */
	u64 nanos = limit == ECHOES ? 50000 : 1000000, at_once = limit == ECHOES ? 1000 : 50;
	u64 *until = lookup(&spent, &kind);

	if (!until)
		return PASSED;
	if (*until + nanos * at_once < now)
		*until = now - nanos * at_once;
	if (*until >= now)
		return DROPPED;
	*until += nanos;
	return PASSED;
}
