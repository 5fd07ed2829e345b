/*
 * SYN cookies in XDP: the answer to a SYN, without the host.
 *
 * The model is `Listener` of evenkeel-tcp, and a test compares both, byte by byte. The host has the secret, too,
 * and accepts the ACK as if it had sent the SYN-ACK itself. What is unusual about a SYN is left to the host.
 */

static long (*const csum_diff)(const void *from, u32 from_size, const void *to, u32 to_size, u32 seed) = (void *)28;
static long (*const adjust_tail)(struct xdp_md *context, int delta) = (void *)65;
static long (*const load_bytes)(struct xdp_md *context, u32 offset, void *to, u32 len) = (void *)189;
static long (*const store_bytes)(struct xdp_md *context, u32 offset, const void *from, u32 len) = (void *)190;

/* Inputs of the hash, by the numbers of `Purpose` in evenkeel-tcp. */
enum { TIMESTAMP_OFFSET = 2, COOKIE_BASE = 3, COOKIE_DATA = 4 };

enum { TCP_MIN = 20, TCP_MAX = 60, NO_SCALE = 15, MSS_LEAST = 48 };
#define MILLISECOND 1000000ull
#define EPOCH (60000 * MILLISECOND)

/* What a listener says in its SYN-ACKs. */
struct offer {
	u64 key[2];
	u16 mss[2]; /* by family; zero if there is no offer */
	u16 window;
	u8 scale, has_scale;
	u8 sack, timestamps, ecn, hops;
	u32 unused;
};

/* By slot. */
struct {
	UINT(type, ARRAY);
	UINT(max_entries, SLOTS);
	u32 *key;
	struct offer *value;
} offers SEC(".maps");

struct tcp {
	u16 source, destination;
	u32 seq, ack;
	u8 length, flags;
	u16 window, checksum, urgent;
};

struct syn {
	union {
		struct tcp tcp;
		u8 bytes[64];
		u32 words[16];
	} in, out;
	/* The headers in front, with which an address is aligned. */
	struct {
		u16 unused;
		struct ethernet ethernet;
		union {
			struct ipv4 v4;
			struct ipv6 v6;
		};
	} head;
	/* Both ends as they are hashed, and in the last byte the length of the input. */
	union {
		u64 words[5];
		u8 bytes[40];
		struct {
			u8 local[4], local_port[2], remote[4], remote_port[2], unused[3], length;
		} v4;
		struct {
			u8 local[16], local_port[2], remote[16], remote_port[2], unused[3], length;
		} v6;
	} ends;
	u32 words; /* of `ends` */
	u32 pseudo; /* the sum of the addresses and of the protocol */
	/* Options of the SYN, and which part of its header is read. */
	u32 at, end, value, mss;
	u8 has_mss, has_scale, scale, sack, timestamps, ecn, fast_open;
};

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct syn *value;
} syns SEC(".maps");

/* Returns a number that the compiler knows nothing about, so that it leaves the checks for the verifier. */
INLINE u64 opaque(u64 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

INLINE u64 rotate(u64 value, int by)
{
	return value << by | value >> (64 - by);
}

INLINE void mix(u64 v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

INLINE void absorb(u64 v[4], u64 word)
{
	v[3] ^= word;
	mix(v);
	mix(v);
	v[0] ^= word;
}

/* Returns the lower half of SipHash-2-4 over a first word and both ends. */
static __attribute__((noinline)) u32 hash(const struct offer *offer, const struct syn *syn, u64 first)
{
	u64 v[4] = { offer->key[0] ^ 0x736f6d6570736575ull, offer->key[1] ^ 0x646f72616e646f6dull,
		     offer->key[0] ^ 0x6c7967656e657261ull, offer->key[1] ^ 0x7465646279746573ull };

	absorb(v, first);
	absorb(v, syn->ends.words[0]);
	absorb(v, syn->ends.words[1]);
	if (syn->words == 5) {
		absorb(v, syn->ends.words[2]);
		absorb(v, syn->ends.words[3]);
		absorb(v, syn->ends.words[4]);
	}
	v[2] ^= 0xff;
	mix(v);
	mix(v);
	mix(v);
	mix(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

INLINE u32 fold(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Reads the headers in front of TCP's. Returns the length of the segment, or 0 for what is left to the host. */
INLINE u32 read_v4(struct syn *syn)
{
	const struct ipv4 *ip = &syn->head.v4;
	u8 first = ip->source & 0xff;
	u32 length = htons(ip->length);
	struct end source, destination;
	const u8 *kind;

	if (ip->version_length != 0x45 || ip->protocol != 6 || ip->fragment & htons(0x3fff) ||
	    fold(csum_diff(0, 0, (void *)ip, sizeof(*ip), 0)) != 0xffff)
		return 0;
	set_v4(&destination, ip->destination);
	kind = lookup(&addresses, &destination);
	if (!kind || *kind != UNICAST)
		return 0;
	set_v4(&source, ip->source);
	/* No other host has such an address. */
	if (first == 0 || first == 127 || first >= 224 || lookup(&addresses, &source))
		return 0;
	__builtin_memcpy(syn->ends.v4.local, &ip->destination, 4);
	__builtin_memcpy(syn->ends.v4.remote, &ip->source, 4);
	__builtin_memcpy(syn->ends.v4.local_port, &syn->in.tcp.destination, 2);
	__builtin_memcpy(syn->ends.v4.remote_port, &syn->in.tcp.source, 2);
	__builtin_memset(syn->ends.v4.unused, 0, 3);
	syn->ends.v4.length = 8 + 12;
	syn->words = 2;
	syn->pseudo = fold((u32)csum_diff(0, 0, (void *)&ip->source, 8, 0) + (u64)htons(6));
	return length < sizeof(*ip) ? 0 : length - sizeof(*ip);
}

INLINE u32 read_v6(struct syn *syn)
{
	const struct ipv6 *ip = &syn->head.v6;
	struct end source;
	u32 from[4];

	__builtin_memcpy(from, ip->source, sizeof(from));
	if (ip->version >> 4 != 6 || ip->next != 6 || ip->source[0] == 0xff)
		return 0;
	/* Unspecified, this host, or mapped. */
	if (!(from[0] | from[1]) && (from[2] == htonl(0xffff) || (!from[2] && !(from[3] & ~htonl(1)))))
		return 0;
	set_v6(&source, ip->source);
	if (lookup(&addresses, &source))
		return 0;
	__builtin_memcpy(syn->ends.v6.local, ip->destination, 16);
	__builtin_memcpy(syn->ends.v6.remote, ip->source, 16);
	__builtin_memcpy(syn->ends.v6.local_port, &syn->in.tcp.destination, 2);
	__builtin_memcpy(syn->ends.v6.remote_port, &syn->in.tcp.source, 2);
	__builtin_memset(syn->ends.v6.unused, 0, 3);
	syn->ends.v6.length = 8 + 36;
	syn->words = 5;
	syn->pseudo = fold((u32)csum_diff(0, 0, (void *)ip->source, 32, 0) + (u64)htons(6));
	return htons(ip->length);
}

/* Returns whether the checksum is right. One that a sender of the same kernel left to an adaptor is, too. */
INLINE int is_whole(struct syn *syn, u32 length)
{
	u32 pseudo = syn->pseudo + htons(length);

	return fold((u64)(u32)csum_diff(0, 0, &syn->in, length, 0) + pseudo) == 0xffff ||
	       syn->in.tcp.checksum == fold(pseudo);
}

INLINE u8 byte(const struct syn *syn, u32 at)
{
	return syn->in.bytes[opaque(at) & 63];
}

/* Reads the option at `syn->at`, and goes on to the next one, or to the end of all. */
INLINE void read_option(struct syn *syn)
{
	u32 at = syn->at, end = syn->end, length;
	u8 kind = byte(syn, at);

	syn->at = kind == 1 ? at + 1 : end;
	if (kind < 2 || at + 1 >= end)
		return;
	length = byte(syn, at + 1);
	if (length < 2 || at + length > end)
		return;
	syn->at = at + length;
	if (kind == 2 && length == 4) {
		syn->has_mss = 1;
		syn->mss = byte(syn, at + 2) << 8 | byte(syn, at + 3);
	} else if (kind == 3 && length == 3) {
		syn->has_scale = 1;
		syn->scale = byte(syn, at + 2);
	} else if (kind == 4 && length == 2) {
		syn->sack = 1;
	} else if (kind == 8 && length == 10) {
		syn->timestamps = 1;
		syn->value = byte(syn, at + 2) << 24 | byte(syn, at + 3) << 16 | byte(syn, at + 4) << 8 |
			     byte(syn, at + 5);
	} else if (kind == 34) {
		syn->fast_open = 1;
	}
}

/*
 * Reads the options. The place among them is in memory, where the verifier does not follow it: each pass of the loop
 * is like the last one to it.
 */
static __attribute__((noinline)) void read_options(struct syn *syn, u32 end)
{
	syn->at = TCP_MIN;
	syn->end = end;
	syn->has_mss = syn->has_scale = syn->sack = syn->timestamps = syn->fast_open = 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < TCP_MAX - TCP_MIN; i++) {
		if (syn->at >= syn->end)
			break;
		read_option(syn);
		asm volatile("" ::: "memory");
	}
}

/* Reads the SYN of a frame, and leaves unusual ones. Returns whether it is to be answered. */
INLINE int read_syn(struct xdp_md *context, struct syn *syn, int family)
{
	u32 head = sizeof(struct ethernet) + (family == V4 ? sizeof(struct ipv4) : sizeof(struct ipv6)), segment;
	u64 length;

	if (load_bytes(context, head, &syn->in, TCP_MIN))
		return 0;
	segment = family == V4 ? read_v4(syn) : read_v6(syn);
	length = (syn->in.tcp.length >> 4) * 4;
	if (segment != length)
		return 0;
	length = opaque(length);
	if (length < TCP_MIN || length > TCP_MAX)
		return 0;
	if ((syn->in.tcp.flags & 0x3f) != 0x02 || !syn->in.tcp.source || !syn->in.tcp.destination)
		return 0;
	if (load_bytes(context, head, &syn->in, length) || !is_whole(syn, length))
		return 0;
	read_options(syn, length);
	/* A cookie of Fast Open is the host's to judge. */
	return !syn->fast_open;
}

/* Returns the index of the largest MSS of cookies that is not above the peer's, or -1. */
INLINE int index_of(u32 mss)
{
	return mss >= 8940 ? 7 : mss >= 1460 ? 6 : mss >= 1440 ? 5 : mss >= 1400 ? 4 :
	       mss >= 1300 ? 3 : mss >= 1220 ? 2 : mss >= 536 ? 1 : mss >= 216 ? 0 : -1;
}

/* Keeps of the options what the listener supports, and what the ACK can bring back. */
INLINE void agree(const struct offer *offer, struct syn *syn, int family)
{
	u32 mss = syn->has_mss ? syn->mss : family == V4 ? 536 : 1220;

	syn->mss = mss < MSS_LEAST ? MSS_LEAST : mss;
	syn->timestamps &= offer->timestamps;
	syn->sack &= offer->sack & syn->timestamps;
	syn->has_scale &= offer->has_scale & syn->timestamps;
	syn->ecn = offer->ecn & syn->timestamps & ((syn->in.tcp.flags & 0xc0) == 0xc0);
}

/* Returns the timestamp whose lowest bits say what both have agreed on. It is at most 63 ms early. */
INLINE u32 timestamp(const struct offer *offer, const struct syn *syn, u64 now)
{
	u32 clock = (u32)(now / MILLISECOND) + hash(offer, syn, TIMESTAMP_OFFSET);
	u32 scale = syn->scale < NO_SCALE ? syn->scale : NO_SCALE - 1;
	u32 bits = (syn->has_scale ? scale : NO_SCALE) | syn->sack << 4 | syn->ecn << 5;

	return clock - ((clock - bits) & 63);
}

INLINE u32 cookie(const struct offer *offer, const struct syn *syn, u32 index, u64 now)
{
	u64 epoch = now / EPOCH;
	u32 irs = htonl(syn->in.tcp.seq);
	u32 data = hash(offer, syn, (epoch << 32 | irs) << 8 | COOKIE_DATA) + index;

	return hash(offer, syn, COOKIE_BASE) + irs + ((u32)epoch << 24) + (data & 0xffffff);
}

/* Writes the SYN-ACK, without its checksum. Returns its length. */
INLINE u32 write_segment(const struct offer *offer, struct syn *syn, int family, u32 seq, u64 now)
{
	u32 *words = syn->out.words, next = 6;
	struct tcp *tcp = &syn->out.tcp;

	*tcp = (struct tcp){
		.source = syn->in.tcp.destination,
		.destination = syn->in.tcp.source,
		.seq = htonl(seq),
		.ack = htonl(htonl(syn->in.tcp.seq) + 1),
		.flags = 0x12 | (syn->ecn ? 0x40 : 0),
		.window = htons(offer->window),
	};
	words[5] = htonl(0x02040000 | (family == V4 ? offer->mss[V4] : offer->mss[V6]));
	if (syn->timestamps) {
		words[6] = htonl(syn->sack ? 0x0402080a : 0x0101080a);
		words[7] = htonl(timestamp(offer, syn, now));
		words[8] = htonl(syn->value);
		next = 9;
	}
	if (syn->has_scale) {
		words[9] = htonl(0x01030300 | offer->scale);
		next = 10;
	}
	tcp->length = next << 4;
	return next * 4;
}

/* Turns the headers in front of the segment round. */
INLINE void turn(const struct offer *offer, struct syn *syn, int family, u32 length)
{
	struct ethernet *ethernet = &syn->head.ethernet;
	u8 address[16];

	__builtin_memcpy(address, ethernet->source, 6);
	__builtin_memcpy(ethernet->source, ethernet->destination, 6);
	__builtin_memcpy(ethernet->destination, address, 6);
	if (family == V4) {
		struct ipv4 *ip = &syn->head.v4;
		u32 source = ip->source, destination = ip->destination;

		*ip = (struct ipv4){
			.version_length = 0x45,
			.length = htons((u16)(sizeof(*ip) + length)),
			.fragment = htons(0x4000),
			.ttl = offer->hops,
			.protocol = 6,
			.source = destination,
			.destination = source,
		};
		ip->checksum = ~fold((u32)csum_diff(0, 0, (void *)ip, sizeof(*ip), 0));
	} else {
		struct ipv6 *ip = &syn->head.v6;

		__builtin_memcpy(address, ip->source, 16);
		__builtin_memcpy(ip->source, ip->destination, 16);
		__builtin_memcpy(ip->destination, address, 16);
		ip->version = 0x60;
		__builtin_memset(ip->flow, 0, 3);
		ip->length = htons((u16)length);
		ip->next = 6;
		ip->hops = offer->hops;
	}
}

/* Turns a SYN for the slot into its answer. Returns whether it did; if not, the frame is as it was. */
INLINE int answer_family(struct xdp_md *context, const struct offer *offer, struct syn *syn, int family, u64 now)
{
	u32 head = sizeof(struct ethernet) + (family == V4 ? sizeof(struct ipv4) : sizeof(struct ipv6)), seq;
	u64 length;
	int index;

	if (load_bytes(context, 0, &syn->head.ethernet, head) || !read_syn(context, syn, family))
		return 0;
	agree(offer, syn, family);
	index = index_of(syn->mss);
	if (index < 0)
		return 0;
	seq = cookie(offer, syn, index, now);
	length = opaque(write_segment(offer, syn, family, seq, now));
	if (length < TCP_MIN || length > TCP_MAX)
		return 0;
	syn->out.tcp.checksum =
		~fold((u64)(u32)csum_diff(0, 0, &syn->out, length, 0) + syn->pseudo + htons(length));
	turn(offer, syn, family, length);
	if (adjust_tail(context, head + length - opaque(context->data_end - context->data)))
		return 0;
	return !store_bytes(context, 0, &syn->head.ethernet, head) && !store_bytes(context, head, &syn->out, length);
}

static __attribute__((noinline)) int answer(struct xdp_md *context, u32 slot, u64 now)
{
	const u8 *bytes = (const u8 *)(long)context->data;
	const struct ethernet *ethernet = (const struct ethernet *)bytes;
	const struct offer *offer = lookup(&offers, &slot);
	u32 zero = 0;
	struct syn *syn = lookup(&syns, &zero);

	if (!offer || !syn || !offer->mss[V4] || bytes + sizeof(*ethernet) > (const u8 *)(long)context->data_end)
		return 0;
	/* A SYN to several hosts, or from one of several, is none. */
	if ((ethernet->destination[0] | ethernet->source[0]) & 1)
		return 0;
	if (ethernet->type == htons(0x0800))
		return answer_family(context, offer, syn, V4, now);
	return answer_family(context, offer, syn, V6, now);
}
