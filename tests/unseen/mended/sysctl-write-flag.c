#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup/sysctl")
int deny_writes(struct bpf_sysctl *ctx)
{
	if (ctx->write)
		return 0;
	return 1;
}

char _license[] SEC("license") = "GPL";
