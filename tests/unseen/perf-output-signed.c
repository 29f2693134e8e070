// Length may be negative (kprobe).
// Sends command lines of new programs through a perf buffer.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define ROOM 4096

struct record {
	__u32 pid;
	__u32 len;
	char text[ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} out SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} scratch SEC(".maps");

SEC("kprobe/security_bprm_check")
int BPF_KPROBE(on_exec, struct linux_binprm *bprm)
{
	const char *path = BPF_CORE_READ(bprm, filename);
	struct record *r;
	__u32 zero = 0;
	int n;

	r = bpf_map_lookup_elem(&scratch, &zero);
	if (!r)
		return 0;
	r->pid = bpf_get_current_pid_tgid() >> 32;
	n = bpf_probe_read_kernel_str(r->text, sizeof(r->text), path);
	if (n > ROOM)
		return 0;
	r->len = n;
	bpf_perf_event_output(ctx, &out, BPF_F_CURRENT_CPU, r,
			      offsetof(struct record, text) + n);
	return 0;
}

char _license[] SEC("license") = "GPL";
