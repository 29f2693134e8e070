// A print that the object's own constants exclude was not left in.
// lint:
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile _Bool verbose = 0;

SEC("tc")
int watch(struct __sk_buff *skb)
{
	if (verbose)
		bpf_printk("%d", skb->len);
	return 0;
}

char _license[] SEC("license") = "GPL";
