/*
 * Forwarding in XDP: packets to destinations about which the host has decided leave by another device at once.
 *
 * The model is `Stack::forward` of evenkeel-core, and a test compares both. What is not as plain as here goes on to
 * the host: options, hop-by-hop headers, a TTL that ends, packets larger than the MTU, sources that no host has.
 */

enum { DEVMAP_HASH = 25 };

struct hop {
	u32 device;
	u32 mtu;
	u8 hardware[12]; /* of the neighbour, and ours: as they are in a frame */
	u32 used;        /* since the host last looked */
};

/* By destination, without port and use. */
struct {
	UINT(type, HASH);
	UINT(max_entries, 16384);
	UINT(map_flags, NO_PREALLOC);
	struct end *key;
	struct hop *value;
} hops SEC(".maps");

/* Devices by their own numbers. */
struct {
	UINT(type, DEVMAP_HASH);
	UINT(max_entries, 64);
	u32 *key;
	struct {
		u32 device;
		u32 program;
	} *value;
} devices SEC(".maps");

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	u64 *value;
} forwarded SEC(".maps");

/* Returns whether a header of IPv4 is whole, without options, and right. */
INLINE int is_plain_ipv4(const struct ipv4 *header)
{
	const u16 *word = (const u16 *)header;
	u32 sum = 0;

	if (header->version_length != 0x45)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < 10; i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

/* Returns whether a router passes on what comes from an address of IPv4 (RFC 1812 5.3.7, RFC 3927 7). */
INLINE int is_source_v4(u32 address)
{
	u32 host = htonl(address), first = host >> 24;

	return first != 0 && first != 127 && first < 224 && host >> 16 != 0xa9fe;
}

/* The same of IPv6 (RFC 4291 2.5): none that is unspecified, of loopback, mapped, link-local or a group. */
INLINE int is_source_v6(const u8 *address)
{
	u32 word[3];

	__builtin_memcpy(word, address, sizeof(word));
	if (!(word[0] | word[1]) && (!word[2] || word[2] == htonl(0xffff)))
		return 0;
	return address[0] != 0xff && (word[0] & htonl(0xffc00000)) != htonl(0xfe800000);
}

/* Returns the next hop of a packet to an end, if it is no larger than fits there and does not come from us. */
INLINE struct hop *hop_of(const struct end *destination, const struct end *source, u32 length)
{
	struct hop *hop = lookup(&hops, destination);

	return hop && length <= hop->mtu && !lookup(&addresses, source) ? hop : 0;
}

/*
 * Returns whether a frame that has `there` bytes behind its Ethernet header is as plain as its packet: that is there
 * whole, and it is in several buffers if the frame is. Devices with a small MTU need not take such frames.
 */
INLINE int is_plain(const void *header, const u8 *end, u32 length, u32 there)
{
	u64 first = end - (const u8 *)header;

	return length <= there && (there <= first || length > first);
}

INLINE struct hop *hop_of_ipv4(struct ipv4 *header, const u8 *end, u32 there)
{
	struct end destination, source;
	u32 length = htons(header->length);
	struct hop *hop;
	u32 sum;

	if (!is_plain_ipv4(header) || length < sizeof(*header) || !is_plain(header, end, length, there) || header->ttl < 2 ||
	    !is_source_v4(header->source))
		return 0;
	set_v4(&destination, header->destination);
	set_v4(&source, header->source);
	hop = hop_of(&destination, &source, length);
	if (!hop)
		return 0;
	/* RFC 1624 */
	header->ttl--;
	sum = (u16)~htons(header->checksum) + 0xfeff;
	sum = (sum & 0xffff) + (sum >> 16);
	header->checksum = htons((u16)~sum);
	return hop;
}

INLINE struct hop *hop_of_ipv6(struct ipv6 *header, const u8 *end, u32 there)
{
	u32 length = sizeof(*header) + htons(header->length);
	struct end destination, source;
	struct hop *hop;

	/* A hop-by-hop header is for each router. */
	if ((u8 *)header + sizeof(*header) > end || header->version >> 4 != 6 || header->next == 0 ||
	    !is_plain(header, end, length, there) || header->hops < 2 || !is_source_v6(header->source))
		return 0;
	set_v6(&destination, header->destination);
	set_v6(&source, header->source);
	hop = hop_of(&destination, &source, length);
	if (hop)
		header->hops--;
	return hop;
}

/* Forwards a frame if the host has decided about its destination. Returns zero if not. */
INLINE int forward(struct xdp_md *context, int buffers)
{
	u32 there = length_of(context, buffers) - sizeof(struct ethernet);
	u8 *bytes = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	struct ethernet *ethernet = (struct ethernet *)bytes;
	const struct settings *own;
	u64 address = 0, *count;
	struct hop *hop = 0;
	u32 zero = 0;

	own = lookup(&settings, &zero);
	if (!own || bytes + sizeof(*ethernet) + sizeof(struct ipv4) > end)
		return 0;
	__builtin_memcpy(&address, ethernet->destination, sizeof(ethernet->destination));
	if (address != own->hardware)
		return 0;
	if (ethernet->type == htons(0x0800))
		hop = hop_of_ipv4((struct ipv4 *)(ethernet + 1), end, there);
	else if (ethernet->type == htons(0x86dd))
		hop = hop_of_ipv6((struct ipv6 *)(ethernet + 1), end, there);
	if (!hop)
		return 0;
	__builtin_memcpy(ethernet, hop->hardware, sizeof(hop->hardware));
	if (!hop->used)
		hop->used = 1;
	count = lookup(&forwarded, &zero);
	if (count)
		++*count;
	return redirect(&devices, hop->device, XDP_DROP);
}
