/*
 * Datagrams for the kernel's UDP sockets: whether the queue of their socket has room.
 */

/* From Linux 6.18 on: datagrams that have not been moved to the socket's queue yet, by memory node. */
struct udp_prod_queue {
	struct atomic rmem_alloc;
} KERNEL;

struct udp_sock {
	struct udp_prod_queue *udp_prod_queue;
} KERNEL;

static struct bpf_sock *(*const find_udp)(void *context, const void *tuple, u32 len, u64 namespace,
					  u64 flags) = (void *)85;

/* A socket that was found full is not looked at again for so long. */
enum { FULL_NANOS = 20000 };
/* Which socket a flow leads to, and how much room that has, is looked up anew after this time. */
enum { KNOWN_NANOS = 1000000 };
/* The memory that the kernel charges to a socket for a datagram, besides that of its frame. */
enum { OVERHEAD = 256 };
/* Flows and sockets that a processor remembers. */
enum { FLOWS = 256, SOCKETS = 256 };

struct flow {
	u64 socket; /* its address in the kernel */
	u64 until;
	struct tuple_v6 tuple;
};

/* The socket of each flow that came last with its hash. */
struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, FLOWS);
	u32 *key;
	struct flow *value;
} flows SEC(".maps");

struct room {
	u64 socket;
	u64 full_until;
	u64 until;
	u32 charge; /* bytes for one datagram */
	long credit; /* bytes that may pass unseen until then */
	long granted; /* the credit at first */
	long on_way; /* bytes at most that have passed, and have not come to the socket yet */
};

/* The room in each socket that was looked at last with its hash. */
struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, SOCKETS);
	u32 *key;
	struct room *value;
} rooms SEC(".maps");

INLINE u32 hash(u64 value)
{
	value *= 0x9e3779b97f4a7c15ull;
	return value >> 56;
}

/* Finds the socket of a datagram. Returns its address, or 0. */
INLINE u64 find(const struct hook *hook, const struct packet *datagram)
{
	const struct tuple_v6 *tuple = &datagram->tuple;
	struct bpf_sock *socket;
	u64 address = 0;

	if (datagram->is_v6) {
		socket = find_udp(hook->context, tuple, sizeof *tuple, CURRENT_NAMESPACE, 0);
	} else {
		struct tuple_v4 v4 = { tuple->source[0], tuple->destination[0], tuple->source_port,
				       tuple->destination_port };

		socket = find_udp(hook->context, &v4, sizeof v4, CURRENT_NAMESPACE, 0);
	}
	if (!socket)
		return 0;
	/* As a number: the fields that are wanted are none that the kernel shows to programs. */
	read_kernel(&address, sizeof address, &socket);
	release(socket);
	return address;
}

INLINE int same(const struct tuple_v6 *one, const struct tuple_v6 *other)
{
	const u32 *a = (const void *)one, *b = (const void *)other;
	u32 differs = 0;

	for (int i = 0; i < (int)(sizeof *one / 4); i++)
		differs |= a[i] ^ b[i];
	return !differs;
}

/*
 * Returns the address of the one socket that a datagram leads to, or 0. It may be as it was a moment ago, but neither a
 * socket that has been closed nor the lack of one that has been opened.
 */
INLINE u64 socket_of(const struct hook *hook, const struct packet *datagram, u64 now)
{
	const struct tuple_v6 *tuple = &datagram->tuple;
	u32 at = hash((u64)(tuple->source[0] ^ tuple->source[3]) << 32 |
		      (tuple->source_port ^ (u32)tuple->destination_port << 16));
	struct flow *flow = lookup(&flows, &at);

	if (!flow)
		return 0;
	if (flow->until > now && same(&flow->tuple, tuple) && (!flow->socket || is_at(flow->socket, datagram->port)))
		return flow->socket;
	flow->socket = 0;
	flow->until = now + KNOWN_NANOS;
	if (datagram->is_for_group ? ends_here(hook) : is_ours(datagram)) {
		flow->socket = find(hook, datagram);
		if (!flow->socket)
			flow->until = 0;
		else if (datagram->is_for_group && !is_alone(flow->socket, datagram->port))
			flow->socket = 0;
	}
	flow->tuple = *tuple;
	return flow->socket;
}

/* Returns how many bytes fit into the queue of a socket. */
INLINE long space_in(u64 address, int *limit)
{
	struct sock *socket = (void *)address;
	struct udp_sock *udp = (void *)address;
	struct udp_prod_queue *waiting = 0;
	int held = 0, arriving = 0;

	read_kernel(&held, sizeof held, __builtin_preserve_access_index(&socket->sk_backlog.rmem_alloc.counter));
	read_kernel(limit, sizeof *limit, __builtin_preserve_access_index(&socket->sk_rcvbuf));
	if (__builtin_preserve_field_info(udp->udp_prod_queue, FIELD_EXISTS)) {
		read_kernel(&waiting, sizeof waiting, __builtin_preserve_access_index(&udp->udp_prod_queue));
		if (waiting)
			read_kernel(&arriving, sizeof arriving,
				    __builtin_preserve_access_index(&waiting->rmem_alloc.counter));
	}
	return *limit - held - arriving;
}

/*
 * Returns how many bytes may pass before a socket is looked at again: half of its room, or 0 if it is nearly full. What
 * has passed and waits in a backlog will need room, too. That is at most what has passed for this socket, and at most
 * all that waits, of which a part may be for others.
 */
INLINE long room_for(struct room *room)
{
	int limit = 0;
	long space = space_in(room->socket, &limit), waits;

	/* Above seven eighths the kernel would drop some, after all its work. */
	if (space <= limit >> 3)
		return 0;
	/* While the socket is nearly empty, its program keeps up, and takes what comes with more yet to come. */
	if (room->on_way && space < limit - (limit >> 3)) {
		waits = (long)waiting_packets() * room->charge;
		if (room->on_way > waits)
			room->on_way = waits;
		space -= room->on_way;
	}
	return space <= limit >> 3 ? 0 : (u64)space / 2;
}

/* Returns what the kernel will charge for a datagram. */
INLINE u32 charge_for(const struct hook *hook)
{
	struct sk_buff *skb = hook->context;
	struct xdp_buff *frame = hook->context;
	u32 memory = 0;

	if (hook->is_skb) {
		read_kernel(&memory, sizeof memory, __builtin_preserve_access_index(&skb->truesize));
		return memory;
	}
	read_kernel(&memory, sizeof memory, __builtin_preserve_access_index(&frame->frame_sz));
	return memory + OVERHEAD;
}

/* Looks at a socket. */
INLINE void look(const struct hook *hook, struct room *room, u64 socket, u64 now)
{
	if (room->socket != socket) {
		room->socket = socket;
		room->granted = room->credit = room->on_way = 0;
	}
	room->charge = charge_for(hook);
	/* From behind XDP a datagram goes to its socket at once. */
	if (!hook->is_skb)
		room->on_way += room->granted - room->credit;
	room->granted = room->credit = room_for(room);
	room->until = now + KNOWN_NANOS;
	room->full_until = room->credit ? 0 : now + FULL_NANOS;
}

/* Decides whether a socket takes one more datagram. */
INLINE int has_room(const struct hook *hook, u64 socket, u64 now)
{
	u32 at = hash(socket >> 6);
	struct room *room = lookup(&rooms, &at);

	if (!room)
		return 1;
	if (room->socket == socket && room->full_until > now)
		return 0;
	if (room->socket != socket || room->credit <= 0 || room->until <= now)
		look(hook, room, socket, now);
	if (!room->credit)
		return 0;
	room->credit -= room->charge;
	return 1;
}

/* Decides about a datagram. */
INLINE enum fate fate_of_datagram(const struct hook *hook, struct packet *datagram, u64 now)
{
	u64 socket = socket_of(hook, datagram, now);

	if (!socket)
		return is_ours(datagram) ? fate_without_socket(hook, datagram, now) : UNKNOWN;
	return has_room(hook, socket, now) ? PASSED : DROPPED;
}
