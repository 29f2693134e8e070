// An allocator's page that is full is replaced, and then there is room: the number is stored and loaded again.
// repair: v3 repaired-proved
#include "value.h"

SEC("xdp")
int refill(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0;
	struct value *value = bpf_map_lookup_elem(&values, &key);
	int *room, left;

	if (!value || data + 4 > end)
		return XDP_DROP;
	room = (int *)value->bytes;
again:
	left = *room - 16;
	if (left < 0) {
		*room = 4088;
		*(__u32 *)data = 0;
		goto again;
	}
	*room = left;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
