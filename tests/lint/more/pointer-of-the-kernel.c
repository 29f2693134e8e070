// A pointer that is read from a structure of the kernel may be null, and a check of it is not superfluous.
// lint:
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct mm_struct {
	unsigned long total_vm;
} __attribute__((preserve_access_index));
struct task_struct {
	struct mm_struct *mm;
} __attribute__((preserve_access_index));

__u64 pages;

SEC("tp_btf/sched_process_exit")
int count(__u64 *ctx)
{
	struct mm_struct *mm = ((struct task_struct *)ctx[0])->mm;

	if (mm)
		__sync_fetch_and_add(&pages, mm->total_vm);
	return 0;
}

char _license[] SEC("license") = "GPL";
