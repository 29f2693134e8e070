// Uninitialized (kprobe/tcp_retransmit_skb).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
struct conn {
	__u32 saddr;
	__u32 daddr;
	__u16 dport;
	__u16 retries;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct conn);
} conns SEC(".maps");

SEC("kprobe/tcp_retransmit_skb")
int BPF_KPROBE(on_retrans, struct sock *sk)
{
	struct conn c = {}, *old;
	__u64 id = (__u64)sk;
	__u64 flags;

	c.saddr = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	c.daddr = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	c.dport = BPF_CORE_READ(sk, __sk_common.skc_dport);

	old = bpf_map_lookup_elem(&conns, &id);
	if (old) {
		c.retries = old->retries + 1;
	}
	bpf_map_update_elem(&conns, &id, &c, flags);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
