// Stack size (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#define TC_ACT_OK 0

struct line {
	char text[288];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, __u32);
	__type(value, struct line);
} lines SEC(".maps");

static __noinline int keep(struct __sk_buff *skb, __u32 off, __u32 slot)
{
	struct line out = {};

	if (bpf_skb_load_bytes(skb, off, out.text, sizeof(out.text)) < 0)
		return -1;
	return bpf_map_update_elem(&lines, &slot, &out, BPF_ANY);
}

SEC("tc")
int http_first_line(struct __sk_buff *skb)
{
	char head[240] = {};
	int i, eol = -1;

	if (bpf_skb_load_bytes(skb, 54, head, sizeof(head)) < 0)
		return TC_ACT_OK;
	if (head[0] != 'G' && head[0] != 'P')
		return TC_ACT_OK;
	for (i = 0; i < sizeof(head); i++) {
		if (head[i] == '\n') {
			eol = i;
			break;
		}
	}
	if (eol < 0)
		return TC_ACT_OK;
	keep(skb, 54 + eol, skb->hash & 7);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
