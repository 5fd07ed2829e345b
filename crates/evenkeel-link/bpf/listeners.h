/*
 * SYNs for the kernel's TCP listeners: cookies in answers, once a listener's queue of SYNs is full.
 *
 * The kernel makes the cookie, and recognizes it in the ACK. What it is spared is a packet, a look at the rules of the
 * firewall, a route, and an answer for each SYN. Only the maximum segment size is agreed on by such a cookie.
 */

struct request_sock_queue {
	struct atomic qlen;
} KERNEL;

struct inet_connection_sock {
	struct request_sock_queue icsk_accept_queue;
} KERNEL;

static struct bpf_sock *(*const find_tcp)(void *context, const void *tuple, u32 len, u64 namespace,
					  u64 flags) = (void *)99;
static long (*const make_cookie)(struct bpf_sock *listener, const void *ip, u32 ip_len, const void *tcp,
				 u32 tcp_len) = (void *)110;
static u32 (*const csum_diff)(const void *from, u32 from_len, const void *to, u32 to_len, u32 seed) = (void *)28;
static long (*const adjust_tail)(void *context, int by) = (void *)65;
static long (*const check_mtu)(void *context, u32 device, u32 *mtu, int by, u64 flags) = (void *)163;
static long (*const load_bytes)(void *context, u32 at, void *to, u32 len) = (void *)189;

enum { SYN = 0x02, ACK = 0x10 };
/* A SYN has neither FIN, RST nor ACK. */
enum { KIND = 0x17 };
enum { TCP_MAX = 60, ANSWER_LEN = 24 };
/* As much as others send at first (RFC 6928). The kernel opens the window further. */
enum { FIRST_SEGMENTS = 10, WINDOW_MAX = 65535 };

struct segment {
	u16 source, destination;
	u32 seq, ack;
	u8 length, flags;
	u16 window, checksum, urgent;
	u32 mss;
};

/* By interface: that it drops what this program would send, so that the kernel has to answer. */
struct {
	UINT(type, HASH);
	UINT(max_entries, 1024);
	UINT(map_flags, NO_PREALLOC);
	u32 *key;
	u8 *value;
} mute SEC(".maps");

/* Returns a number that the compiler knows nothing about, so that it leaves the checks for the verifier. */
INLINE u64 opaque(u64 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

INLINE u16 fold(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Finds who gets a SYN: a listener, a connection, or 0. It is to be released. */
INLINE struct bpf_sock *receiver_of(const struct hook *hook, const struct packet *syn)
{
	const struct tuple_v6 *tuple = &syn->tuple;
	struct tuple_v4 v4;

	if (syn->is_v6)
		return find_tcp(hook->context, tuple, sizeof *tuple, CURRENT_NAMESPACE, 0);
	v4 = (struct tuple_v4){ tuple->source[0], tuple->destination[0], tuple->source_port, tuple->destination_port };
	return find_tcp(hook->context, &v4, sizeof v4, CURRENT_NAMESPACE, 0);
}

/* Returns the kernel's cookie for a SYN in the lower 32 bits, or a negative number if the SYN is the kernel's. */
INLINE long cookie_for(void *context, struct bpf_sock *listener, const struct packet *syn)
{
	u8 ip[V6_LEN], tcp[TCP_MAX];
	u64 length = opaque(syn->segment_len);

	if (length < TCP_LEN || length > TCP_MAX || load_bytes(context, syn->transport_at, tcp, length))
		return -1;
	if (syn->is_v6) {
		if (load_bytes(context, syn->ip_at, ip, V6_LEN))
			return -1;
		return make_cookie(listener, ip, V6_LEN, tcp, length);
	}
	if (load_bytes(context, syn->ip_at, ip, V4_LEN))
		return -1;
	return make_cookie(listener, ip, V4_LEN, tcp, length);
}

/* Returns what the kernel would do about a SYN for a listener. */
INLINE enum fate fate_at(const struct hook *hook, struct bpf_sock *listener, const struct packet *syn, u32 *cookie)
{
	u32 accepted = 0, backlog = 0, device;
	int opening = 0;
	u64 address = 0;
	struct sock *socket;
	long made;

	/* As a number: the fields that are wanted are none that the kernel shows to programs. */
	read_kernel(&address, sizeof address, &listener);
	socket = (void *)address;
	read_kernel(&accepted, sizeof accepted, __builtin_preserve_access_index(&socket->sk_ack_backlog));
	read_kernel(&backlog, sizeof backlog, __builtin_preserve_access_index(&socket->sk_max_ack_backlog));
	/* The kernel drops it, too: the program does not accept what it has (`sk_acceptq_is_full`). */
	if (accepted > backlog)
		return DROPPED;
	/* An answer from behind XDP would have no way that is shorter than the kernel's. */
	if (hook->is_skb)
		return PASSED;
	read_kernel(&opening, sizeof opening,
		    __builtin_preserve_access_index(
			    &((struct inet_connection_sock *)address)->icsk_accept_queue.qlen.counter));
	device = ((struct xdp_md *)hook->context)->ingress_ifindex;
	if ((u32)opening < backlog || lookup(&mute, &device))
		return PASSED;
	/* Nor does the kernel make cookies before its queue is full, or if it may not (`net.ipv4.tcp_syncookies`). */
	made = cookie_for(hook->context, listener, syn);
	if (made < 0)
		return PASSED;
	*cookie = made;
	return ANSWERED;
}

/* Nothing is answered that says it is from nowhere, from this machine, or from a group. */
INLINE int is_from_host(const struct packet *syn)
{
	const u32 *word = syn->tuple.source;
	u8 first = word[0];

	if (syn->is_v6)
		return first != 0xff && (word[0] || word[1] || word[2] || htonl(word[3]) > 1);
	return first != 0 && first != 127 && first < 224;
}

/* Decides about a SYN. */
INLINE enum fate fate_of_syn(const struct hook *hook, struct packet *syn, u64 now, u32 *cookie)
{
	struct bpf_sock *receiver;
	enum fate fate = UNKNOWN;

	if (!is_ours(syn) || !is_from_host(syn))
		return UNKNOWN;
	receiver = receiver_of(hook, syn);
	if (!receiver)
		return fate_without_socket(hook, syn, now);
	if (receiver->state == LISTEN)
		fate = fate_at(hook, receiver, syn, cookie);
	release(receiver);
	return fate;
}

/* Returns the sum of what a checksum of TCP has in front of the segment. */
INLINE u32 pseudo_sum(const struct tuple_v6 *tuple)
{
	return csum_diff(0, 0, tuple, sizeof tuple->source + sizeof tuple->destination,
			 htons(TCP) + htons(ANSWER_LEN));
}

/* Writes the answer to a SYN. */
INLINE void write_segment(struct segment *answer, const struct packet *syn, u32 seq, u32 cookie, u32 mtu)
{
	u32 mss = mtu - TCP_LEN - (syn->is_v6 ? V6_LEN : V4_LEN);
	u32 window = mss * FIRST_SEGMENTS;

	*answer = (struct segment){
		.source = syn->tuple.destination_port,
		.destination = syn->tuple.source_port,
		.seq = htonl(cookie),
		.ack = htonl(htonl(seq) + 1),
		.length = ANSWER_LEN << 2,
		.flags = SYN | ACK,
		.window = htons(window > WINDOW_MAX ? WINDOW_MAX : window),
		.mss = htonl(0x02040000 | (mss & 0xffff)),
	};
	answer->checksum = ~fold((u64)csum_diff(0, 0, answer, sizeof *answer, 0) + pseudo_sum(&syn->tuple));
}

/* Turns the addresses of a frame round. */
INLINE void turn_ethernet(u16 *at)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < 3; i++) {
		u16 half = at[i];

		at[i] = at[3 + i];
		at[3 + i] = half;
	}
}

/* Writes the header of IP in front of an answer. */
INLINE void write_v4(u32 *at, const struct tuple_v6 *tuple)
{
	u32 header[V4_LEN / 4] = {
		htonl(0x45000000 | (V4_LEN + ANSWER_LEN)), htonl(0x4000), htonl(HOPS << 24 | TCP << 16),
		tuple->destination[0], tuple->source[0],
	};

	header[2] |= (u32)(u16)~fold(csum_diff(0, 0, header, sizeof header, 0)) << 16;
#pragma clang loop unroll(full)
	for (int i = 0; i < V4_LEN / 4; i++)
		at[i] = header[i];
}

INLINE void write_v6(u32 *at, const struct tuple_v6 *tuple)
{
	at[0] = htonl(0x60000000);
	at[1] = htonl(ANSWER_LEN << 16 | TCP << 8 | HOPS);
#pragma clang loop unroll(full)
	for (int i = 0; i < 4; i++) {
		at[2 + i] = tuple->destination[i];
		at[6 + i] = tuple->source[i];
	}
}

/* Writes an answer over its SYN, into a frame of that length. Returns whether it did. */
INLINE int write_answer(struct xdp_md *context, const struct packet *syn, const struct segment *segment)
{
	u8 *bytes = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	u64 ip_at = opaque(syn->ip_at);

	if (bytes + ETHERNET_LEN > end || ip_at > ETHERNET_LEN + 2 * TAG_LEN)
		return 0;
	turn_ethernet((void *)bytes);
	bytes += ip_at;
	if (syn->is_v6) {
		if (bytes + V6_LEN + ANSWER_LEN > end)
			return 0;
		write_v6((void *)bytes, &syn->tuple);
		__builtin_memcpy(bytes + V6_LEN, segment, sizeof *segment);
	} else {
		if (bytes + V4_LEN + ANSWER_LEN > end)
			return 0;
		write_v4((void *)bytes, &syn->tuple);
		__builtin_memcpy(bytes + V4_LEN, segment, sizeof *segment);
	}
	return 1;
}

/* Turns a SYN into its answer. Returns what becomes of the frame. */
INLINE int answer(struct xdp_md *context, const struct packet *syn, u32 cookie)
{
	u32 length = syn->ip_at + (syn->is_v6 ? V6_LEN : V4_LEN) + ANSWER_LEN, mtu = 0, seq = 0;
	struct segment segment;

	if (check_mtu(context, 0, &mtu, 0, 0) < 0 || load_bytes(context, syn->transport_at + 4, &seq, sizeof seq))
		return PASS;
	write_segment(&segment, syn, seq, cookie, mtu);
	if (adjust_tail(context, length - opaque(context->data_end - context->data)))
		return PASS;
	return write_answer(context, syn, &segment) ? TX : DROP;
}
