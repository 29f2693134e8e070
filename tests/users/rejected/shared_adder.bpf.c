// A global function does not compare its pointer with null.
#include "tools.h"
__attribute__((noinline)) int sub(struct __sk_buff *skb, int *p) { return *p + skb->len; }
SEC("tc") int f(struct __sk_buff *skb)
{
	int x = 3;
	return sub(skb, &x);
}
