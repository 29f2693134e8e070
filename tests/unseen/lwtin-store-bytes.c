// Helper not allowed for the type.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("lwt_in")
int set_tos(struct __sk_buff *skb)
{
	__u8 tos = 0x10;

	bpf_skb_store_bytes(skb, 1, &tos, 1, 0);
	return BPF_OK;
}

char _license[] SEC("license") = "GPL";
