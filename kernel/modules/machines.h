/* SPDX-License-Identifier: GPL-2.0 */
/* For user space: where Linux's JITs have R0 to R10, which a kernel tells the
 * module itself (reg2hex and bpf2a64 in bpf_jit_comp.c).
 */
#ifndef KILN_MACHINES_H
#define KILN_MACHINES_H

static const struct kiln_machine {
	enum kiln_arch arch;
	u8 regs[11];
} kiln_machines[] = {
	{ KILN_X86_64, { 0, 7, 6, 2, 1, 8, 3, 13, 14, 15, 5 } },
	{ KILN_AARCH64, { 7, 0, 1, 2, 3, 4, 19, 20, 21, 22, 25 } },
	/* since Linux 7.3 */
	{ KILN_AARCH64, { 8, 0, 1, 2, 3, 4, 19, 20, 21, 22, 25 } },
};

#define KILN_MACHINES (sizeof(kiln_machines) / sizeof(*kiln_machines))

#endif
