// Wrong map type for a helper.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, 64);
} free_ports SEC(".maps");

SEC("tc")
int take_port(struct __sk_buff *skb)
{
	__u32 port = 0;
	__u32 *p = bpf_map_lookup_elem(&free_ports, &port);

	if (!p)
		return TC_ACT_SHOT;
	skb->mark = *p;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
