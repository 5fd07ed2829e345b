/*
 * Strays: segments of TCP that belong to no connection, such as the ACKs, resets and SYN-ACKs of a flood. The kernel
 * answers most of them by a reset, after all its work. To see that a segment is a stray takes a search for its socket, so
 * segments are looked at only while the kernel has been seen to refuse many (closed.h).
 */

static long (*const check_cookie)(struct bpf_sock *listener, const void *ip, u32 ip_len, const void *tcp,
				  u32 tcp_len) = (void *)100;
static long (*const load_skb_bytes)(void *context, u32 at, void *to, u32 len) = (void *)26;

/* Reads bytes of a frame. Returns 0 if it has them. */
INLINE long load_from(const struct hook *hook, u32 at, void *to, u32 len)
{
	if (hook->is_skb)
		return load_skb_bytes(hook->context, at, to, len);
	return load_bytes(hook->context, at, to, len);
}

/* Returns whether a segment for a listener acknowledges a cookie, of this program or of the kernel. */
INLINE int acknowledges_cookie(const struct hook *hook, struct bpf_sock *listener, const struct packet *segment)
{
	u8 ip[V6_LEN], tcp[TCP_LEN];

	if (load_from(hook, segment->transport_at, tcp, TCP_LEN))
		return 0;
	if (segment->is_v6) {
		if (load_from(hook, segment->ip_at, ip, V6_LEN))
			return 0;
		return check_cookie(listener, ip, V6_LEN, tcp, TCP_LEN) == 0;
	}
	if (load_from(hook, segment->ip_at, ip, V4_LEN))
		return 0;
	return check_cookie(listener, ip, V4_LEN, tcp, TCP_LEN) == 0;
}

/* Returns whether a segment is of no connection. */
INLINE int is_stray(const struct hook *hook, const struct packet *segment)
{
	struct bpf_sock *receiver = receiver_of(hook, segment);
	int is_of_none;

	if (!receiver)
		return 1;
	is_of_none = receiver->state == LISTEN && !acknowledges_cookie(hook, receiver, segment);
	release(receiver);
	return is_of_none;
}

/* Returns whether a packet is a segment that nobody has to look at, because there is no flood of strays. */
INLINE int is_plain_segment(const struct packet *packet)
{
	u32 zero = 0;
	struct stray_flood *flood;

	if (packet->protocol != TCP || packet->flags == SYN)
		return 0;
	flood = lookup(&stray_flood, &zero);
	if (!flood || !flood->until)
		return 1;
	if (monotonic() < flood->until)
		return 0;
	flood->until = 0;
	return 1;
}

/* Decides about a segment that is no SYN, during a flood of strays. Those of connections are not counted. */
INLINE enum fate fate_of_segment(const struct hook *hook, struct packet *segment, u64 now)
{
	if (!is_ours(segment) || !is_refused(hook, segment, now) || !is_stray(hook, segment))
		return UNKNOWN;
	account_as(segment, STRAYS);
	return fate_within(STRAYS, now);
}
