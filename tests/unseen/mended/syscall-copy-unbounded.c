#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct args {
	__u64 uptr;
	__u32 len;
};

char buf[256];

SEC("syscall")
int fetch(struct args *a)
{
	__u32 len = a->len;

	if (len < 4 || len > sizeof(buf))
		return -22;
	return bpf_copy_from_user(buf, len, (void *)a->uptr);
}

char _license[] SEC("license") = "GPL";
