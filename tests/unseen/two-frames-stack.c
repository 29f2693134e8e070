// Stack: combined size (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define URLLEN 256

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 128);
	__type(key, __u64);
	__type(value, __u32);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} alerts SEC(".maps");

static __noinline __u64 hash_url(struct __sk_buff *skb, __u32 off)
{
	char url[URLLEN] = {};
	__u64 h = 5381;
	int i;

	if (bpf_skb_load_bytes(skb, off, url, sizeof(url)) < 0)
		return 0;
	for (i = 0; i < URLLEN; i++) {
		if (url[i] == ' ')
			break;
		h = h * 33 + url[i];
	}
	return h;
}

SEC("tc")
int http_watch(struct __sk_buff *skb)
{
	struct {
		__u32 ifindex;
		__u32 len;
		char url[URLLEN];
	} ev = {};
	__u32 off = 14 + 20 + 20 + 4;
	__u64 h;

	if (skb->protocol != bpf_htons(0x0800) || skb->len < off + URLLEN)
		return 0;
	h = hash_url(skb, off);
	if (!bpf_map_lookup_elem(&watched, &h))
		return 0;
	ev.ifindex = skb->ifindex;
	ev.len = skb->len;
	bpf_skb_load_bytes(skb, off, ev.url, sizeof(ev.url));
	bpf_perf_event_output(skb, &alerts, BPF_F_CURRENT_CPU, &ev, sizeof(ev));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
