// Wrong pointer type (kprobe/tcp_sendmsg).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
struct dstkey {
	__u32 daddr;
	__u16 dport;
	__u16 family;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct dstkey);
	__type(value, __u64);
} sent SEC(".maps");

SEC("kprobe/tcp_sendmsg")
int BPF_KPROBE(on_sendmsg, struct sock *sk, struct msghdr *msg, size_t size)
{
	struct dstkey k = {};
	__u64 bytes = size, *v;

	k.family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (k.family != 2)
		return 0;
	k.dport = BPF_CORE_READ(sk, __sk_common.skc_dport);
	k.daddr = sk->__sk_common.skc_daddr;

	v = bpf_map_lookup_elem(&sent, &k);
	if (v)
		__sync_fetch_and_add(v, bytes);
	else
		bpf_map_update_elem(&sent, &k, &bytes, BPF_NOEXIST);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
