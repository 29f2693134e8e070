// What does not fit is counted.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

__u64 missed;

SEC("xdp")
int remember(struct xdp_md *ctx)
{
	__u32 key = ctx->ingress_ifindex;
	__u64 now = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&seen, &key, &now, BPF_ANY) < 0)
		__sync_fetch_and_add(&missed, 1);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
