/* SPDX-License-Identifier: GPL-2.0 */
/* Rows of Kiln's operation table as C data, and what they mean: a record's
 * proof sequence and its machine code. Pure, so that a test in user space
 * compares them with Kiln's JIT byte by byte.
 */
#ifndef KILN_OPERATION_H
#define KILN_OPERATION_H

#define KILN_OPERANDS 8

enum kiln_arch { KILN_X86_64, KILN_AARCH64 };
enum kiln_feature { KILN_BMI1 = 1, KILN_BMI2 = 2, KILN_MOVBE = 4 };
enum kiln_kind { KILN_RESULT, KILN_SOURCE, KILN_TEMPORARY, KILN_IMMEDIATE, KILN_COMPARISON };
enum kiln_test { KILN_SAME, KILN_DIFFER, KILN_IS, KILN_IS_NOT };
enum kiln_from { KILN_CONSTANT, KILN_OPERAND, KILN_COMPLEMENT, KILN_SUM };
enum kiln_place { KILN_REG, KILN_SCRATCH, KILN_BPF, KILN_IMM, KILN_MEMORY, KILN_CONDITION };
/* What a branch tests: a comparison operand, its opposite, or one comparison. */
enum kiln_branch { KILN_NONE, KILN_HOLDS, KILN_FAILS, KILN_FIXED };

struct kiln_operand {
	u8 kind;
	s32 min, max;
};

struct kiln_condition {
	u8 test, left, right;
};

struct kiln_imm {
	u8 from, operand;
	s32 constant;
};

/* The choices of one instruction: opcodes, in the order of the variant's digits.
 * A branch leads to the end; an access to memory has a number of bytes.
 */
struct kiln_template {
	u8 choices;
	u8 codes[8];
	u8 dst, src;
	bool from_reg;
	struct kiln_imm imm, off;
	u8 bytes;
	u8 branch, comparison;
};

struct kiln_form {
	const struct kiln_condition *when;
	const struct kiln_template *code;
	u8 conditions, length;
};

struct kiln_native_operand {
	u8 place, index;
	struct kiln_imm imm;
};

struct kiln_native_insn {
	u8 insn, operands;
	struct kiln_native_operand operand[4];
};

struct kiln_native {
	u8 arch, needs, conditions, length;
	const struct kiln_condition *when;
	const struct kiln_native_insn *code;
};

struct kiln_operation {
	const char *name;
	const struct kiln_operand *operands;
	const struct kiln_form *forms;
	const struct kiln_native *native;
	u8 operand_count, form_count, native_count;
};

#include "machine.h"
#include "operations.h"

static s32 kiln_imm(const struct kiln_imm *imm, const s32 *operands)
{
	s32 value = operands[imm->operand];

	switch (imm->from) {
	case KILN_OPERAND:
		return value;
	case KILN_COMPLEMENT:
		return imm->constant - value;
	case KILN_SUM:
		return imm->constant + value;
	default:
		return imm->constant;
	}
}

static bool kiln_holds(const struct kiln_condition *when, int count, const s32 *operands)
{
	for (; count--; when++) {
		s32 left = operands[when->left];
		bool holds = false;

		switch (when->test) {
		case KILN_SAME:
			holds = left == operands[when->right];
			break;
		case KILN_DIFFER:
			holds = left != operands[when->right];
			break;
		case KILN_IS:
			holds = left == when->right;
			break;
		case KILN_IS_NOT:
			holds = left != when->right;
			break;
		}
		if (!holds)
			return false;
	}
	return true;
}

/* The opposite of a comparison, both as opcodes without class; 0 if it has none. */
static u8 kiln_opposite(u8 comparison)
{
	static const u8 pairs[][2] = {
		{ 0x10, 0x50 }, { 0x20, 0xb0 }, { 0x30, 0xa0 }, { 0x60, 0xd0 }, { 0x70, 0xc0 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		if (pairs[i][0] == comparison)
			return pairs[i][1];
		if (pairs[i][1] == comparison)
			return pairs[i][0];
	}
	return 0;
}

/* Whether registers and numbers are in range, for this form. */
static bool kiln_allowed(const struct kiln_operation *op, unsigned int form, const s32 *operands)
{
	int i;

	if (form >= op->form_count)
		return false;
	for (i = 0; i < op->operand_count; i++) {
		const struct kiln_operand *operand = &op->operands[i];
		s32 min = operand->kind == KILN_IMMEDIATE ? operand->min : 0;
		s32 max = operand->kind == KILN_IMMEDIATE ? operand->max :
			  operand->kind == KILN_SOURCE ? 10 : 9;

		if (operand->kind == KILN_COMPARISON) {
			min = 0;
			max = kiln_opposite((operands[i] & 15) << 4) ? 15 : -1;
		}
		if (operands[i] < min || operands[i] > max)
			return false;
	}
	for (; i < KILN_OPERANDS; i++)
		if (operands[i])
			return false;
	return kiln_holds(op->forms[form].when, op->forms[form].conditions, operands);
}

/* The comparison of a branch, as an opcode without class. */
static u8 kiln_test(const struct kiln_template *template, const s32 *operands)
{
	switch (template->branch) {
	case KILN_HOLDS:
		return operands[template->comparison] << 4;
	case KILN_FAILS:
		return kiln_opposite(operands[template->comparison] << 4);
	default:
		return template->comparison << 4;
	}
}

/* The proof sequence, in at most @room instructions; 0 if there is none. */
static int kiln_proof(const struct kiln_operation *op, unsigned int form, unsigned int variant,
		      const s32 *operands, struct bpf_insn *insns, int room)
{
	const struct kiln_template *template;
	int i, length;

	if (!kiln_allowed(op, form, operands))
		return 0;
	template = op->forms[form].code;
	length = op->forms[form].length;
	if (length > room)
		return 0;
	for (i = 0; i < length; i++, template++) {
		struct bpf_insn insn = { 0 };

		insn.code = template->codes[variant % template->choices];
		variant /= template->choices;
		insn.dst_reg = operands[template->dst];
		if (template->from_reg)
			insn.src_reg = operands[template->src];
		else
			insn.imm = kiln_imm(&template->imm, operands);
		if (template->bytes)
			insn.off = kiln_imm(&template->off, operands);
		if (template->branch) {
			insn.code |= kiln_test(template, operands);
			insn.off = length - 1 - i;
		}
		insns[i] = insn;
	}
	return variant ? 0 : length;
}

/* The mask of registers that machine code leaves as the proof sequence does. */
static u16 kiln_results(const struct kiln_operation *op, const s32 *operands)
{
	u16 mask = 0;
	int i;

	for (i = 0; i < op->operand_count; i++)
		if (op->operands[i].kind == KILN_RESULT)
			mask |= 1 << operands[i];
	return mask;
}

/* Machine code for an allowed record, with Rn in the machine's register @regs[n];
 * its size, or 0 if there is none.
 */
static int kiln_emit(const struct kiln_operation *op, enum kiln_arch arch, unsigned int features,
		     const u8 *regs, const s32 *operands, u8 *code)
{
	const struct kiln_native *native = op->native;
	struct kiln_code out = { code, 0 };
	int i, n;

	for (n = op->native_count; n; n--, native++)
		if (native->arch == arch && !(native->needs & ~features) &&
		    kiln_holds(native->when, native->conditions, operands))
			break;
	for (i = 0; n && i < native->length; i++) {
		const struct kiln_native_insn *insn = &native->code[i];
		struct kiln_args args = { 0 };
		int j, count = 0;

		for (j = 0; j < insn->operands; j++) {
			const struct kiln_native_operand *operand = &insn->operand[j];

			switch (operand->place) {
			case KILN_REG:
				args.regs[count++] = regs[operands[operand->index]];
				break;
			case KILN_BPF:
				args.regs[count++] = regs[operand->index];
				break;
			case KILN_SCRATCH:
				args.regs[count++] = kiln_scratch(arch, operand->index);
				break;
			case KILN_MEMORY:
				args.base = regs[operands[operand->index]];
				args.offset = kiln_imm(&operand->imm, operands);
				break;
			case KILN_CONDITION:
				args.comparison = operands[operand->index];
				break;
			default:
				args.imm = kiln_imm(&operand->imm, operands);
			}
		}
		if (arch == KILN_X86_64)
			kiln_x86(&out, insn->insn, &args);
		else
			kiln_arm64(&out, insn->insn, &args);
	}
	return out.size;
}

#endif
