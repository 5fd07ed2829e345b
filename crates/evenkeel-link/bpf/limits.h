/*
 * Limits for what no socket's queue shows: so many packets of a kind a second on each processor, and so many at once.
 * They are far above what is of use to anybody, and cost the kernel a few percent of a processor.
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

/* Echoes for senders by a sum of their addresses: what is left to each when others have spent those for all. */
enum { SENDERS = 1024, SENDERS_SHIFT = 22 };

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, SENDERS);
	u32 *key;
	u64 *value;
} reserved SEC(".maps");

/* Returns whether there is one more, where one is allowed every so many nanoseconds, and so many at once. */
INLINE int take(u64 *spent_until, u64 now, u64 nanos, u64 at_once)
{
	if (*spent_until + nanos * at_once < now)
		*spent_until = now - nanos * at_once;
	if (*spent_until >= now)
		return 0;
	*spent_until += nanos;
	return 1;
}

/* Returns whether the kernel gets one more packet of a kind. */
INLINE enum fate fate_within(enum limit limit, u64 now)
{
	u32 kind = limit;
	u64 *until = lookup(&spent, &kind);

	if (!until)
		return PASSED;
	/* 1000 refusals a second, and 20 000 echoes. */
	return take(until, now, limit == ECHOES ? 50000 : 1000000, limit == ECHOES ? 1000 : 50) ? PASSED : DROPPED;
}

/* Decides about a request for an echo. A flood from few addresses leaves others 10 a second. */
INLINE enum fate fate_of_echo(const struct packet *request, u64 now)
{
	const u32 *source = request->tuple.source;
	u32 at = ((source[0] ^ source[1] ^ source[2] ^ source[3]) * 0x9e3779b1u) >> SENDERS_SHIFT;
	u64 *until;

	if (fate_within(ECHOES, now) == PASSED)
		return PASSED;
	until = lookup(&reserved, &at);
	return until && take(until, now, 100000000, 10) ? PASSED : DROPPED;
}
