// Wrong map type for a helper (sk_skb).
// Echo proxy: answers on the peer's socket.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct pair {
	__be32 ip;
	__u32 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 1024);
	__type(key, struct pair);
	__type(value, __u64);
} peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} total SEC(".maps");

SEC("sk_skb/stream_parser")
int frames(struct __sk_buff *skb)
{
	__be16 len;

	if (bpf_skb_load_bytes(skb, 0, &len, sizeof(len)))
		return 0;
	return bpf_ntohs(len) + 2;
}

SEC("sk_skb/stream_verdict")
int verdict(struct __sk_buff *skb)
{
	struct pair p = {
		.ip = skb->remote_ip4,
		.port = bpf_ntohl(skb->remote_port),
	};
	__u32 zero = 0;
	__u64 *t = bpf_map_lookup_elem(&total, &zero);

	if (t)
		__sync_fetch_and_add(t, skb->len);
	if (skb->local_port < 1024)
		return SK_DROP;
	return bpf_sk_redirect_map(skb, &peers, p.port, 0);
}

char _license[] SEC("license") = "GPL";
