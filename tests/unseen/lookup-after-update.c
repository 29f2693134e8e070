// Second lookup used without a null check (tracepoint).
// Read latencies per file descriptor type.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct hist {
	__u64 slots[26];
	__u64 sum;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, __u64);
	__type(value, __u64);
} start SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct hist);
} hists SEC(".maps");

static const struct hist empty;

SEC("tracepoint/syscalls/sys_enter_read")
int enter(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();

	bpf_map_update_elem(&start, &id, &now, BPF_ANY);
	return 0;
}

SEC("tracepoint/syscalls/sys_exit_read")
int leave(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), *t, d;
	__u32 tgid = id >> 32, slot = 0;
	struct hist *h;

	t = bpf_map_lookup_elem(&start, &id);
	if (!t)
		return 0;
	d = (bpf_ktime_get_ns() - *t) / 1000;
	bpf_map_delete_elem(&start, &id);
	h = bpf_map_lookup_elem(&hists, &tgid);
	if (!h) {
		bpf_map_update_elem(&hists, &tgid, &empty, BPF_NOEXIST);
		h = bpf_map_lookup_elem(&hists, &tgid);
	}
	__sync_fetch_and_add(&h->sum, d);
	for (; slot < 25 && d > 1; slot++)
		d >>= 1;
	__sync_fetch_and_add(&h->slots[slot], 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
