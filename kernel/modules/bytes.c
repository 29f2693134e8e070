// SPDX-License-Identifier: GPL-2.0
/* The module's pure part in user space, for the test that compares it with
 * Kiln's JIT. Reads records and prints the proof sequence, the mask of results,
 * and the code of each:
 *
 *	MACHINE FEATURES NAME FORM VARIANT OPERAND*8  ->  HEX HEX HEX
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define BPF_OP(code) ((code) & 0xf0)
#define BPF_X 0x08
#define BPF_NEG 0x80

#include "operation.h"
#include "machines.h"

static void print(const void *bytes, int size)
{
	const u8 *at = bytes;

	if (!size)
		printf("-");
	while (size--)
		printf("%02x", *at++);
}

int main(void)
{
	unsigned int machine, features, form, variant;
	char name[33];
	s32 o[KILN_OPERANDS];

	while (scanf("%u %u %32s %u %u %d %d %d %d %d %d %d %d", &machine, &features, name, &form, &variant,
		     o, o + 1, o + 2, o + 3, o + 4, o + 5, o + 6, o + 7) == 13 &&
	       machine < KILN_MACHINES) {
		const struct kiln_operation *op = NULL;
		struct bpf_insn insns[16];
		int i, length, size = 0;
		u8 code[64];

		for (i = 0; i < (int)(sizeof(kiln_operations) / sizeof(*kiln_operations)); i++)
			if (!strcmp(kiln_operations[i].name, name))
				op = &kiln_operations[i];
		length = op ? kiln_proof(op, form, variant, o, insns, 16) : 0;
		if (length)
			size = kiln_emit(op, kiln_machines[machine].arch, features, kiln_machines[machine].regs, o, code);
		print(insns, length * (int)sizeof(*insns));
		printf(" %04x ", length ? kiln_results(op, o) : 0);
		print(code, size);
		printf("\n");
	}
	return 0;
}
