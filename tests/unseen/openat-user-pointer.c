// User pointer read directly (tracepoint).
// Counts opens per top directory.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct dir {
	char name[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct dir);
	__type(value, __u64);
} dirs SEC(".maps");

struct open_args {
	__u64 common;
	long nr;
	long dfd;
	const char *filename;
	long flags;
	long mode;
};

SEC("tracepoint/syscalls/sys_enter_openat")
int on_open(struct open_args *ctx)
{
	struct dir d = {};
	__u64 one = 1, *n;
	char buf[64] = {};
	long len;

	if (ctx->flags & 0100)
		return 0;
	if (ctx->filename[0] != '/')
		return 0;
	len = bpf_probe_read_user_str(buf, sizeof(buf), ctx->filename);
	if (len < 2)
		return 0;
	for (int i = 0; i < 15; i++) {
		if (buf[i + 1] == '/' || buf[i + 1] == 0)
			break;
		d.name[i] = buf[i + 1];
	}
	n = bpf_map_lookup_elem(&dirs, &d);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&dirs, &d, &one, BPF_NOEXIST);
	return 0;
}

char _license[] SEC("license") = "GPL";
