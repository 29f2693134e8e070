// The timer is a member of a structure.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct element {
	struct bpf_timer timer;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, int);
	__type(value, struct element);
} timers SEC(".maps");

SEC("tc")
int begin(struct __sk_buff *skb)
{
	int key = 0;
	struct element *element = bpf_map_lookup_elem(&timers, &key);

	if (element)
		bpf_timer_init(&element->timer, &timers, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
