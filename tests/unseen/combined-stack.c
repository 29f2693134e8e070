// Stack over 512 bytes over two frames (XDP).
// Builds two key tables on the stack, one in a helper function.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define WIDE 40

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} seen SEC(".maps");

static __noinline int score(struct xdp_md *ctx, __u32 salt)
{
	__u64 sketch[WIDE];
	__u32 sum = 0;

	for (int i = 0; i < WIDE; i++)
		sketch[i] = (__u64)salt * (i + 1) + ctx->rx_queue_index;
	for (int i = 0; i < WIDE; i += 8) {
		__u64 *v = bpf_map_lookup_elem(&seen, &sketch[i]);

		if (v)
			sum += *v;
	}
	return sum;
}

SEC("xdp")
int classify(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u64 mine[32];
	__u32 salt = bpf_get_prandom_u32();

	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	for (int i = 0; i < 32; i++)
		mine[i] = (__u64)salt << (i & 15);
	for (int i = 0; i < 32; i += 4) {
		__u64 one = 1;

		bpf_map_update_elem(&seen, &mine[i], &one, BPF_NOEXIST);
	}
	if (score(ctx, salt) > 100)
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
