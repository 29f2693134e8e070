// SPDX-License-Identifier: GPL-2.0
/* Init of a test machine without the patches: the kernel's own tests alone. */
#include "steps.h"

int main(void)
{
	start();
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	finish();
	return 0;
}
