// A map's value is a timer itself, not a structure with one.
// check: reject wrong-argument-type
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, int);
	__type(value, struct bpf_timer);
} timers SEC(".maps");

SEC("tc")
int begin(struct __sk_buff *skb)
{
	int key = 0;
	struct bpf_timer *timer = bpf_map_lookup_elem(&timers, &key);

	if (timer)
		bpf_timer_init(timer, &timers, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
