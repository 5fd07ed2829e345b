/*
 * What waits in the kernel's backlogs: packets that one processor has taken from an interface, and that another one
 * (RPS), or this one later, will bring to their sockets. The kernel has no name for a backlog's place that a program
 * may use, so the place is learnt when the backlog is worked on.
 */

struct sk_buff_head {
	u32 qlen;
} KERNEL;

struct napi_struct {
	struct net_device *dev;
} KERNEL;

struct softnet_data {
	struct sk_buff_head process_queue, input_pkt_queue;
	struct napi_struct backlog;
} KERNEL;

static u32 (*const this_processor)(void) = (void *)8;

/* Processors whose backlogs are looked at. Those beyond are taken for empty. */
enum { PROCESSORS = 64 };

struct backlogs {
	u64 softnet[PROCESSORS]; /* the address of each processor's `softnet_data`, or 0 if it is not known yet */
	u32 processors;		 /* up to the highest that is known */
};

struct {
	UINT(type, ARRAY);
	UINT(max_entries, 1);
	u32 *key;
	struct backlogs *value;
} backlogs SEC(".maps");

/* The arguments of the tracepoint `napi_poll`. */
struct polled {
	struct napi_struct *napi;
	u64 work, budget;
};

/* Learns where the backlog of this processor is, when the kernel has worked on it. */
SEC("raw_tp/napi_poll")
int learn(struct polled *polled)
{
	struct softnet_data *softnet = 0;
	struct napi_struct *napi = polled->napi;
	struct net_device *device = 0;
	u32 zero = 0, processor = this_processor();
	struct backlogs *known = lookup(&backlogs, &zero);

	if (!known || processor >= PROCESSORS)
		return 0;
	if (!known->softnet[processor]) {
		/* Only backlogs belong to no device. */
		if (read_kernel(&device, sizeof device, __builtin_preserve_access_index(&napi->dev)) || device)
			return 0;
		known->softnet[processor] =
			(u64)napi - __builtin_preserve_field_info(softnet->backlog, FIELD_OFFSET);
	}
	/* Two processors that learn at once may leave the lower number. The next time that the higher works mends it. */
	if (known->processors <= processor)
		known->processors = processor + 1;
	return 0;
}

/* Returns how many packets wait in all backlogs together. */
INLINE u32 waiting_packets(void)
{
	u32 zero = 0, sum = 0;
	struct backlogs *known = lookup(&backlogs, &zero);

	if (!known)
		return 0;
	for (u32 i = 0; i < PROCESSORS; i++) {
		struct softnet_data *softnet = (void *)known->softnet[i];
		u32 waits = 0, is_worked_on = 0;

		if (i >= known->processors)
			break;
		if (!softnet)
			continue;
		read_kernel(&waits, sizeof waits, __builtin_preserve_access_index(&softnet->input_pkt_queue.qlen));
		read_kernel(&is_worked_on, sizeof is_worked_on,
			    __builtin_preserve_access_index(&softnet->process_queue.qlen));
		sum += waits + is_worked_on;
	}
	return sum;
}
