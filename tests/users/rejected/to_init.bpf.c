// A walk along parents that nothing bounds.
#include "tools.h"
SEC("tp_btf/sched_switch") int BPF_PROG(f, bool p, struct task_struct *prev)
{
	int depth = 0;
	struct task_struct *t = prev;
	while (t->pid != 1) { t = t->real_parent; depth++; }
	return depth > 4 ? 0 : 0;
}
