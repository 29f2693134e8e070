// r6 survives the call.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
__attribute__((naked)) int queue(struct xdp_md *ctx)
{
	asm volatile("r6 = r1\n"
		     "call 5\n" /* bpf_ktime_get_ns */
		     "r0 = *(u32 *)(r6 + 16)\n"
		     "r0 &= 1\n"
		     "exit\n");
}

char _license[] SEC("license") = "GPL";
