// Off by one in a growing buffer.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define ARGSIZE 64
#define TOTAL 512

struct args {
	__u32 off;
	char buf[TOTAL];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct args);
	__uint(max_entries, 1);
} heap SEC(".maps");

SEC("tp/syscalls/sys_enter_execve")
int execs(struct trace_event_raw_sys_enter *ctx)
{
	const char **argv = (const char **)ctx->args[1];
	__u32 zero = 0, off = 0;
	struct args *a = bpf_map_lookup_elem(&heap, &zero);

	if (!a)
		return 0;
	for (int i = 0; i < 12; i++) {
		const char *p = 0;
		long n;

		bpf_probe_read_user(&p, sizeof(p), &argv[i]);
		if (!p)
			break;
		if (off > TOTAL - ARGSIZE + 1)
			break;
		n = bpf_probe_read_user_str(&a->buf[off], ARGSIZE, p);
		if (n < 0 || n > ARGSIZE)
			break;
		off += n;
	}
	a->off = off;
	return 0;
}

char _license[] SEC("license") = "GPL";
