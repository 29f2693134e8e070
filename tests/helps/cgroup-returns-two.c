// The hook takes 0 and 1 (and 2 and 3 on egress); this program returns a length.
// line: return skb->len;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/ingress")
int allow(struct __sk_buff *skb)
{
	return skb->len;
}

char _license[] SEC("license") = "GPL";
