// A signed size is bounded from above only.
#include "tools.h"
SEC("tc") int f(struct __sk_buff *skb)
{
	char b[32];
	int len = skb->len;
	if (len > 32) len = 32;
	if (bpf_skb_load_bytes(skb, 0, b, len)) return 0;
	return b[0];
}
