// Context not writable.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	ctx->sample_period = 1000;
	bpf_printk("ip %lx", ctx->regs.ip);
	return 0;
}

char _license[] SEC("license") = "GPL";
