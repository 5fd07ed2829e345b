/*
 * A program that keeps the kernel's stack off the frames of a host which has the device's own hardware address.
 *
 * It runs at the ingress of traffic control, where packet sockets have their copy of a frame already. There it drops
 * what is for an address of the host. All else passes. README.md of this directory describes how to compile it.
 */

#include "skb.h"

/* Decisions, equal for tcx and for filters of clsact: the next program decides, or the frame is dropped. */
enum { NEXT = -1, DROP = 2 };

/* The kind of a frame to another hardware address: the kernel itself drops it. */
enum { OTHER_HOST = 3 };

enum { ICMPV6 = 58, SOLICITATION = 135, HEADERS = sizeof(struct ethernet) + sizeof(struct ipv6) };

/* The number of frames that were dropped. */
struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	u64 *value;
} kept SEC(".maps");

/* The program `keep`. The kernel empties this map when the process of the host ends, even by SIGKILL. */
struct {
	UINT(type, PROG_ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	u32 *value;
} running SEC(".maps");

struct arp {
	u16 hardware, protocol;
	u8 hardware_length, protocol_length;
	u16 operation;
	u8 sender_hardware[6], sender[4], target_hardware[6];
	u32 target;
} __attribute__((packed));

INLINE int drop_if_ours(const struct address *address)
{
	u32 zero = 0;
	u64 *count;

	if (!lookup(&addresses, address))
		return NEXT;
	count = lookup(&kept, &zero);
	if (count)
		*count += 1;
	return DROP;
}

INLINE int keep_v4(struct __sk_buff *skb)
{
	struct address address = MAPPED(0);
	u32 at = sizeof(struct ethernet) + __builtin_offsetof(struct ipv4, destination);

	return load(skb, at, &address.word[3], 4) ? NEXT : drop_if_ours(&address);
}

INLINE int keep_arp(struct __sk_buff *skb)
{
	struct address address = MAPPED(0);
	struct arp arp;

	if (load(skb, sizeof(struct ethernet), &arp, sizeof(arp)) || arp.protocol != htons(TYPE_IPV4) ||
	    arp.hardware_length != 6 || arp.protocol_length != 4)
		return NEXT;
	address.word[3] = arp.target;
	return drop_if_ours(&address);
}

/*
 * The kernel may be in the solicited-node group of our address, too: its own address may end alike. So the target
 * decides.
 */
INLINE int keep_v6(struct __sk_buff *skb)
{
	struct {
		u8 type, code;
		u16 checksum;
		u32 flags;
		struct address target;
	} solicitation;
	struct address address;
	struct ipv6 ip;

	if (load(skb, sizeof(struct ethernet), &ip, sizeof(ip)))
		return NEXT;
	__builtin_memcpy(&address, ip.destination, sizeof(address));
	if (ip.destination[0] == 0xff) {
		if (ip.next != ICMPV6 || load(skb, HEADERS, &solicitation, sizeof(solicitation)) ||
		    solicitation.type != SOLICITATION)
			return NEXT;
		address = solicitation.target;
	}
	return drop_if_ours(&address);
}

SEC("classifier") int keep(struct __sk_buff *skb)
{
	if (skb->pkt_type == OTHER_HOST || skb->vlan_present)
		return NEXT;
	switch (skb->protocol) {
	case htons(TYPE_IPV4):
		return keep_v4(skb);
	case htons(TYPE_ARP):
		return keep_arp(skb);
	case htons(TYPE_IPV6):
		return keep_v6(skb);
	}
	return NEXT;
}

/* A filter of clsact outlives a process that is killed. This one then does nothing more. */
SEC("classifier") int evenkeel_keep(struct __sk_buff *skb)
{
	tail_call(skb, &running, 0);
	return NEXT;
}

char _license[] SEC("license") = "MIT OR Apache-2.0";
