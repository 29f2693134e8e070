// Context field not writable (sockops).
// Starts connections inside the data centre with a large window.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define SOL_TCP 6
#define TCP_BPF_IW_ 1001

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, __u64);
} states SEC(".maps");

static __always_inline int inside(__u32 a)
{
	return (bpf_ntohl(a) >> 24) == 10;
}

SEC("sockops")
int windows(struct bpf_sock_ops *ops)
{
	__u32 op = ops->op & 7;
	int iw = 40;
	__u64 *n = bpf_map_lookup_elem(&states, &op);

	if (n)
		__sync_fetch_and_add(n, 1);
	if (ops->family != 2 || !inside(ops->remote_ip4)) {
		ops->reply = -1;
		return 1;
	}
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		bpf_setsockopt(ops, SOL_TCP, TCP_BPF_IW_, &iw, sizeof(iw));
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_RTT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		if (ops->srtt_us >> 3 < 500 && ops->snd_cwnd < 40)
			ops->snd_cwnd = 40;
		break;
	}
	ops->reply = 0;
	return 1;
}

char _license[] SEC("license") = "GPL";
