// Packet not writable.
#include <linux/bpf.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/egress")
int clear_tos(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *ip = data;

	if ((void *)(ip + 1) > data_end)
		return 1;
	ip->tos = 0;
	return 1;
}

char _license[] SEC("license") = "GPL";
