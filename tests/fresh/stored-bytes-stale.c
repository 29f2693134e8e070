// Bytes are stored into the skb, and the old pointer is used afterwards.
// line: return eth->h_dest[0] & 1 ? TC_ACT_SHOT : TC_ACT_OK;
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int rewrite(struct __sk_buff *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u8 mine[6] = { 2, 0, 0, 0, 0, 1 };

	if ((void *)(eth + 1) > data_end)
		return TC_ACT_OK;
	bpf_skb_store_bytes(ctx, 6, mine, 6, 0);
	return eth->h_dest[0] & 1 ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
