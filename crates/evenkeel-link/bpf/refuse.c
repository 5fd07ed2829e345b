/*
 * A filter in front of a packet socket or a TAP: it refuses the datagrams of full channels.
 *
 * It counts only what certainly leads to one channel: whole UDP datagrams without IP options, to our hardware address
 * and a unicast address of the host. All else passes. README.md of this directory describes how to compile it.
 */

#include "skb.h"

/* The bytes of a frame that go on. */
enum { REFUSED = 0, WHOLE = 0x7fffffff };

enum { SLOTS = 1024, UDP = 17 };

/* The time after which one more frame passes: all that were allowed may have been lost. */
enum { PROBE_NANOS = 1000000 };

struct settings {
	u64 hardware; /* our address */
	u32 limited;  /* slots with a limit */
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	UINT(map_flags, MMAPABLE);
	u32 *key;
	struct settings *value;
} settings SEC(".maps");

/* By port, in host byte order: the slots of its channels by family, plus one; or zero. */
struct {
	UINT(type, ARRAY);
	UINT(max_entries, 65536);
	UINT(map_flags, MMAPABLE);
	u32 *key;
	u16 (*value)[2];
} ports SEC(".maps");

struct slot {
	u32 limits; /* or else all pass, and none is counted */
	int left;
	u64 refused;
	u64 probed_at;
} __attribute__((aligned(64)));

struct {
	UINT(type, ARRAY);
	UINT(max_entries, SLOTS);
	UINT(map_flags, MMAPABLE);
	u32 *key;
	struct slot *value;
} slots SEC(".maps");

struct udp {
	u16 source, destination, length, checksum;
} __attribute__((packed));

struct headers_v4 {
	struct ethernet ethernet;
	struct ipv4 ip;
	struct udp udp;
} __attribute__((packed));

struct headers_v6 {
	struct ethernet ethernet;
	struct ipv6 ip;
	struct udp udp;
} __attribute__((packed));

/* Finds the limited slot of a port. */
INLINE struct slot *slot_of(u32 port, int family)
{
	u16(*channels)[2] = lookup(&ports, &port);
	struct slot *slot;
	u32 number;

	if (!channels || !(*channels)[family])
		return 0;
	number = (*channels)[family] - 1;
	slot = lookup(&slots, &number);
	return slot && slot->limits ? slot : 0;
}

INLINE int is_ours(const u8 *to, const struct address *address)
{
	u64 found = 0;
	u32 zero = 0;
	const struct settings *own = lookup(&settings, &zero);

	__builtin_memcpy(&found, to, 6);
	return own && found == own->hardware && lookup(&addresses, address);
}

INLINE u32 pass(struct slot *slot)
{
	u64 now;

	/* As many too many may pass at once as the machine has processors. */
	if (slot->left > 0) {
		__sync_fetch_and_add(&slot->left, -1);
		return WHOLE;
	}
	now = monotonic();
	if ((long long)(now - slot->probed_at) >= PROBE_NANOS) {
		slot->probed_at = now;
		return WHOLE;
	}
	__sync_fetch_and_add(&slot->refused, 1);
	return REFUSED;
}

/* Returns whether a datagram is whole in a packet of so many bytes behind the header of IP. */
INLINE int is_whole(const struct udp *udp, u32 bytes)
{
	u32 length = htons(udp->length);

	return length >= sizeof(*udp) && length <= bytes;
}

INLINE u32 pass_v4(struct __sk_buff *skb, const struct headers_v4 *headers)
{
	struct address address = MAPPED(headers->ip.destination);
	u32 length = htons(headers->ip.length);
	struct slot *slot;

	if (headers->ip.version_length != 0x45 || headers->ip.protocol != UDP || headers->ip.fragment & htons(0x3fff))
		return WHOLE;
	if (length < sizeof(headers->ip) || sizeof(headers->ethernet) + length > skb->len ||
	    !is_whole(&headers->udp, length - sizeof(headers->ip)))
		return WHOLE;
	slot = slot_of(htons(headers->udp.destination), 0);
	return slot && is_ours(headers->ethernet.destination, &address) ? pass(slot) : WHOLE;
}

INLINE u32 pass_v6(struct __sk_buff *skb)
{
	struct headers_v6 headers;
	struct address address;
	struct slot *slot;

	if (load(skb, 0, &headers, sizeof(headers)) || headers.ip.version >> 4 != 6 || headers.ip.next != UDP)
		return WHOLE;
	if (sizeof(headers.ethernet) + sizeof(headers.ip) + htons(headers.ip.length) > skb->len ||
	    !is_whole(&headers.udp, htons(headers.ip.length)))
		return WHOLE;
	slot = slot_of(htons(headers.udp.destination), 1);
	__builtin_memcpy(&address, headers.ip.destination, sizeof(address));
	return slot && is_ours(headers.ethernet.destination, &address) ? pass(slot) : WHOLE;
}

SEC("socket") u32 refuse(struct __sk_buff *skb)
{
	const struct settings *own;
	struct headers_v4 headers;
	u32 zero = 0;

	own = lookup(&settings, &zero);
	if (!own || !own->limited || skb->vlan_present || load(skb, 0, &headers, sizeof(headers)))
		return WHOLE;
	if (headers.ethernet.type == htons(TYPE_IPV4))
		return pass_v4(skb, &headers);
	if (headers.ethernet.type == htons(TYPE_IPV6))
		return pass_v6(skb);
	return WHOLE;
}

char _license[] SEC("license") = "MIT OR Apache-2.0";
