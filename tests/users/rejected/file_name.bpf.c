// An argument of a kprobe is followed.
#include "tools.h"
char name[16];
SEC("kprobe/do_unlinkat") int BPF_KPROBE(f, int dfd, struct filename *nm)
{
	const char *s = nm->name;
	bpf_probe_read_kernel_str(name, 32, s);
	return 0;
}
