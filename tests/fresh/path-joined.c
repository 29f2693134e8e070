// Names are joined: each is read behind the one before, and nothing bounds the place.
// line: length = bpf_probe_read_kernel_str(path + at, 32, names[i]);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char path[256];
const char *names[16];

SEC("kprobe/do_unlinkat")
int joined(void *ctx)
{
	__u32 at = 0;

	for (int i = 0; i < 16; i++) {
		long length;

		length = bpf_probe_read_kernel_str(path + at, 32, names[i]);
		if (length < 1)
			break;
		at += length;
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
