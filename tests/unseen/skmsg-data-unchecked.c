// Data bounds.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("sk_msg")
int http_only(struct sk_msg_md *msg)
{
	char *data = msg->data;
	char *end = msg->data_end;

	if (msg->size < 4)
		return SK_PASS;
	if (data[0] == 'G' && data[1] == 'E' && data[2] == 'T')
		return SK_PASS;
	return SK_DROP;
}

char _license[] SEC("license") = "GPL";
