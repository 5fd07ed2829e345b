/*
 * A guard in front of the kernel's own sockets: early discard for programs that stay on them. The program is here twice:
 * for XDP, and for the place behind it (tcx) on devices whose XDP program is another's.
 *
 * A datagram for a socket whose queue is full is dropped here, before the kernel has made a packet of it
 * (datagrams.h). A SYN for a listener whose queue of SYNs is full is answered here (listeners.h). Packets for
 * ports without a socket are let through as often as the kernel is to refuse them (closed.h), and so are segments of no
 * connection (strays.h), and requests for an echo as often as it is to answer. A datagram for a group is judged where it
 * is for one socket (groups.h). All else goes on untouched: segments of connections, fragments, IP options, broadcasts,
 * and tunnels. README.md of this directory describes how to compile it.
 */

#include "kernel.h"

/* The interface of the kernel, as far as it is used here. Offsets in its structures are found when it is loaded. */
struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

struct __sk_buff {
	u32 len, others[9], ifindex, more[8], data, data_end;
};

#define KERNEL __attribute__((preserve_access_index))

struct atomic {
	int counter;
} KERNEL;

/* The state of a listener. */
enum { LISTEN = 10 };

struct hlist_node {
	struct hlist_node *next, **pprev;
} KERNEL;

struct sock_common {
	u8 skc_state;
	struct hlist_node skc_node;
	u16 skc_num; /* the port in host byte order, until the socket is closed */
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct {
		struct atomic rmem_alloc;
	} sk_backlog;
	int sk_rcvbuf;
	u32 sk_ack_backlog, sk_max_ack_backlog;
} KERNEL;

struct tuple_v4 {
	u32 source, destination;
	u16 source_port, destination_port;
};

struct tuple_v6 {
	u32 source[4], destination[4];
	u16 source_port, destination_port;
};

/* What the kernel shows of a socket. */
struct bpf_sock {
	u32 device, family, type, protocol, mark, priority, source_v4, source_v6[4], source_port;
	u16 destination_port, unused;
	u32 destination_v4, destination_v6[4], state;
};

enum { PASS = 2, DROP = 1, TX = 3 };
/* The same behind XDP: other programs there may decide after this one. */
enum { NEXT = -1, SHOT = 2 };
/* The questions about a field of the kernel: where it begins, and whether it exists. */
enum { FIELD_OFFSET = 0, FIELD_EXISTS = 2 };

static long (*const read_kernel)(void *to, u32 len, const void *from) = (void *)113;
static long (*const release)(struct bpf_sock *sock) = (void *)86;
static long (*const pull)(struct __sk_buff *skb, u32 len) = (void *)39;

enum { ICMP = 1, TCP = 6, UDP = 17, ICMPV6 = 58 };
enum { ETHERNET_LEN = 14, TAG_LEN = 4, V4_LEN = 20, V6_LEN = 40, UDP_LEN = 8, TCP_LEN = 20 };
/* The time to live of what is sent here, which is Linux's default. */
enum { HOPS = 64 };
enum { CURRENT_NAMESPACE = -1 };

#define htons(value) __builtin_bswap16(value)
#define htonl(value) __builtin_bswap32(value)

struct settings {
	u32 counts_only; /* nothing is dropped or answered */
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
	u64 passed, dropped, answered;
};

/*
 * By protocol and port, in host byte order: datagrams for sockets and SYNs for listeners that were found there. At
 * port 0: those for all ports without one. By a number beyond those of protocols: what else is limited.
 */
struct {
	UINT(type, PERCPU_HASH);
	UINT(max_entries, 131072);
	UINT(map_flags, NO_PREALLOC);
	u32 *key;
	struct account *value;
} accounts SEC(".maps");

/* The datagrams for all sockets together. */
struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct account *value;
} datagrams SEC(".maps");

/* A packet, of UDP if it is for a group. */
struct packet {
	struct tuple_v6 tuple; /* of IPv4, addresses are in the first words, and the others are zero */
	u32 port, is_v6, is_for_group;
	u32 protocol; /* or what else it is counted as */
	u32 ip_at, transport_at; /* where in the frame the headers are */
	u32 segment_len, flags;	 /* of TCP: the length of the header, and what kind of segment it is */
};

/* One of the programs, and its frame. Its address goes nowhere, so that the compiler sees which program it is. */
struct hook {
	void *context;
	u32 is_skb; /* whether the kernel has made a packet of the frame already */
};

/* What becomes of a packet. */
enum fate { UNKNOWN, PASSED, DROPPED, ANSWERED };

INLINE u16 number(const u8 *at)
{
	return (u16)at[0] << 8 | at[1];
}

INLINE u32 word(const u8 *at)
{
	return *(const u32 *)at;
}

/* An address of this machine is in the program's map. Others' packets may find a socket of any address, too. */
INLINE int is_ours(const struct packet *packet)
{
	const u32 *word = packet->tuple.destination;
	struct address address = { { word[0], word[1], word[2], word[3] }, packet->is_v6 };

	return lookup(&addresses, &address) != 0;
}

/* What a program's context is in the kernel. */
struct xdp_rxq_info {
	struct net_device *dev;
} KERNEL;

struct xdp_buff {
	struct xdp_rxq_info *rxq;
	u32 frame_sz; /* the memory of the frame, with room in front of it and behind it */
} KERNEL;

struct sk_buff {
	struct net_device *dev;
	u64 _skb_refdst;
	u8 *head;
	u16 transport_header, network_header;
	u32 truesize; /* the memory that is charged for it */
} KERNEL;

/* Has a packet counted under what is limited, and not under a port. */
enum { OTHER_THAN_PORTS = 256 };

#include "limits.h"

INLINE void account_as(struct packet *packet, enum limit limit)
{
	packet->protocol = OTHER_THAN_PORTS + limit;
	packet->port = 0;
}

#include "closed.h"
#include "backlogs.h"
#include "groups.h"
#include "datagrams.h"
#include "listeners.h"
#include "strays.h"

/* Parses the header of IP. Returns where the transport's is, or 0 if the packet is not to be judged here. */
INLINE const u8 *parse_ip(const u8 *at, const u8 *end, u16 type, struct packet *packet)
{
	struct tuple_v6 *tuple = &packet->tuple;

	if (type == 0x0800) {
		/* Broadcasts lead to several sockets. */
		if (at + V4_LEN > end || at[0] != 0x45 || number(at + 6) & 0x3fff || at[16] >= 240)
			return 0;
		packet->is_for_group = at[16] >= 224;
		packet->protocol = at[9];
		tuple->source[0] = word(at + 12);
		tuple->destination[0] = word(at + 16);
		return at + V4_LEN;
	}
	if (type != 0x86dd || at + V6_LEN > end || at[0] >> 4 != 6)
		return 0;
	packet->is_for_group = at[24] == 0xff;
	packet->protocol = at[6];
	for (int i = 0; i < 4; i++) {
		tuple->source[i] = word(at + 8 + 4 * i);
		tuple->destination[i] = word(at + 24 + 4 * i);
	}
	packet->is_v6 = 1;
	return at + V6_LEN;
}

/* Returns whether a packet of ICMP wants an echo. */
INLINE int wants_echo(const struct packet *packet, const u8 *message)
{
	if (packet->is_v6)
		return packet->protocol == ICMPV6 && message[0] == 128;
	return packet->protocol == ICMP && message[0] == 8;
}

/* Parses a frame. Returns whether it holds a packet that is to be judged here, and is no part of one. */
INLINE int parse(const u8 *frame, const u8 *end, struct packet *packet)
{
	const u8 *at = frame + ETHERNET_LEN, *transport;
	u16 type;

	if (at > end)
		return 0;
	type = number(frame + 12);
	for (int tags = 0; tags < 2 && (type == 0x8100 || type == 0x88a8); tags++) {
		if (at + TAG_LEN > end)
			return 0;
		type = number(at + 2);
		at += TAG_LEN;
	}
	transport = parse_ip(at, end, type, packet);
	if (!transport || transport + UDP_LEN > end || packet->is_for_group != (frame[0] & 1))
		return 0;
	if (packet->is_for_group && packet->protocol != UDP)
		return 0;
	if (packet->protocol == TCP) {
		if (transport + TCP_LEN > end)
			return 0;
		packet->segment_len = transport[12] >> 4 << 2;
		packet->flags = transport[13] & KIND;
	} else if (wants_echo(packet, transport)) {
		account_as(packet, ECHOES);
		return 1;
	} else if (packet->protocol != UDP) {
		return 0;
	}
	packet->ip_at = at - frame;
	packet->transport_at = transport - frame;
	packet->tuple.source_port = *(const u16 *)transport;
	packet->tuple.destination_port = *(const u16 *)(transport + 2);
	packet->port = number(transport + 2);
	return 1;
}

INLINE struct account *account_of(const struct packet *packet)
{
	u32 key = packet->protocol << 16 | packet->port;
	struct account *account = lookup(&accounts, &key);

	if (!account) {
		struct account empty = {};

		update(&accounts, &key, &empty, 0);
		account = lookup(&accounts, &key);
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

INLINE void add(struct account *account, enum fate fate)
{
	account->passed += fate == PASSED;
	account->dropped += fate == DROPPED;
	account->answered += fate == ANSWERED;
}

/* Counts what becomes of a packet. Returns it: nothing is dropped that cannot be counted. */
INLINE enum fate count(const struct packet *packet, enum fate fate)
{
	u32 zero = 0;
	struct account *account, *all;

	if (fate == UNKNOWN)
		return PASSED;
	account = account_of(packet);
	if (!account)
		return PASSED;
	add(account, fate);
	all = lookup(&datagrams, &zero);
	if (all && packet->protocol == UDP && packet->port)
		add(all, fate);
	return fate;
}

/* Decides about a packet, and counts it. Returns what is to be done. */
INLINE enum fate judge(const struct hook *hook, struct packet *packet, u32 *cookie)
{
	struct settings *set;
	enum fate fate;
	u32 zero = 0;
	u64 now;

	if (is_plain_segment(packet))
		return PASSED;
	set = lookup(&settings, &zero);
	if (!set || !is_guarded(set, packet->port))
		return PASSED;
	now = monotonic();
	if (packet->protocol == UDP)
		fate = fate_of_datagram(hook, packet, now);
	else if (packet->protocol != TCP)
		fate = is_ours(packet) ? fate_of_echo(packet, now) : UNKNOWN;
	else if (packet->flags == SYN)
		fate = fate_of_syn(hook, packet, now, cookie);
	else
		fate = fate_of_segment(hook, packet, now);
	fate = count(packet, fate);
	return set->counts_only ? PASSED : fate;
}

SEC("xdp")
int guard(struct xdp_md *context)
{
	struct hook hook = { context, 0 };
	struct packet packet = {};
	enum fate fate;
	u32 cookie = 0;

	if (!parse((void *)(long)context->data, (void *)(long)context->data_end, &packet))
		return PASS;
	fate = judge(&hook, &packet, &cookie);
	if (fate == PASSED)
		return PASS;
	return fate == ANSWERED ? answer(context, &packet, cookie) : DROP;
}

/* The headers that are looked at, at most. */
enum { HEADERS_LEN = ETHERNET_LEN + 2 * TAG_LEN + V6_LEN + TCP_LEN };

/*
 * The same behind the XDP program of somebody else: the kernel has made a packet of the frame, and may have brought it
 * to another processor.
 */
SEC("classifier")
int guard_skb(struct __sk_buff *skb)
{
	struct hook hook = { skb, 1 };
	struct packet packet = {};
	u32 cookie = 0, linear = skb->data_end - skb->data, wanted = skb->len;

	if (wanted > HEADERS_LEN)
		wanted = HEADERS_LEN;
	/* Some drivers leave the headers in fragments of the packet. */
	if (linear < wanted && pull(skb, wanted))
		return NEXT;
	if (!parse((void *)(long)skb->data, (void *)(long)skb->data_end, &packet))
		return NEXT;
	return judge(&hook, &packet, &cookie) == DROPPED ? SHOT : NEXT;
}

/* The kernel lets only programs under its own licence read its memory. */
char _license[] SEC("license") = "Dual MIT/GPL";
