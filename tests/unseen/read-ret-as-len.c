// Bounds: length (error return reused) (tracepoint).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct dns_req {
	__u32 pid;
	__u32 fd;
	char host[200];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dns_req);
} req SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} rb SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_sendto")
int on_sendto(struct trace_event_raw_sys_enter *ctx)
{
	struct dns_req *r;
	__u32 zero = 0;
	long len;

	r = bpf_map_lookup_elem(&req, &zero);
	if (!r)
		return 0;
	r->pid = bpf_get_current_pid_tgid() >> 32;
	r->fd = ctx->args[0];

	/* skip the 12 byte header, the name follows */
	len = bpf_probe_read_user_str(r->host, sizeof(r->host),
				      (const char *)ctx->args[1] + 12);
	if (len == 0)
		return 0;
	bpf_ringbuf_output(&rb, r, offsetof(struct dns_req, host) + len, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
