// Hand-written assembly expects r1 to survive a call.
// check: reject uninitialized-register
// prevail: 4.1
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
__attribute__((naked)) int queue(struct xdp_md *ctx)
{
	asm volatile("call 5\n" /* bpf_ktime_get_ns */
		     "r0 = *(u32 *)(r1 + 16)\n"
		     "r0 &= 1\n"
		     "exit\n");
}

char _license[] SEC("license") = "GPL";
