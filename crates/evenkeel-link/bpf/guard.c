/*
 * A guard in front of the kernel's own UDP sockets: early discard for programs that stay on them.
 *
 * A datagram for a socket whose queue is full is dropped here, before the kernel has made a packet of it. All else
 * goes on untouched: fragments, IP options, groups and broadcasts, tunnels, and what leads to no socket. README.md of
 * this directory describes how to compile it.
 */

#include "kernel.h"

/* The interface of the kernel, as far as it is used here. Offsets in its structures are found when it is loaded. */
struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

#define KERNEL __attribute__((preserve_access_index))

struct atomic {
	int counter;
} KERNEL;

struct sock {
	struct {
		struct atomic rmem_alloc;
	} sk_backlog;
	int sk_rcvbuf;
} KERNEL;

/* From Linux 6.18 on: datagrams that have not been moved to the socket's queue yet, by memory node. */
struct udp_prod_queue {
	struct atomic rmem_alloc;
} KERNEL;

struct udp_sock {
	struct udp_prod_queue *udp_prod_queue;
} KERNEL;

struct tuple_v4 {
	u32 source, destination;
	u16 source_port, destination_port;
};

struct tuple_v6 {
	u32 source[4], destination[4];
	u16 source_port, destination_port;
};

struct bpf_sock;

enum { PASS = 2, DROP = 1 };
/* The question about a field of the kernel whether it exists. */
enum { FIELD_EXISTS = 2 };

static long (*const read_kernel)(void *to, u32 len, const void *from) = (void *)113;
static struct bpf_sock *(*const find_udp)(void *context, const void *tuple, u32 len, u64 namespace,
					  u64 flags) = (void *)85;
static long (*const release)(struct bpf_sock *sock) = (void *)86;

enum { UDP = 17, ETHERNET_LEN = 14, TAG_LEN = 4, V4_LEN = 20, V6_LEN = 40, UDP_LEN = 8 };
enum { CURRENT_NAMESPACE = -1 };

/* A socket that was found full is not looked at again for so long. */
enum { FULL_NANOS = 20000 };
/* Which socket a flow leads to, and how much room that has, is looked up anew after this time. */
enum { KNOWN_NANOS = 1000000 };
/* The memory that the kernel charges for a datagram, besides the bytes of its frame. */
enum { OVERHEAD = 704 };
/* Flows and sockets that a processor remembers. */
enum { FLOWS = 256, SOCKETS = 256 };

struct settings {
	u32 counts_only; /* nothing is dropped */
	u32 selects;	 /* whether only the ports are guarded that are marked */
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct settings *value;
} settings SEC(".maps");

/* By port, in host byte order: whether it is guarded. */
struct {
	UINT(type, ARRAY);
	UINT(max_entries, 65536);
	u32 *key;
	u8 *value;
} selected SEC(".maps");

/* An address of this machine: of IPv4 in the first word. */
struct address {
	u32 word[4], is_v6;
};

struct {
	UINT(type, HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, NO_PREALLOC);
	struct address *key;
	u8 *value;
} addresses SEC(".maps");

struct account {
	u64 passed, dropped;
};

/* By port, in host byte order: datagrams for sockets that were found there. */
struct {
	UINT(type, PERCPU_HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, NO_PREALLOC);
	u32 *key;
	struct account *value;
} accounts SEC(".maps");

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
	long credit; /* bytes that may pass unseen until then */
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

INLINE u16 number(const u8 *at)
{
	return (u16)at[0] << 8 | at[1];
}

INLINE u32 word(const u8 *at)
{
	return *(const u32 *)at;
}

/* A datagram for an address of one machine. */
struct datagram {
	struct tuple_v6 tuple; /* of IPv4, addresses are in the first words, and the others are zero */
	u32 port;
	u32 is_v6;
};

/* Parses a frame. Returns whether it holds a whole datagram that is to be judged here. */
INLINE int parse(const u8 *at, const u8 *end, struct datagram *datagram)
{
	struct tuple_v6 *tuple = &datagram->tuple;
	const u8 *udp;
	u16 type;

	if (at + ETHERNET_LEN > end || at[0] & 1)
		return 0;
	type = number(at + 12);
	at += ETHERNET_LEN;
	for (int tags = 0; tags < 2 && (type == 0x8100 || type == 0x88a8); tags++) {
		if (at + TAG_LEN > end)
			return 0;
		type = number(at + 2);
		at += TAG_LEN;
	}
	if (type == 0x0800) {
		if (at + V4_LEN + UDP_LEN > end || at[0] != 0x45 || at[9] != UDP || number(at + 6) & 0x3fff)
			return 0;
		/* Groups and broadcasts lead to several sockets. */
		if (at[16] >= 224)
			return 0;
		tuple->source[0] = word(at + 12);
		tuple->destination[0] = word(at + 16);
		udp = at + V4_LEN;
	} else if (type == 0x86dd) {
		if (at + V6_LEN + UDP_LEN > end || at[0] >> 4 != 6 || at[6] != UDP || at[24] == 0xff)
			return 0;
		for (int i = 0; i < 4; i++) {
			tuple->source[i] = word(at + 8 + 4 * i);
			tuple->destination[i] = word(at + 24 + 4 * i);
		}
		datagram->is_v6 = 1;
		udp = at + V6_LEN;
	} else {
		return 0;
	}
	tuple->source_port = *(const u16 *)udp;
	tuple->destination_port = *(const u16 *)(udp + 2);
	datagram->port = number(udp + 2);
	return 1;
}

/* A socket of any address would be found for a datagram that is on its way to another machine, too. */
INLINE int is_ours(const struct datagram *datagram)
{
	const u32 *word = datagram->tuple.destination;
	struct address address = { { word[0], word[1], word[2], word[3] }, datagram->is_v6 };

	return lookup(&addresses, &address) != 0;
}

/* Finds the socket of a datagram. Returns its address, or 0. */
INLINE u64 find(struct xdp_md *context, const struct datagram *datagram)
{
	const struct tuple_v6 *tuple = &datagram->tuple;
	struct bpf_sock *socket;
	u64 address = 0;

	if (datagram->is_v6) {
		socket = find_udp(context, tuple, sizeof *tuple, CURRENT_NAMESPACE, 0);
	} else {
		struct tuple_v4 v4 = { tuple->source[0], tuple->destination[0], tuple->source_port,
				       tuple->destination_port };

		socket = find_udp(context, &v4, sizeof v4, CURRENT_NAMESPACE, 0);
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

/* Returns the address of the socket that a datagram leads to, or 0. It may be as it was a moment ago. */
INLINE u64 socket_of(struct xdp_md *context, const struct datagram *datagram, u64 now)
{
	const struct tuple_v6 *tuple = &datagram->tuple;
	u32 at = hash((u64)(tuple->source[0] ^ tuple->source[3]) << 32 |
		      (tuple->source_port ^ (u32)tuple->destination_port << 16));
	struct flow *flow = lookup(&flows, &at);

	if (!flow)
		return 0;
	if (flow->until > now && same(&flow->tuple, tuple))
		return flow->socket;
	flow->socket = is_ours(datagram) ? find(context, datagram) : 0;
	flow->until = now + KNOWN_NANOS;
	flow->tuple = *tuple;
	return flow->socket;
}

/* Returns how many bytes may pass before a socket is looked at again: half of its room, or 0 if it is nearly full. */
INLINE long room_in(u64 address)
{
	struct sock *socket = (void *)address;
	struct udp_sock *udp = (void *)address;
	struct udp_prod_queue *waiting = 0;
	int held = 0, limit = 0, arriving = 0;

	read_kernel(&held, sizeof held, __builtin_preserve_access_index(&socket->sk_backlog.rmem_alloc.counter));
	read_kernel(&limit, sizeof limit, __builtin_preserve_access_index(&socket->sk_rcvbuf));
	if (__builtin_preserve_field_info(udp->udp_prod_queue, FIELD_EXISTS)) {
		read_kernel(&waiting, sizeof waiting, __builtin_preserve_access_index(&udp->udp_prod_queue));
		if (waiting)
			read_kernel(&arriving, sizeof arriving,
				    __builtin_preserve_access_index(&waiting->rmem_alloc.counter));
	}
	held += arriving;
	/* Above seven eighths the kernel would drop some, after all its work. */
	if (limit - held <= limit >> 3)
		return 0;
	return (u32)(limit - held) / 2;
}

/* Decides whether a socket takes one more datagram, for which the kernel charges so many bytes. */
INLINE int has_room(u64 socket, u64 now, u32 bytes)
{
	u32 at = hash(socket >> 6);
	struct room *room = lookup(&rooms, &at);

	if (!room)
		return 1;
	if (room->socket == socket) {
		if (room->full_until > now)
			return 0;
		if (room->credit > 0 && room->until > now) {
			room->credit -= bytes;
			return 1;
		}
	}
	room->socket = socket;
	room->credit = room_in(socket);
	room->until = now + KNOWN_NANOS;
	room->full_until = room->credit ? 0 : now + FULL_NANOS;
	if (!room->credit)
		return 0;
	room->credit -= bytes;
	return 1;
}

INLINE struct account *account_of(u32 port)
{
	struct account *account = lookup(&accounts, &port);

	if (!account) {
		struct account empty = {};

		update(&accounts, &port, &empty, 0);
		account = lookup(&accounts, &port);
	}
	return account;
}

INLINE int is_guarded(const struct settings *set, u32 port)
{
	u8 *is_selected;

	if (!set->selects)
		return 1;
	is_selected = lookup(&selected, &port);
	return is_selected && *is_selected;
}

SEC("xdp")
int guard(struct xdp_md *context)
{
	const u8 *at = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct datagram datagram = {};
	struct settings *set;
	struct account *account;
	u64 now, socket;
	u32 zero = 0;

	if (!parse(at, end, &datagram))
		return PASS;
	set = lookup(&settings, &zero);
	if (!set || !is_guarded(set, datagram.port))
		return PASS;
	now = monotonic();
	socket = socket_of(context, &datagram, now);
	if (!socket)
		return PASS;
	account = account_of(datagram.port);
	/* Nothing is dropped that is not counted. */
	if (!account)
		return PASS;
	if (has_room(socket, now, OVERHEAD + (u32)(end - at))) {
		account->passed++;
		return PASS;
	}
	account->dropped++;
	return set->counts_only ? PASS : DROP;
}

/* The kernel lets only programs under its own licence read its memory. */
char _license[] SEC("license") = "Dual MIT/GPL";
