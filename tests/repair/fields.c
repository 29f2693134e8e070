// Four fields of a context in a loop that is not unrolled: the loop's number is added to the pointer.
// repair: v3 repaired-proved
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup/bind6")
int fields(struct bpf_sock_addr *ctx)
{
	int i;

#pragma clang loop unroll(disable)
	for (i = 0; i < 4; i++) {
		__u32 address = ctx->user_ip6[i];

		if ((address & 0xffff) == address >> 16)
			return 0;
	}
	return 1;
}

char _license[] SEC("license") = "GPL";
