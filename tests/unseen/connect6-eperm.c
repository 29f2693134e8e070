// Return value (cgroup/connect6).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, 20);
	__uint(value_size, 4);
} blocked6 SEC(".maps");

struct lpm_key {
	__u32 plen;
	__u32 a[4];
};

#define EPERM 1

SEC("cgroup/connect6")
int egress6(struct bpf_sock_addr *ctx)
{
	struct lpm_key k = { .plen = 128 };
	__u32 *rule;

	k.a[0] = ctx->user_ip6[0];
	k.a[1] = ctx->user_ip6[1];
	k.a[2] = ctx->user_ip6[2];
	k.a[3] = ctx->user_ip6[3];
	if (!k.a[0] && !k.a[1] && !k.a[2])
		return 1;

	rule = bpf_map_lookup_elem(&blocked6, &k);
	if (rule && *rule) {
		bpf_printk("deny rule %u pid %d", *rule,
			   bpf_get_current_pid_tgid() >> 32);
		return -EPERM;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
