// The TCP header's length moves the pointer, and one byte is read there without a check.
// line: return *payload == 'G' ? XDP_DROP : XDP_PASS;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int get_request(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct tcphdr *tcp = data + sizeof(struct ethhdr) + 20;
	char *payload;

	if ((void *)(tcp + 1) > data_end)
		return XDP_PASS;
	payload = (char *)tcp + tcp->doff * 4;
	return *payload == 'G' ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
