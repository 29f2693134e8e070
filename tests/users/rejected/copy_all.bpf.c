// The whole packet is copied into a buffer.
#include "tools.h"
SEC("tc") int f(struct __sk_buff *skb)
{
	char b[32];
	__u32 len = skb->len;
	if (bpf_skb_load_bytes(skb, 0, b, len)) return 0;
	return b[0];
}
