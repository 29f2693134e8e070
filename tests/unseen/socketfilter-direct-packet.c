// Direct packet access not allowed here.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

SEC("socket")
int only_udp(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;

	if (data + 24 > data_end)
		return 0;
	return *(__u8 *)(data + 23) == IPPROTO_UDP ? -1 : 0;
}

char _license[] SEC("license") = "GPL";
