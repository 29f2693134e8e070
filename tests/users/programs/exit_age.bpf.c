// How old processes get: ages in ticks of the kernel's configured clock.
#include "tools.h"

extern int CONFIG_HZ __kconfig;
extern int LINUX_KERNEL_VERSION __kconfig;

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, BUCKETS); __type(key, __u32); __type(value, __u64); } ages SEC(".maps");
// The field's name before Linux 5.5.
struct task_struct___old { __u64 real_start_time; } __attribute__((preserve_access_index));

SEC("tp/sched/sched_process_exit")
int process_exit(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 start, age, *count;
	__u32 at;

	if (bpf_core_field_exists(task->start_boottime))
		start = BPF_CORE_READ(task, start_boottime);
	else
		start = BPF_CORE_READ((struct task_struct___old *)task, real_start_time);
	if (LINUX_KERNEL_VERSION < KERNEL_VERSION(5, 7, 0))
		return 0;
	age = (bpf_ktime_get_boot_ns() - start) / (1000000000ull / (CONFIG_HZ ?: 250));
	at = bucket(age);
	count = bpf_map_lookup_elem(&ages, &at);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
