/*
 * Ports without a socket. The kernel refuses what comes for them, after all its work. Once it has been seen to, it is let
 * do so only so often (limits.h). What it forwards (DNAT) finds no socket here either, but is not refused, and so never
 * limited.
 */

struct net;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct net_device {
	possible_net_t nd_net;
} KERNEL;

/* Why the kernel has dropped a packet. The numbers are the running kernel's. */
enum skb_drop_reason {
	SKB_DROP_REASON_NO_SOCKET = 3,
	SKB_DROP_REASON_TCP_FLAGS = 30, /* among others: a listener has no use for the segment */
	SKB_DROP_REASON_TCP_RESET = 45,
	SKB_DROP_REASON_TCP_ABORT_ON_DATA = 46, /* since Linux 6.9, as is the reason of a listener's resets */
};
/* The questions about an enumerator: whether there is one, and its value. */
enum { ENUMERATOR_EXISTS = 0, ENUMERATOR_VALUE = 1 };
#define ASK(question, name) __builtin_preserve_enum_value(*(enum skb_drop_reason *)name, question)

/* What is remembered as refused is forgotten after 16 s, in units of 2^20 ns. */
enum { REMEMBERED = 16000, UNIT_SHIFT = 20 };
enum { REFUSED = 65536 };

/*
 * Where the kernel refused a packet last, by a sum of port, address, protocol and namespace: in the upper half another
 * sum, in the lower one the time. Ports of one address have a place each.
 */
struct {
	UINT(type, ARRAY);
	UINT(max_entries, REFUSED);
	u32 *key;
	u64 *value;
} refused SEC(".maps");

/* So many refused segments within a tenth of a second are a flood of strays (strays.h), for a second. */
enum { STRAYS_OF_FLOOD = 1000, STRAY_WINDOW = 100000000, STRAY_HOLD = 1000000000 };

struct stray_flood {
	u64 window; /* when counting began */
	u64 refused;
	u64 until;
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct stray_flood *value;
} stray_flood SEC(".maps");

/* Counts a segment that the kernel has refused. Processors that count at once may lose some. */
INLINE void note_refused_segment(u64 now)
{
	u32 zero = 0;
	struct stray_flood *flood = lookup(&stray_flood, &zero);

	if (!flood)
		return;
	if (now - flood->window > STRAY_WINDOW) {
		flood->window = now;
		flood->refused = 0;
	}
	flood->refused++;
	if (flood->refused >= STRAYS_OF_FLOOD)
		flood->until = now + STRAY_HOLD;
}

/* A place where packets are refused. */
struct refusal {
	u64 namespace; /* the address of what the kernel knows it by */
	u32 destination[4];
	u32 port, protocol;
};

/* Returns the record of a place, and the sum that is in it if it is of that place. */
INLINE u64 *record_of(const struct refusal *place, u32 *sum)
{
	u64 mixed = place->namespace ^ place->protocol;
	u32 at;

	for (int i = 0; i < 4; i++) {
		mixed = (mixed ^ place->destination[i]) * 0x9e3779b97f4a7c15ull;
		mixed ^= mixed >> 29;
	}
	*sum = mixed >> 32;
	at = (place->port ^ (u32)mixed) % REFUSED;
	return lookup(&refused, &at);
}

INLINE u32 units(u64 now)
{
	return now >> UNIT_SHIFT;
}

/* Returns the network namespace that a device is in. */
INLINE u64 namespace_of(struct net_device *device)
{
	struct net *net = 0;

	read_kernel(&net, sizeof net, __builtin_preserve_access_index(&device->nd_net.net));
	return (u64)net;
}

/* Returns the device that a packet came by. */
INLINE struct net_device *device_of(const struct hook *hook)
{
	struct sk_buff *skb = hook->context;
	struct xdp_buff *frame = hook->context;
	struct xdp_rxq_info *queue = 0;
	struct net_device *device = 0;

	if (hook->is_skb) {
		read_kernel(&device, sizeof device, __builtin_preserve_access_index(&skb->dev));
		return device;
	}
	read_kernel(&queue, sizeof queue, __builtin_preserve_access_index(&frame->rxq));
	read_kernel(&device, sizeof device, __builtin_preserve_access_index(&queue->dev));
	return device;
}

/* Returns whether the kernel has refused packets for the place of this one. */
INLINE int is_refused(const struct hook *hook, const struct packet *packet, u64 now)
{
	struct refusal place = { .port = packet->port, .protocol = packet->protocol };
	u64 *record;
	u32 sum;

	place.namespace = namespace_of(device_of(hook));
	__builtin_memcpy(place.destination, packet->tuple.destination, sizeof place.destination);
	record = record_of(&place, &sum);
	return record && *record >> 32 == sum && units(now) - (u32)*record <= REMEMBERED;
}

/* Decides about a packet for an address of this machine, which finds no socket. All such ports have one account. */
INLINE enum fate fate_without_socket(const struct hook *hook, struct packet *packet, u64 now)
{
	int refused = is_refused(hook, packet, now);

	packet->port = 0;
	if (!refused)
		return PASSED;
	return fate_within(packet->protocol == TCP ? TCP_CLOSED : UDP_CLOSED, now);
}

/* The arguments of the tracepoint `kfree_skb`. */
struct freed {
	struct sk_buff *skb;
	void *location;
	u64 reason;
};

struct dst_entry {
	struct net_device *dev;
} KERNEL;

/* The lowest bit of a packet's reference to its route says that it is not counted (`SKB_DST_NOREF`). */
enum { NOT_COUNTED = 1 };

/* Returns a device of the namespace that a packet is in: the one that it came by, or that of its route. */
INLINE struct net_device *device_near(struct sk_buff *skb)
{
	struct net_device *device = 0;
	struct dst_entry *route;
	u64 reference = 0;

	/* TCP takes it away before it looks at a listener's packets. */
	read_kernel(&device, sizeof device, __builtin_preserve_access_index(&skb->dev));
	if (device)
		return device;
	read_kernel(&reference, sizeof reference, __builtin_preserve_access_index(&skb->_skb_refdst));
	route = (void *)(reference & ~(u64)NOT_COUNTED);
	read_kernel(&device, sizeof device, __builtin_preserve_access_index(&route->dev));
	return device;
}

/* Reads from a packet where it was to go. Returns whether it is one of UDP or TCP. */
INLINE int read_place(struct sk_buff *skb, struct refusal *place)
{
	u8 ip[V6_LEN] = {}, *head = 0;
	u16 network = 0, transport = 0, port = 0;
	struct net_device *device = device_near(skb);

	read_kernel(&head, sizeof head, __builtin_preserve_access_index(&skb->head));
	read_kernel(&network, sizeof network, __builtin_preserve_access_index(&skb->network_header));
	read_kernel(&transport, sizeof transport, __builtin_preserve_access_index(&skb->transport_header));
	if (!device || read_kernel(ip, sizeof ip, head + network))
		return 0;
	if (ip[0] >> 4 == 4) {
		place->protocol = ip[9];
		place->destination[0] = word(ip + 16);
	} else {
		place->protocol = ip[6];
		__builtin_memcpy(place->destination, ip + 24, sizeof place->destination);
	}
	read_kernel(&port, sizeof port, head + transport + 2);
	place->port = htons(port);
	place->namespace = namespace_of(device);
	return place->protocol == UDP || place->protocol == TCP;
}

/* Returns whether the reason for which a packet was dropped is that nobody has a use for it. */
INLINE int is_refusal(u64 reason)
{
	return reason == ASK(ENUMERATOR_VALUE, SKB_DROP_REASON_NO_SOCKET) ||
	       reason == ASK(ENUMERATOR_VALUE, SKB_DROP_REASON_TCP_FLAGS) ||
	       reason == ASK(ENUMERATOR_VALUE, SKB_DROP_REASON_TCP_RESET);
}

/* Remembers where the kernel has refused a packet. */
INLINE void remember_place_of(struct sk_buff *skb)
{
	struct refusal place = {};
	u64 *record, now;
	u32 sum;

	if (!read_place(skb, &place))
		return;
	now = monotonic();
	record = record_of(&place, &sum);
	if (record)
		*record = (u64)sum << 32 | units(now);
	if (place.protocol == TCP)
		note_refused_segment(now);
}

/* Sees that the kernel refuses a packet, because there is no socket, or only a listener. */
SEC("raw_tp/kfree_skb")
int remember(struct freed *freed)
{
	if (is_refusal(freed->reason))
		remember_place_of(freed->skb);
	return 0;
}

/* The arguments of the tracepoint `tcp_send_reset`. */
struct reset {
	struct sock *socket; /* 0 where there is none */
	struct sk_buff *skb; /* 0 if no packet asked for it */
};

/* Sees that the kernel refuses a segment for a listener, where it drops those for no reason: before Linux 6.9. */
SEC("raw_tp/tcp_send_reset")
int remember_reset(struct reset *reset)
{
	struct sock *socket = reset->socket;
	u8 state = 0;

	if (ASK(ENUMERATOR_EXISTS, SKB_DROP_REASON_TCP_ABORT_ON_DATA) || !reset->skb)
		return 0;
	read_kernel(&state, sizeof state, __builtin_preserve_access_index(&socket->__sk_common.skc_state));
	if (state == LISTEN)
		remember_place_of(reset->skb);
	return 0;
}
