/*
 * SYN cookies in XDP: the answer to a SYN, and the refusal of what brings none back, without the host.
 *
 * The model is `Listener` of evenkeel-tcp, and a test compares both, byte by byte. The host has the secret, too,
 * and accepts the ACK as if it had sent the SYN-ACK itself. What is unusual about a SYN is left to the host.
 */

static long (*const csum_diff)(const void *from, u32 from_size, const void *to, u32 to_size, u32 seed) = (void *)28;
static long (*const adjust_tail)(struct xdp_md *context, int delta) = (void *)65;

/* Inputs of the hash, by the numbers of `Purpose` in evenkeel-tcp. */
enum { TIMESTAMP_OFFSET = 2, COOKIE_BASE = 3, COOKIE_DATA = 4 };

enum { ETHERNET = 14, WORDS_V4 = 5, WORDS_V6 = 10 };
enum { TCP_MIN = 20, TCP_MAX = 60, ANSWER_MAX = 40, NO_SCALE = 15, MSS_LEAST = 48, MSS_KINDS = 8 };
#define MILLISECOND 1000000ull
#define EPOCH (60000 * MILLISECOND)

/* The segments in a ring for which cookies are used: SYNs, or segments of no connection. */
enum { FOR_SYNS, FOR_OTHERS };

/* What a listener says in its SYN-ACKs. */
struct offer {
	u64 key[2];
	u16 mss[2]; /* by family; zero if there is no offer */
	u16 window;
	u8 scale, has_scale;
	u8 sack, timestamps, ecn, hops;
	u8 cookies_for, unused[3];
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
	union {
		struct {
			u16 unused;
			struct ethernet ethernet;
			union {
				struct ipv4 v4;
				struct ipv6 v6;
			};
		};
		u16 halves[8];
		struct {
			u32 front[4], ip[WORDS_V6];
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

/*
 * The connections whose ends have this hash: also half-open ones, those in TIME-WAIT, and those that are not in
 * `connections`. The host writes their number.
 */
struct known {
	u16 number;
	u16 passed; /* when a segment last passed: so the host may be about to have a connection */
};

enum { KNOWN = 1 << 19, KNOWN_EACH = 2, PASSED_UNIT = 29, PASSED_RECENT = 2 };

struct {
	UINT(type, ARRAY);
	UINT(max_entries, KNOWN / KNOWN_EACH);
	UINT(map_flags, MMAPABLE);
	u32 *key;
	struct known (*value)[KNOWN_EACH];
} known SEC(".maps");

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

INLINE void begin(u64 v[4], const struct offer *offer)
{
	v[0] = offer->key[0] ^ 0x736f6d6570736575ull;
	v[1] = offer->key[1] ^ 0x646f72616e646f6dull;
	v[2] = offer->key[0] ^ 0x6c7967656e657261ull;
	v[3] = offer->key[1] ^ 0x7465646279746573ull;
}

INLINE void absorb(u64 v[4], u64 word, int rounds)
{
	v[3] ^= word;
	mix(v);
	if (rounds > 1)
		mix(v);
	v[0] ^= word;
}

INLINE void absorb_ends(u64 v[4], const struct syn *syn, int rounds)
{
	absorb(v, syn->ends.words[0], rounds);
	absorb(v, syn->ends.words[1], rounds);
	if (syn->words == 5) {
		absorb(v, syn->ends.words[2], rounds);
		absorb(v, syn->ends.words[3], rounds);
		absorb(v, syn->ends.words[4], rounds);
	}
}

INLINE u32 finish(u64 v[4], int rounds)
{
	v[2] ^= 0xff;
	mix(v);
	mix(v);
	mix(v);
	if (rounds > 3)
		mix(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Returns the lower half of SipHash-2-4 over a first word and both ends. */
static __attribute__((noinline)) u32 hash(const struct offer *offer, const struct syn *syn, u64 first)
{
	u64 v[4];

	begin(v, offer);
	absorb(v, first, 2);
	absorb_ends(v, syn, 2);
	return finish(v, 4);
}

INLINE u32 fold(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Returns the number of words of a header of IP. */
INLINE u32 words_of(int family)
{
	return family == V4 ? WORDS_V4 : WORDS_V6;
}

/* Reads the headers of Ethernet and IP, and the fixed part of TCP's. Each call of a helper for that takes longer. */
INLINE int read_heads(struct xdp_md *context, struct syn *syn, int family)
{
	const u8 *bytes = (const u8 *)(long)context->data;
	const u32 words = words_of(family), *ip = (const u32 *)(bytes + ETHERNET), *tcp = ip + words;

	if ((const u8 *)tcp + TCP_MIN > (const u8 *)(long)context->data_end)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < ETHERNET / 2; i++)
		syn->head.halves[1 + i] = ((const u16 *)bytes)[i];
#pragma clang loop unroll(full)
	for (u32 i = 0; i < words; i++)
		syn->head.ip[i] = ip[i];
#pragma clang loop unroll(full)
	for (int i = 0; i < TCP_MIN / 4; i++)
		syn->in.words[i] = tcp[i];
	return 1;
}

/* Reads the options of TCP. Returns whether they are there. */
INLINE int copy_options(struct xdp_md *context, struct syn *syn, int family, u32 length)
{
	const u8 *bytes = (const u8 *)(long)context->data, *end = (const u8 *)(long)context->data_end;
	const u32 *tcp = (const u32 *)(bytes + ETHERNET) + words_of(family);

#pragma clang loop unroll(full)
	for (u32 i = TCP_MIN / 4; i < TCP_MAX / 4; i++) {
		if ((const u8 *)(tcp + i + 1) <= end)
			syn->in.words[i] = tcp[i];
	}
	return (const u8 *)tcp + length <= end;
}

/* Writes the answer into its frame, which ends with it. Returns whether it does. */
INLINE int write_frame(struct xdp_md *context, const struct syn *syn, int family, u32 length)
{
	u8 *bytes = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	u32 words = words_of(family), *ip = (u32 *)(bytes + ETHERNET), *tcp = ip + words;

	if ((u8 *)tcp > end)
		return 0;
#pragma clang loop unroll(full)
	for (int i = 0; i < ETHERNET / 2; i++)
		((u16 *)bytes)[i] = syn->head.halves[1 + i];
#pragma clang loop unroll(full)
	for (u32 i = 0; i < words; i++)
		ip[i] = syn->head.ip[i];
#pragma clang loop unroll(full)
	for (u32 i = 0; i < ANSWER_MAX / 4; i++) {
		if ((u8 *)(tcp + i + 1) <= end)
			tcp[i] = syn->out.words[i];
	}
	return (u8 *)tcp + length == end;
}

/* Sets both ends as they are hashed behind a first word. */
INLINE void set_ends(struct syn *syn, int family)
{
	if (family == V4) {
		__builtin_memcpy(syn->ends.v4.local, &syn->head.v4.destination, 4);
		__builtin_memcpy(syn->ends.v4.remote, &syn->head.v4.source, 4);
		__builtin_memcpy(syn->ends.v4.local_port, &syn->in.tcp.destination, 2);
		__builtin_memcpy(syn->ends.v4.remote_port, &syn->in.tcp.source, 2);
		__builtin_memset(syn->ends.v4.unused, 0, 3);
		syn->ends.v4.length = 8 + 12;
		syn->words = 2;
	} else {
		__builtin_memcpy(syn->ends.v6.local, syn->head.v6.destination, 16);
		__builtin_memcpy(syn->ends.v6.remote, syn->head.v6.source, 16);
		__builtin_memcpy(syn->ends.v6.local_port, &syn->in.tcp.destination, 2);
		__builtin_memcpy(syn->ends.v6.remote_port, &syn->in.tcp.source, 2);
		__builtin_memset(syn->ends.v6.unused, 0, 3);
		syn->ends.v6.length = 8 + 36;
		syn->words = 5;
	}
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
	set_ends(syn, V4);
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
	set_ends(syn, V6);
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
	u32 segment;
	u64 length;

	segment = family == V4 ? read_v4(syn) : read_v6(syn);
	length = (syn->in.tcp.length >> 4) * 4;
	if (segment != length)
		return 0;
	length = opaque(length);
	if (length < TCP_MIN || length > TCP_MAX)
		return 0;
	if ((syn->in.tcp.flags & 0x3f) != 0x02 || !syn->in.tcp.source || !syn->in.tcp.destination)
		return 0;
	if (!copy_options(context, syn, family, length) || !is_whole(syn, length))
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
	u32 head = ETHERNET + 4 * words_of(family), seq;
	u64 length;
	int index;

	if (!read_heads(context, syn, family) || !read_syn(context, syn, family))
		return 0;
	agree(offer, syn, family);
	index = index_of(syn->mss);
	if (index < 0)
		return 0;
	seq = cookie(offer, syn, index, now);
	length = opaque(write_segment(offer, syn, family, seq, now));
	if (length < TCP_MIN || length > ANSWER_MAX)
		return 0;
	syn->out.tcp.checksum =
		~fold((u64)(u32)csum_diff(0, 0, &syn->out, length, 0) + syn->pseudo + htons(length));
	turn(offer, syn, family, length);
	if (adjust_tail(context, head + length - opaque(context->data_end - context->data)))
		return 0;
	return write_frame(context, syn, family, length);
}

/*
 * Returns the cell of both ends, by the hash that the host's tables have: SipHash-1-3 of the ends alone.
 */
INLINE struct known *known_between(const struct offer *offer, struct syn *syn)
{
	u8 *length = syn->words == 5 ? &syn->ends.v6.length : &syn->ends.v4.length;
	struct known(*cells)[KNOWN_EACH];
	u64 v[4];
	u32 cell, at;

	begin(v, offer);
	*length -= 8;
	absorb_ends(v, syn, 1);
	*length += 8;
	cell = finish(v, 3) % KNOWN;
	at = cell / KNOWN_EACH;
	cells = lookup(&known, &at);
	return cells ? &(*cells)[cell % KNOWN_EACH] : 0;
}

/* The host's clock is at most so much ahead of `now`. */
#define AHEAD (1000 * MILLISECOND)

/* Returns whether a segment acknowledges a cookie of this listener that has not expired. */
INLINE int brings_cookie(const struct offer *offer, const struct syn *syn, u64 now)
{
	u64 newest = (now + AHEAD) / EPOCH, oldest = now / EPOCH, made_in;
	u32 irs = htonl(syn->in.tcp.seq) - 1, number;

	oldest -= oldest > 0;
	number = htonl(syn->in.tcp.ack) - 1 - irs - hash(offer, syn, COOKIE_BASE);
	made_in = (u8)(newest - (number >> 24));
	if (made_in > newest - oldest)
		return 0;
	made_in = newest - made_in;
	number -= hash(offer, syn, (made_in << 32 | irs) << 8 | COOKIE_DATA);
	return (number & 0xffffff) < MSS_KINDS;
}

/* Reads the ends and the fixed header of a segment. Returns whether they are where they are in most packets. */
INLINE int read_segment(struct xdp_md *context, struct syn *syn, int family)
{
	if (!read_heads(context, syn, family))
		return 0;
	if (family == V4 ? syn->head.v4.version_length != 0x45 || syn->head.v4.protocol != 6 ||
				   syn->head.v4.fragment & htons(0x3fff) :
			   syn->head.v6.next != 6)
		return 0;
	set_ends(syn, family);
	return 1;
}

/*
 * Returns whether the host would refuse a segment for the ring of a listener: it belongs to no connection, and
 * brings no cookie back. The host expects cookies, or else it would not have agreed to this.
 */
INLINE int refuse(const struct offer *offer, struct syn *syn, u64 now, u64 machine)
{
	u8 flags = syn->in.tcp.flags;
	struct known *known;

	if (flags & 0x02)
		return 0;
	known = known_between(offer, syn);
	if (!known)
		return 0;
	if (!known->number && (u16)((u16)(machine >> PASSED_UNIT) - known->passed) > PASSED_RECENT &&
	    ((flags & 0x14) != 0x10 || !brings_cookie(offer, syn, now)))
		return 1;
	known->passed = machine >> PASSED_UNIT;
	return 0;
}

enum { LEFT_TO_HOST, ANSWER, REFUSE };

/*
 * Answers a SYN in place of a listener, or refuses a segment of no connection. `now` is the time of the host's
 * clock, and `machine` that of the machine's.
 */
static __attribute__((noinline)) int represent(struct xdp_md *context, u32 slot, u64 now, u64 machine)
{
	const u8 *bytes = (const u8 *)(long)context->data;
	const struct ethernet *ethernet = (const struct ethernet *)bytes;
	const struct offer *offer = lookup(&offers, &slot);
	u32 zero = 0;
	struct syn *syn = lookup(&syns, &zero);
	int is_v4;

	if (!offer || !syn || !offer->mss[V4] || bytes + sizeof(*ethernet) > (const u8 *)(long)context->data_end)
		return LEFT_TO_HOST;
	is_v4 = ethernet->type == htons(0x0800);
	if (offer->cookies_for == FOR_OTHERS) {
		if (!(is_v4 ? read_segment(context, syn, V4) : read_segment(context, syn, V6)))
			return LEFT_TO_HOST;
		return refuse(offer, syn, now, machine) ? REFUSE : LEFT_TO_HOST;
	}
	/* A SYN to several hosts, or from one of several, is none. */
	if ((ethernet->destination[0] | ethernet->source[0]) & 1)
		return LEFT_TO_HOST;
	return (is_v4 ? answer_family(context, offer, syn, V4, now) : answer_family(context, offer, syn, V6, now)) ?
		       ANSWER :
		       LEFT_TO_HOST;
}
