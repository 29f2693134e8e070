// Wrong pointer: user pointer in syscall args (syscall).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct bulk_args {
	__u64 entries;	/* user address */
	__u32 nr;
	__u32 done;
};

struct bulk_entry {
	__u32 key;
	__u32 pad;
	__u64 val;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} table SEC(".maps");

SEC("syscall")
int bulk_insert(struct bulk_args *a)
{
	struct bulk_entry *ue = (void *)a->entries, e;
	__u32 i;

	a->done = 0;
	for (i = 0; i < 256; i++) {
		if (i >= a->nr)
			break;
		e = ue[i];
		if (bpf_map_update_elem(&table, &e.key, &e.val, BPF_ANY))
			return 1;
		a->done++;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
