// Samples of a hardware counter by process and processor.
#include "tools.h"

struct counter_key { __u32 pid, cpu; };
struct value { __u64 misses; char name[NAME_BYTES]; };
struct { __uint(type, BPF_MAP_TYPE_PERCPU_HASH); __uint(max_entries, 10240); __type(key, struct counter_key); __type(value, struct value); } samples SEC(".maps");

SEC("perf_event")
int missed(struct bpf_perf_event_data *ctx)
{
	struct counter_key key = { bpf_get_current_pid_tgid() >> 32, bpf_get_smp_processor_id() };
	struct value *value = bpf_map_lookup_elem(&samples, &key), first = {};

	if (!value) {
		bpf_get_current_comm(first.name, sizeof(first.name));
		bpf_map_update_elem(&samples, &key, &first, BPF_NOEXIST);
		value = bpf_map_lookup_elem(&samples, &key);
		if (!value)
			return 0;
	}
	value->misses += ctx->sample_period;
	return 0;
}
