// A pointer to the packet is used after the packet was moved.
#include "tools.h"
SEC("tc") int f(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	if (data + 34 > end) return 0;
	bpf_skb_change_head(skb, 14, 0);
	return *(__u8 *)(data + 3);
}
