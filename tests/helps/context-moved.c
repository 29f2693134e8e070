// A helper gets a pointer into the context instead of the context.
// line: return bpf_skb_vlan_pop((void *)&skb->mark);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int pop(struct __sk_buff *skb)
{
	return bpf_skb_vlan_pop((void *)&skb->mark);
}

char _license[] SEC("license") = "GPL";
