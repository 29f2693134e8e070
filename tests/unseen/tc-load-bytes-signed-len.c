// Variable length of a helper.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int grab_payload(struct __sk_buff *skb)
{
	char buf[128];
	int len = skb->len - 54;

	if (len > (int)sizeof(buf))
		len = sizeof(buf);
	if (bpf_skb_load_bytes(skb, 54, buf, len) < 0)
		return TC_ACT_OK;
	return buf[0] == 'G' ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
