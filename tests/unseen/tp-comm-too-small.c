// Wrong size into a map value.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct val {
	__u64 ts;
	char comm[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct val);
	__uint(max_entries, 1);
} scratch SEC(".maps");

SEC("tp/sched/sched_process_exec")
int name_it(void *ctx)
{
	__u32 zero = 0;
	struct val *v = bpf_map_lookup_elem(&scratch, &zero);

	if (!v)
		return 0;
	v->ts = bpf_ktime_get_ns();
	bpf_get_current_comm(v->comm, 16);
	return 0;
}

char _license[] SEC("license") = "GPL";
