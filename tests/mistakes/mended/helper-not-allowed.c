// The helper is one that XDP programs may call.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int who(struct xdp_md *ctx)
{
	return bpf_get_smp_processor_id() > 0 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
