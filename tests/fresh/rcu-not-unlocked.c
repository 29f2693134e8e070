// One path returns inside of the RCU section.
// line: }
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

int wanted, hits;

SEC("tp_btf/sys_enter")
int enter(void *ctx)
{
	bpf_rcu_read_lock();
	if (bpf_get_current_pid_tgid() >> 32 != wanted)
		return 0;
	hits++;
	bpf_rcu_read_unlock();
	return 0;
}

char _license[] SEC("license") = "GPL";
