/*
 * The demultiplexing function in XDP: from a frame to the ring of its channel.
 *
 * The model is `DemuxTable::classify` of evenkeel-core, and a test compares both. Frames of the kernel pass.
 * README.md of this directory describes how to compile it.
 */

#include "kernel.h"

/* The interface of the kernel, as far as it is used here. */
struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

enum { XDP_DROP = 1, XDP_PASS = 2, XDP_TX = 3, XDP_REDIRECT = 4 };

static long (*const redirect)(void *map, u64 key, u64 flags) = (void *)51;
static u64 (*const buffers_length)(struct xdp_md *context) = (void *)188;

#define htons(value) __builtin_bswap16(value)
#define htonl(value) __builtin_bswap32(value)

/* A decision: what happens, and in the low half the slot or the reason. */
enum { UNDECIDED = 0, TO_SLOT = 0x10000, PASS = 0x20000, DROP = 0x30000 };
enum { UNKNOWN_ETHERTYPE, MALFORMED, NOT_LOCAL, UNUSED_QUEUE, TOO_LONG, ANSWERED, WRONG_COOKIE, REASONS };

enum { SLOTS = 64, QUEUES = 16 };
enum { V4, V6 };
enum { UDP, OPENING, OTHER, USES };

/* Bytes of a frame that a chunk of AF_XDP holds: 2 KiB, without the headroom of the kernel. */
enum { FRAME_MAX = 2048 - 256 };

/*
 * Whether frames may be in several buffers. Of such a frame only the first is between `data` and `data_end`, and it
 * takes as many entries of a ring as it fills chunks of 4 KiB.
 */
enum { ONE, SEVERAL };
enum { PART_MAX = 4096 - 256 };

/* Bytes that the first buffer of several has at least, and bytes of a transport header that the decision needs. */
enum { FIRST_MIN = 192, TRANSPORT = 60 };

/* Headers of IPv6 that are followed at most. */
enum { HEADERS_MAX = 18 };

/* In maps, a channel is the number of its slot plus one; zero is no channel. */
typedef u32 channel;

/* In `ports`: the answer is in `bindings`. */
#define IN_BINDINGS 0xffffffff

/* Addresses of IPv4 are mapped. */
struct address {
	u32 word[4];
};

/* An address and port; fields that do not matter are zero. */
struct end {
	struct address address;
	u16 port; /* in network byte order */
	u8 use;
	u8 family;
};

struct connection {
	struct end local, remote;
};

struct fragment {
	struct address source, destination;
	u32 identification;
	u32 protocol;
};

/* Only datagrams from the peer are for a connected socket. */
struct binding {
	channel channel;
	u32 is_connected;
	struct end peer;
};

/* What the kernel shares with us: nothing, our hardware address, or all addresses, and we have some ports. */
enum { NOTHING, MAC, ADDRESSES };

struct settings {
	channel neighbor, control, path, fragment, forward;
	u16 sharing;
	u16 demultiplexes; /* or else the host does */
	u64 hardware; /* the first of our hardware addresses, which is found without the map */
	u32 longest;  /* bytes of a frame in several buffers */
	u32 unused;
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct settings *value;
} settings SEC(".maps");

/* Our hardware addresses, padded with zeros. */
struct {
	UINT(type, HASH);
	UINT(max_entries, 64);
	u64 *key;
	u8 *value;
} hardware SEC(".maps");

/* Addresses and groups of the host, with their kinds. */
enum { UNICAST = 1, BROADCAST };

struct {
	UINT(type, HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, NO_PREALLOC);
	struct end *key;
	u8 *value;
} addresses SEC(".maps");

/* By use and port: the channel of any address of each family. */
struct {
	UINT(type, ARRAY);
	UINT(max_entries, USES * 65536);
	u32 *key;
	channel (*value)[2];
} ports SEC(".maps");

/* All bindings of ports that have one to an address, or to a connected socket. The address of any is zero. */
struct {
	UINT(type, HASH);
	UINT(max_entries, 262144);
	UINT(map_flags, NO_PREALLOC);
	struct end *key;
	struct binding *value;
} bindings SEC(".maps");

struct {
	UINT(type, HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, NO_PREALLOC);
	struct connection *key;
	channel *value;
} connections SEC(".maps");

/* Datagrams in fragments whose first one has come. */
struct {
	UINT(type, LRU_HASH);
	UINT(max_entries, 1024);
	struct fragment *key;
	channel *value;
} fragments SEC(".maps");

struct {
	UINT(type, XSKMAP);
	UINT(max_entries, QUEUES * SLOTS);
	u32 *key;
	u32 *value;
} sockets SEC(".maps");

/* The device itself: a veth sends what is redirected to it, but not always what XDP_TX returns. */
struct {
	UINT(type, DEVMAP);
	UINT(max_entries, 1);
	u32 *key;
	struct {
		u32 device;
		u32 program;
	} *value;
} own SEC(".maps");

/*
 * How full a ring is: the program counts what it has put there, the host what it has taken. Each writes lines of
 * its own, and reads those of the other.
 */
struct arrivals {
	u32 entries;
	u64 refused;
	u64 answered;      /* SYNs, by a cookie */
	u64 pressed_until; /* on the machine's clock */
} __attribute__((aligned(64)));

struct mark {
	u32 taken, limit; /* a ring without a limit is none */
	u64 behind;       /* the host's clock is so much behind the machine's; 0 if the ring is not relieved */
	u64 granted;      /* when the host last wrote that, on the machine's clock */
} __attribute__((aligned(64)));

struct {
	UINT(type, ARRAY);
	UINT(max_entries, QUEUES * SLOTS);
	UINT(map_flags, MMAPABLE);
	u32 *key;
	struct arrivals *value;
} arrivals SEC(".maps");

struct {
	UINT(type, ARRAY);
	UINT(max_entries, QUEUES * SLOTS);
	UINT(map_flags, MMAPABLE);
	u32 *key;
	struct mark *value;
} marks SEC(".maps");

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, REASONS);
	u32 *key;
	u64 *value;
} counters SEC(".maps");

struct ethernet {
	u8 destination[6], source[6];
	u16 type;
};

struct arp {
	u16 hardware, protocol;
	u8 lengths[2], operation[2], sender[10], receiver[6], target[4];
};

struct ipv4 {
	u8 version_length, service;
	u16 length, identification, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 source, destination;
};

struct ipv6 {
	u8 version, flow[3];
	u16 length;
	u8 next, hops, source[16], destination[16];
};

struct frame {
	const u8 *end;
	const struct settings *settings;
	u32 there;    /* bytes behind the Ethernet header; those behind `end` are in other buffers */
	int is_group; /* by its hardware address */
	int is_ours;  /* and the kernel has no use for it */
};

/* A packet to the host; its payload may be behind the end of the frame. */
struct packet {
	const u8 *payload, *end;
	u32 length; /* of the payload */
	u8 protocol;
	int is_fragment;
	struct fragment key;
	struct end local, remote;
};

INLINE u32 to_slot(channel channel)
{
	return TO_SLOT | (channel ? channel - 1 : 0);
}

INLINE u32 discard(const struct frame *frame, u32 reason)
{
	return frame->is_ours ? DROP | reason : PASS;
}

/* Returns whether a packet of this length is not whole in the first buffer. */
INLINE int is_parted(const struct frame *frame, const u8 *bytes, u32 length)
{
	return length > (u64)(frame->end - bytes);
}

INLINE int is_group(const struct end *end)
{
	if (end->family == V4)
		return (end->address.word[3] & htonl(0xf0000000)) == htonl(0xe0000000);
	return (end->address.word[0] & htonl(0xff000000)) == htonl(0xff000000);
}

INLINE int is_broadcast(const struct end *end)
{
	return end->family == V4 && end->address.word[3] == 0xffffffff;
}

INLINE int is_same(const struct end *a, const struct end *b)
{
	const u32 *x = (const u32 *)a, *y = (const u32 *)b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]));
}

INLINE void set_v4(struct end *end, u32 address)
{
	*end = (struct end){ .address = { { 0, 0, htonl(0xffff), address } }, .family = V4 };
}

INLINE void set_v6(struct end *end, const u8 *address)
{
	*end = (struct end){ .family = V6 };
	__builtin_memcpy(&end->address, address, sizeof(end->address));
}

#include "cookies.h"

/* Returns whether the first bytes of the payload are there. */
INLINE int has(const struct packet *packet, u32 bytes)
{
	return packet->length >= bytes && packet->payload + bytes <= packet->end;
}

/* Returns the channel that is bound to the packet's destination. */
INLINE channel bound(struct packet *packet, u8 use, u16 from, u16 to)
{
	u32 index = use << 16 | htons(to);
	const channel *any = lookup(&ports, &index);
	int group = is_group(&packet->local);
	const struct binding *binding;
	channel found;

	if (!any)
		return 0;
	found = packet->local.family == V4 ? any[V4] : any[V6];
	if (found != IN_BINDINGS)
		return group ? 0 : found;
	packet->local.use = use;
	packet->local.port = to;
	binding = lookup(&bindings, &packet->local);
	if (!binding && !group) {
		packet->local.address = (struct address){ 0 };
		binding = lookup(&bindings, &packet->local);
	}
	if (!binding)
		return 0;
	packet->remote.port = from;
	if (binding->is_connected && !is_same(&binding->peer, &packet->remote))
		return 0;
	return binding->channel;
}

/* Returns the channel of a segment: of its connection, or of the listener. */
INLINE channel of_segment(struct packet *packet, u16 from, u16 to, u8 flags)
{
	int opens = (flags & 0x12) == 0x02;
	struct connection connection = { packet->local, packet->remote };
	const channel *found;

	connection.local.port = to;
	connection.remote.port = from;
	found = lookup(&connections, &connection);
	return found ? *found : bound(packet, opens ? OPENING : OTHER, from, to);
}

/* Returns whether a message of ICMP reports an error about a packet. */
INLINE int is_error(struct packet *packet)
{
	u8 type = packet->payload[0];

	return packet->local.family == V4 ? type == 3 || type == 11 || type == 12 : type < 128;
}

/* Returns whether an ICMP error is about a packet that one of our sockets has sent. */
INLINE int is_about_ours(struct packet *packet)
{
	const u8 *quoted = packet->payload + 8;
	struct packet sent = {};
	const u16 *port;
	u8 protocol;

	if (packet->local.family == V4) {
		const struct ipv4 *header = (const struct ipv4 *)quoted;

		if (!has(packet, 8 + sizeof(*header) + 4) || !is_error(packet) || header->version_length != 0x45)
			return 0;
		set_v4(&sent.local, header->source);
		set_v4(&sent.remote, header->destination);
		protocol = header->protocol;
		port = (const u16 *)(header + 1);
	} else {
		const struct ipv6 *header = (const struct ipv6 *)quoted;

		if (!has(packet, 8 + sizeof(*header) + 4) || !is_error(packet) || header->version >> 4 != 6)
			return 0;
		set_v6(&sent.local, header->source);
		set_v6(&sent.remote, header->destination);
		protocol = header->next;
		port = (const u16 *)(header + 1);
	}
	if (!lookup(&addresses, &sent.local))
		return 0;
	if (protocol == 6)
		return of_segment(&sent, port[1], port[0], 0) != 0;
	return protocol == 17 && bound(&sent, UDP, port[1], port[0]) != 0;
}

/*
 * Returns the channel of a packet by its transport header. If there is no other, it is that of control traffic;
 * or none, if the kernel has our addresses and what is not for a socket.
 */
INLINE channel of_transport(struct packet *packet, const struct settings *settings)
{
	int is_shared = settings->sharing == ADDRESSES;
	const u8 *payload = packet->payload;
	const u16 *port = (const u16 *)payload;
	int is_report = 0; /* of a path MTU */
	channel found = 0;

	switch (packet->protocol) {
	case 1:
		is_report = has(packet, 2) && payload[0] == 3 && payload[1] == 4;
		if (is_shared && !is_about_ours(packet))
			return 0;
		break;
	case 6:
		if (!packet->is_fragment && has(packet, 14))
			found = of_segment(packet, port[0], port[1], payload[13]);
		break;
	case 17:
		if (has(packet, 4))
			found = bound(packet, UDP, port[0], port[1]);
		break;
	case 58:
		if (has(packet, 1) && payload[0] >= 133 && payload[0] <= 137)
			return is_shared ? 0 : settings->neighbor;
		is_report = has(packet, 1) && payload[0] == 2;
		if (is_shared && !is_about_ours(packet))
			return 0;
		break;
	default:
		if (is_shared)
			return 0;
	}
	if (is_report && !packet->is_fragment)
		found = settings->path;
	if (found || (is_shared && (packet->protocol == 6 || packet->protocol == 17)))
		return found;
	return settings->control;
}

/* Returns the decision about a packet for `channel`. The later fragments of a first one follow it. */
INLINE u32 record(const struct packet *packet, channel channel)
{
	if (packet->is_fragment && channel)
		update(&fragments, &packet->key, &channel, 0);
	return to_slot(channel);
}

INLINE u32 later_fragment(const struct packet *packet, const struct settings *settings)
{
	const channel *found = lookup(&fragments, &packet->key);

	if (!found && settings->sharing == ADDRESSES)
		return PASS;
	return to_slot(found ? *found : settings->fragment);
}

/* Decides about a packet to none of the host's addresses. */
INLINE u32 in_transit(const struct frame *frame, const struct end *destination)
{
	channel forward = frame->settings->forward;

	if (frame->settings->sharing == ADDRESSES)
		return PASS;
	if (!forward || frame->is_group || is_group(destination) || is_broadcast(destination))
		return discard(frame, NOT_LOCAL);
	return to_slot(forward);
}

/* Parses a packet, up to its transport header if the decision depends on it. */
INLINE u32 of_ipv4(const struct frame *frame, const u8 *bytes, struct packet *packet)
{
	const struct ipv4 *header = (const struct ipv4 *)bytes;
	u32 length, header_length;
	u16 field;

	if (bytes + sizeof(*header) > frame->end)
		return discard(frame, MALFORMED);
	header_length = (header->version_length & 0x0f) * 4;
	length = htons(header->length);
	if (header->version_length >> 4 != 4 || header_length < sizeof(*header) || length < header_length ||
	    length > frame->there)
		return discard(frame, MALFORMED);
	set_v4(&packet->local, header->destination);
	if (!lookup(&addresses, &packet->local))
		return in_transit(frame, &packet->local);
	set_v4(&packet->remote, header->source);
	packet->payload = bytes + header_length;
	packet->end = frame->end;
	packet->length = length - header_length;
	packet->protocol = header->protocol;
	field = htons(header->fragment) & 0x3fff;
	packet->is_fragment = field != 0;
	if (packet->is_fragment)
		packet->key = (struct fragment){ packet->remote.address, packet->local.address,
						header->identification, header->protocol };
	if (field & 0x1fff)
		return later_fragment(packet, frame->settings);
	return UNDECIDED;
}

/* The headers behind the fixed one of IPv6. */
struct chain {
	const u8 *bytes, *end;
	u32 offset, length;
	u32 identification;
	u16 fragment; /* offset and flags */
	u8 next;
	u8 has_fragment;
};

enum step { ON, REACHED, STUCK };

/* Returns whether as many bytes are left of the packet. */
INLINE int has_left(const struct chain *chain, u32 bytes)
{
	return chain->offset + bytes <= chain->length && chain->bytes + chain->offset + bytes <= chain->end;
}

/* Follows one header: on to the next one, or to the upper layer's, or not if it is not there whole. */
INLINE enum step follow(struct chain *chain)
{
	const u8 *header = chain->bytes + chain->offset;

	switch (chain->next) {
	case 0:
	case 43:
	case 60:
		if (!has_left(chain, 2))
			return STUCK;
		chain->next = header[0];
		chain->offset += (header[1] + 1) * 8;
		return chain->offset <= chain->length ? ON : STUCK;
	case 44:
		if (chain->has_fragment || !has_left(chain, 8))
			return STUCK;
		chain->has_fragment = 1;
		chain->fragment = htons(*(const u16 *)(header + 2));
		chain->identification = *(const u32 *)(header + 4);
		chain->next = header[0];
		chain->offset += 8;
		return chain->fragment & 0xfff8 ? STUCK : ON;
	}
	return REACHED;
}

INLINE u32 of_ipv6(const struct frame *frame, const u8 *bytes, struct packet *packet)
{
	const struct ipv6 *header = (const struct ipv6 *)bytes;
	const struct settings *settings = frame->settings;
	struct chain chain = { .bytes = bytes, .end = frame->end };
	enum step step = ON;

	if (bytes + sizeof(*header) > frame->end)
		return discard(frame, MALFORMED);
	chain.offset = sizeof(*header);
	chain.length = sizeof(*header) + htons(header->length);
	chain.next = header->next;
	if (header->version >> 4 != 6 || chain.length > frame->there)
		return discard(frame, MALFORMED);
	set_v6(&packet->local, header->destination);
	if (!lookup(&addresses, &packet->local))
		return in_transit(frame, &packet->local);
	set_v6(&packet->remote, header->source);
#pragma clang loop unroll(disable)
	for (int i = 0; i < HEADERS_MAX && step == ON; i++)
		step = follow(&chain);
	/* With neither an offset nor more fragments, it is whole. */
	packet->is_fragment = chain.has_fragment && chain.fragment & 0xfff9;
	if (packet->is_fragment)
		packet->key = (struct fragment){ packet->remote.address, packet->local.address,
						chain.identification, 0 };
	if (chain.fragment & 0xfff8)
		return later_fragment(packet, settings);
	/* The host looks at headers in further buffers. */
	if (is_parted(frame, bytes, chain.length) && is_parted(frame, bytes, chain.offset + TRANSPORT))
		return settings->sharing == ADDRESSES ? PASS : TO_SLOT;
	packet->payload = bytes + chain.offset;
	packet->end = frame->end;
	packet->length = chain.length - chain.offset;
	packet->protocol = chain.next;
	/* Protocol input reports incomplete headers, and ignores neighbour discovery behind a fragment's. */
	if (step != REACHED || (chain.next == 58 && chain.has_fragment))
		return settings->sharing == ADDRESSES ? PASS : record(packet, settings->control);
	return UNDECIDED;
}

/* Decides about ARP. What is for everybody is ours if it asks for our address. */
INLINE u32 of_arp(const struct frame *frame, const u8 *bytes)
{
	const struct arp *arp = (const struct arp *)bytes;
	struct end target;
	u32 address;

	if (frame->settings->sharing == ADDRESSES)
		return PASS;
	if (!frame->is_ours) {
		if (bytes + sizeof(*arp) > frame->end || arp->hardware != htons(1) ||
		    arp->protocol != htons(0x0800) || arp->lengths[0] != 6 || arp->lengths[1] != 4)
			return PASS;
		__builtin_memcpy(&address, arp->target, sizeof(address));
		set_v4(&target, address);
		if (!lookup(&addresses, &target))
			return PASS;
	}
	return to_slot(frame->settings->neighbor);
}

/* Decides about a frame of `length` bytes, those in further buffers included. */
static __attribute__((noinline)) u32 decide(struct xdp_md *context, u32 length)
{
	const u8 *bytes = (const u8 *)(long)context->data;
	const struct ethernet *ethernet = (const struct ethernet *)bytes;
	struct frame frame = { .end = (const u8 *)(long)context->data_end };
	struct packet packet = {};
	u64 address = 0;
	u32 zero = 0, decision;
	channel found;

	frame.settings = lookup(&settings, &zero);
	if (!frame.settings || bytes + sizeof(*ethernet) > frame.end)
		return PASS;
	frame.is_group = ethernet->destination[0] & 1;
	__builtin_memcpy(&address, ethernet->destination, sizeof(ethernet->destination));
	if (!frame.is_group && address != frame.settings->hardware && !lookup(&hardware, &address))
		return PASS;
	if (!frame.settings->demultiplexes)
		return frame.settings->sharing == ADDRESSES ? PASS : TO_SLOT;
	frame.is_ours = !frame.is_group && frame.settings->sharing == NOTHING;
	if (is_parted(&frame, bytes, length) && bytes + FIRST_MIN > frame.end)
		return frame.is_ours ? TO_SLOT : PASS;
	frame.there = length - sizeof(*ethernet);
	bytes += sizeof(*ethernet);
	switch (htons(ethernet->type)) {
	case 0x0800:
		decision = of_ipv4(&frame, bytes, &packet);
		break;
	case 0x86dd:
		decision = of_ipv6(&frame, bytes, &packet);
		break;
	case 0x0806:
		return of_arp(&frame, bytes);
	default:
		return discard(&frame, UNKNOWN_ETHERTYPE);
	}
	if (decision != UNDECIDED)
		return decision;
	found = of_transport(&packet, frame.settings);
	if (!found && frame.settings->sharing == ADDRESSES)
		return PASS;
	return record(&packet, found);
}

INLINE int count(u32 reason, int verdict)
{
	u64 *counter = lookup(&counters, &reason);

	if (counter)
		++*counter;
	return verdict;
}

INLINE int drop(u32 reason)
{
	return count(reason, XDP_DROP);
}

/* A listener's ring is relieved for so long after it was half full, ... */
#define PRESSED (1000 * MILLISECOND)
/* ... if the host has taken a segment not longer ago than this: both clocks drift apart. */
#define GRANTED (4000 * MILLISECOND)

/*
 * Answers a SYN with a cookie, or drops a segment that brings none back, if the ring of the listener was half full
 * not long ago. Returns the verdict, or 0 for a frame that is left to the host.
 */
INLINE int relieve(struct xdp_md *context, u32 slot, struct arrivals *arrived, const struct mark *mark)
{
	u64 behind = mark->behind, now;

	if (!behind)
		return 0;
	now = monotonic();
	if ((int)(arrived->entries - mark->taken) >= (int)(mark->limit / 2))
		arrived->pressed_until = now + PRESSED;
	if (now >= arrived->pressed_until || now - mark->granted > GRANTED)
		return 0;
	switch (represent(context, slot, now - behind, now)) {
	case ANSWER:
		arrived->answered++;
		return count(ANSWERED, redirect(&own, 0, XDP_TX));
	case REFUSE:
		return drop(WRONG_COOKIE);
	}
	return 0;
}

INLINE u32 length_of(struct xdp_md *context, int buffers)
{
	return buffers == SEVERAL ? buffers_length(context) : context->data_end - context->data;
}

/* Returns the number of entries of a ring that a frame takes, or zero if it is longer than any should be. */
INLINE u32 entries_of(u32 length, int buffers)
{
	const struct settings *own;
	u32 zero = 0;

	if (buffers == ONE)
		return length <= FRAME_MAX;
	own = lookup(&settings, &zero);
	return own && length - 1 < own->longest ? (length - 1) / PART_MAX + 1 : 0;
}

/* Puts a frame into the ring of a slot, or into the one that all others share; or nowhere if that is full. */
INLINE int deliver(struct xdp_md *context, u32 slot, int relieves, int buffers)
{
	u32 shared = context->rx_queue_index * SLOTS, at = shared + slot;
	u32 length = length_of(context, buffers), entries = entries_of(length, buffers);
	const struct mark *mark = lookup(&marks, &at);
	struct arrivals *arrived;
	int verdict;

	if (!entries)
		return drop(TOO_LONG);
	if (!mark || !mark->limit) {
		at = shared;
		mark = lookup(&marks, &at);
	}
	arrived = lookup(&arrivals, &at);
	if (!mark || !arrived || !mark->limit)
		return drop(UNUSED_QUEUE);
	/* A SYN is in one buffer. */
	if (relieves && length == context->data_end - context->data) {
		verdict = relieve(context, at - shared, arrived, mark);
		if (verdict)
			return verdict;
	}
	if ((int)(arrived->entries - mark->taken + entries) > (int)mark->limit) {
		__sync_fetch_and_add(&arrived->refused, 1);
		return XDP_DROP;
	}
	if (redirect(&sockets, at, XDP_DROP) != XDP_REDIRECT)
		return drop(UNUSED_QUEUE);
	arrived->entries += entries;
	return XDP_REDIRECT;
}

INLINE int take(struct xdp_md *context, int buffers)
{
	u32 decision = decide(context, length_of(context, buffers));

	switch (decision & 0xffff0000) {
	case PASS:
		return XDP_PASS;
	case DROP:
		return drop(decision & 0xffff);
	}
	return deliver(context, decision & 0xffff, 1, buffers);
}

SEC("xdp") int demux(struct xdp_md *context)
{
	return take(context, ONE);
}

SEC("xdp.frags") int demux_several(struct xdp_md *context)
{
	return take(context, SEVERAL);
}

#include "offload.h"

/* For a router that lets this program forward. */
SEC("xdp") int router(struct xdp_md *context)
{
	int done = forward(context, ONE);

	return done ? done : take(context, ONE);
}

SEC("xdp.frags") int router_several(struct xdp_md *context)
{
	int done = forward(context, SEVERAL);

	return done ? done : take(context, SEVERAL);
}

/* For a packet monitor: all frames of the device. */
SEC("xdp") int monitor(struct xdp_md *context)
{
	return deliver(context, 0, 0, ONE);
}

SEC("xdp.frags") int monitor_several(struct xdp_md *context)
{
	return deliver(context, 0, 0, SEVERAL);
}

/*
 * The programs of hosts that share a device, by its queues: each host has one, with maps of its own. Behind the
 * queues is the program for all others.
 */
struct {
	UINT(type, PROG_ARRAY);
	UINT(max_entries, QUEUES + 1);
	u32 *key;
	u32 *value;
} hosts SEC(".maps");

/* For several hosts: the program of the host that has the queue decides. */
INLINE int leave_to_host(struct xdp_md *context)
{
	tail_call(context, &hosts, context->rx_queue_index);
	tail_call(context, &hosts, QUEUES);
	return XDP_PASS;
}

SEC("xdp") int spread(struct xdp_md *context)
{
	return leave_to_host(context);
}

/* The kernel lets it call only programs that take frames in several buffers, too. */
SEC("xdp.frags") int spread_several(struct xdp_md *context)
{
	return leave_to_host(context);
}

/* Returns the decision, for tests. */
SEC("xdp.frags") int classify(struct xdp_md *context)
{
	return decide(context, length_of(context, SEVERAL));
}

char _license[] SEC("license") = "MIT OR Apache-2.0";
