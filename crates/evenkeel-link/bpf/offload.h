/*
 * Forwarding in XDP: packets to destinations about which the host has decided leave by another device at once.
 *
 * The model is `Stack::forward` of evenkeel-core, and a test compares both. What is not as plain as here goes on to
 * the host: options, hop-by-hop headers, a TTL that ends, packets larger than the MTU, sources that no host has.
 *
 * If the host screens, a packet also needs a verdict about its flow, by which it is let through or dropped. Only
 * whole packets of TCP and UDP belong to a flow.
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

/* The host's addresses, also those for broadcasts: the program may not demultiplex, and lack the others. */
struct {
	UINT(type, HASH);
	UINT(max_entries, 65536);
	UINT(map_flags, NO_PREALLOC);
	struct end *key;
	u8 *value;
} locals SEC(".maps");

enum { FORWARDED, REFUSED, OUTCOMES };

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, OUTCOMES);
	u32 *key;
	u64 *value;
} outcomes SEC(".maps");

/* A flow: all that the masks leave of its fields. */
struct flow {
	struct address source, destination;
	u16 from, to; /* ports */
	u8 protocol, family;
	u16 unused;
};

/*
 * A verdict: the account in the low 16 bits, above it whether the flow passes, and in the high half the generation.
 * Those of earlier generations have been taken back.
 */
typedef u64 verdict;

#define PASSES 0x10000

struct {
	UINT(type, LRU_HASH);
	UINT(max_entries, 16384);
	struct flow *key;
	verdict *value;
} verdicts SEC(".maps");

/* The generation of verdicts, or zero if none are needed; and what they depend on, for each family. */
struct screen {
	u32 generation;
	struct flow masks[2];
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct screen *value;
} screen SEC(".maps");

struct hits {
	u64 packets, bytes;
};

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, 1024);
	u32 *key;
	struct hits *value;
} hits SEC(".maps");

/* A packet that a router may pass on. */
struct parcel {
	struct end source, destination;
	u32 length;
	u8 protocol;      /* zero if it belongs to no flow */
	const u16 *ports; /* of a flow */
};

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

/* Returns whether a router passes on what comes from or goes to an address of IPv4 (RFC 1812 5.3.7, RFC 3927 7). */
INLINE int is_host_v4(u32 address)
{
	u32 host = htonl(address), first = host >> 24;

	return first != 0 && first != 127 && first < 224 && host >> 16 != 0xa9fe;
}

/* The same of IPv6 (RFC 4291 2.5): none that is unspecified, of loopback, mapped, link-local or a group. */
INLINE int is_host_v6(const u8 *address)
{
	u32 word[3];

	__builtin_memcpy(word, address, sizeof(word));
	if (!(word[0] | word[1]) && (!word[2] || word[2] == htonl(0xffff)))
		return 0;
	return address[0] != 0xff && (word[0] & htonl(0xffc00000)) != htonl(0xfe800000);
}

/* Reads the flow of a packet, of which as many bytes are payload. */
INLINE void read_flow(struct parcel *parcel, u8 protocol, const u8 *payload, u32 length, const u8 *end)
{
	u32 header = protocol == 6 ? 20 : 8;

	parcel->protocol = 0;
	parcel->ports = (const u16 *)payload;
	if ((protocol == 6 || protocol == 17) && length >= header && payload + header <= end)
		parcel->protocol = protocol;
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

/* Reads a packet. Returns whether it is plain, and comes from a host. */
INLINE int read_ipv4(const struct ipv4 *header, const u8 *end, u32 there, struct parcel *parcel)
{
	u32 length = htons(header->length);

	if (!is_plain_ipv4(header) || length < sizeof(*header) || !is_plain(header, end, length, there) ||
	    header->ttl < 2 || !is_host_v4(header->source))
		return 0;
	set_v4(&parcel->destination, header->destination);
	set_v4(&parcel->source, header->source);
	parcel->length = length;
	read_flow(parcel, header->fragment & htons(0x3fff) ? 0 : header->protocol, (const u8 *)(header + 1),
		  length - sizeof(*header), end);
	return 1;
}

INLINE int read_ipv6(const struct ipv6 *header, const u8 *end, u32 there, struct parcel *parcel)
{
	u32 length = sizeof(*header) + htons(header->length);

	/* A hop-by-hop header is for each router. */
	if ((u8 *)header + sizeof(*header) > end || header->version >> 4 != 6 || header->next == 0 ||
	    !is_plain(header, end, length, there) || header->hops < 2 || !is_host_v6(header->source))
		return 0;
	set_v6(&parcel->destination, header->destination);
	set_v6(&parcel->source, header->source);
	parcel->length = length;
	read_flow(parcel, header->next, (const u8 *)(header + 1), length - sizeof(*header), end);
	return 1;
}

/* Takes one off the TTL or the hop limit. */
INLINE void count_hop(struct ethernet *ethernet)
{
	struct ipv4 *header = (struct ipv4 *)(ethernet + 1);
	u32 sum;

	if (ethernet->type != htons(0x0800)) {
		((struct ipv6 *)(ethernet + 1))->hops--;
		return;
	}
	/* RFC 1624 */
	header->ttl--;
	sum = (u16)~htons(header->checksum) + 0xfeff;
	sum = (sum & 0xffff) + (sum >> 16);
	header->checksum = htons((u16)~sum);
}

/* Returns the verdict about a packet, or zero if none holds. */
INLINE verdict verdict_about(const struct parcel *parcel, const struct screen *screen)
{
	const struct flow *mask = &screen->masks[parcel->source.family & 1];
	const volatile verdict *found;
	verdict verdict;
	struct flow flow = {};

	if (!parcel->protocol)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < 4; i++) {
		flow.source.word[i] = parcel->source.address.word[i] & mask->source.word[i];
		flow.destination.word[i] = parcel->destination.address.word[i] & mask->destination.word[i];
	}
	flow.from = parcel->ports[0] & mask->from;
	flow.to = parcel->ports[1] & mask->to;
	flow.protocol = parcel->protocol;
	flow.family = parcel->source.family;
	found = lookup(&verdicts, &flow);
	/* The entry may become another flow's at any time: it is read once. */
	verdict = found ? *found : 0;
	return verdict >> 32 == screen->generation ? verdict : 0;
}

/* Returns whether the destination of a packet may be that of one in transit. */
INLINE int is_in_transit(const struct end *destination)
{
	const struct address *address = &destination->address;
	int is_host = destination->family == V4 ? is_host_v4(address->word[3]) : is_host_v6((const u8 *)address);

	return is_host && !lookup(&locals, destination);
}

INLINE void count_outcome(u32 outcome)
{
	u64 *count = lookup(&outcomes, &outcome);

	if (count)
		++*count;
}

INLINE void count_hit(verdict verdict, u32 length)
{
	u32 account = verdict & 0xffff;
	struct hits *of_account = lookup(&hits, &account);

	if (of_account) {
		of_account->packets++;
		of_account->bytes += length;
	}
}

/* Forwards or drops a frame if the host has decided about its destination and its flow. Returns zero if not. */
INLINE int forward(struct xdp_md *context, int buffers)
{
	u32 there = length_of(context, buffers) - sizeof(struct ethernet);
	u8 *bytes = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	struct ethernet *ethernet = (struct ethernet *)bytes;
	const struct settings *own;
	const struct screen *screens;
	struct parcel parcel;
	verdict verdict = 0;
	u64 address = 0;
	struct hop *hop;
	u32 zero = 0;

	own = lookup(&settings, &zero);
	screens = lookup(&screen, &zero);
	if (!own || !screens || bytes + sizeof(*ethernet) + sizeof(struct ipv4) > end)
		return 0;
	__builtin_memcpy(&address, ethernet->destination, sizeof(ethernet->destination));
	if (address != own->hardware)
		return 0;
	if (ethernet->type == htons(0x0800)) {
		if (!read_ipv4((struct ipv4 *)(ethernet + 1), end, there, &parcel))
			return 0;
	} else if (ethernet->type != htons(0x86dd) || !read_ipv6((struct ipv6 *)(ethernet + 1), end, there, &parcel)) {
		return 0;
	}
	if (screens->generation) {
		verdict = verdict_about(&parcel, screens);
		if (!verdict)
			return 0;
		if (!(verdict & PASSES)) {
			if (lookup(&locals, &parcel.source) || !is_in_transit(&parcel.destination))
				return 0;
			count_hit(verdict, parcel.length);
			count_outcome(REFUSED);
			return XDP_DROP;
		}
	}
	hop = lookup(&hops, &parcel.destination);
	if (!hop || parcel.length > hop->mtu || lookup(&locals, &parcel.source))
		return 0;
	count_hop(ethernet);
	__builtin_memcpy(ethernet, hop->hardware, sizeof(hop->hardware));
	if (!hop->used)
		hop->used = 1;
	if (verdict)
		count_hit(verdict, parcel.length);
	count_outcome(FORWARDED);
	return redirect(&devices, hop->device, XDP_DROP);
}
