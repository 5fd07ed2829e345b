/*
 * Datagrams for groups (multicast). The kernel gives each socket at their port one of its own, so the queue of one says
 * nothing about the others: they are judged only where there is one socket at the port. What a device has for groups may
 * be for others as well, behind a bridge or a router of groups: then all goes on untouched.
 */

/* By index: devices at which what comes for groups is for this machine's sockets alone. */
struct {
	UINT(type, HASH);
	UINT(max_entries, 1024);
	u32 *key;
	u8 *value;
} groups SEC(".maps");

/* Sockets in front of one in the kernel's table, and behind it, that are looked at. Where there are more, one may be at
 * the same port. */
enum { NEIGHBOURS = 16 };

INLINE u32 device_index(const struct hook *hook)
{
	if (hook->is_skb)
		return ((struct __sk_buff *)hook->context)->ifindex;
	return ((struct xdp_md *)hook->context)->ingress_ifindex;
}

/* Returns whether what a packet's device has for groups is for this machine alone. */
INLINE int ends_here(const struct hook *hook)
{
	u32 device = device_index(hook);

	return lookup(&groups, &device) != 0;
}

/* Returns the offset of the field by which a socket is in the kernel's table. */
INLINE u64 place_in_socket(void)
{
	struct sock *socket = 0;

	return __builtin_preserve_field_info(socket->__sk_common.skc_node, FIELD_OFFSET);
}

/* Returns the place in front of another, or 0 if that is the first. The table's own pointer leads to the first place, and
 * has no other in front of it. */
INLINE u64 place_before(u64 place)
{
	struct hlist_node *node = (void *)place;
	u64 before = 0, back = 0, itself = 0;

	read_kernel(&before, sizeof before, __builtin_preserve_access_index(&node->pprev));
	node = (void *)before;
	if (read_kernel(&back, sizeof back, __builtin_preserve_access_index(&node->pprev)) ||
	    read_kernel(&itself, sizeof itself, (void *)back))
		return 0;
	return itself == before ? before : 0;
}

INLINE u64 place_behind(u64 place)
{
	struct hlist_node *node = (void *)place;
	u64 behind = 0;

	read_kernel(&behind, sizeof behind, __builtin_preserve_access_index(&node->next));
	return behind;
}

/* Tells a socket from one that has been closed, whose memory may be another's by now. */
INLINE int is_at(u64 address, u16 port)
{
	struct sock *socket = (void *)address;
	u16 bound = 0;

	read_kernel(&bound, sizeof bound, __builtin_preserve_access_index(&socket->__sk_common.skc_num));
	return bound == port;
}

/* Returns whether a socket is seen to be the only one at its port. The kernel keeps sockets of one port in one list. */
INLINE int is_alone(u64 socket, u16 port)
{
	u64 in_socket = place_in_socket(), place = socket + in_socket;
	u32 i;

	for (i = 0; i < NEIGHBOURS; i++) {
		place = place_before(place);
		if (!place)
			break;
		if (is_at(place - in_socket, port))
			return 0;
	}
	if (i == NEIGHBOURS)
		return 0;
	place = socket + in_socket;
	for (i = 0; i < NEIGHBOURS; i++) {
		place = place_behind(place);
		if (!place)
			return 1;
		if (is_at(place - in_socket, port))
			return 0;
	}
	return 0;
}
