// Kernel pointer of a raw tracepoint read directly (raw_tp).
// Lifetimes of processes, by exit code.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct life {
	__u64 ns;
	__u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct life);
} lives SEC(".maps");

SEC("raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct life init = {}, *l;
	__u64 born;
	__u32 code;

	if (BPF_CORE_READ(task, pid) != BPF_CORE_READ(task, tgid))
		return 0;
	born = task->start_time;
	code = (BPF_CORE_READ(task, exit_code) >> 8) & 0xff;

	l = bpf_map_lookup_elem(&lives, &code);
	if (!l) {
		bpf_map_update_elem(&lives, &code, &init, BPF_NOEXIST);
		l = bpf_map_lookup_elem(&lives, &code);
		if (!l)
			return 0;
	}
	__sync_fetch_and_add(&l->count, 1);
	__sync_fetch_and_add(&l->ns, bpf_ktime_get_ns() - born);
	return 0;
}

char _license[] SEC("license") = "GPL";
