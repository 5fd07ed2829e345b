/* Packets of the kernel: what programs about them know, and the headers of their frames. */

#include "kernel.h"

/* The interface of the kernel, as far as it is used here. */
struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present;
};

static long (*const load)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;

#define htons(value) __builtin_bswap16(value)

enum { TYPE_IPV4 = 0x0800, TYPE_ARP = 0x0806, TYPE_IPV6 = 0x86dd };

/* Addresses of IPv4 are mapped. */
struct address {
	u32 word[4];
};

#define MAPPED(v4) { { 0, 0, htons(0xffff) << 16, v4 } }

/* The unicast addresses of the host. */
struct {
	UINT(type, HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, NO_PREALLOC);
	struct address *key;
	u8 *value;
} addresses SEC(".maps");

struct ethernet {
	u8 destination[6], source[6];
	u16 type;
} __attribute__((packed));

struct ipv4 {
	u8 version_length, service;
	u16 length, identification, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 source, destination;
} __attribute__((packed));

struct ipv6 {
	u8 version, flow[3];
	u16 length;
	u8 next, hops, source[16], destination[16];
} __attribute__((packed));
