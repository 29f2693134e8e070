/* SPDX-License-Identifier: GPL-2.0 */
/* The machine instructions that rows name, for the registers of Linux's JITs. */
#ifndef KILN_MACHINE_H
#define KILN_MACHINE_H

struct kiln_code {
	u8 *bytes;
	int size;
};

enum kiln_insn {
	KILN_MOV32, KILN_MOV64,
	/* x86-64 */
	KILN_ROL32, KILN_ROL64, KILN_ROL32CL, KILN_ROL64CL, KILN_RORX32, KILN_RORX64,
	KILN_ANDN32, KILN_ANDN64, KILN_MOVSXB32, KILN_MOVSXW32, KILN_MOVSXB64, KILN_MOVSXW64,
	KILN_MOVSXD64, KILN_LEA64, KILN_PREFETCH64, KILN_LFENCE64,
	/* 64-bit Arm */
	KILN_EXTR32, KILN_EXTR64, KILN_NEG32, KILN_RORV32, KILN_RORV64, KILN_BIC32, KILN_BIC64,
	KILN_SXTB32, KILN_SXTH32, KILN_SXTB64, KILN_SXTH64, KILN_SXTW64, KILN_ADDLSL64,
	KILN_PRFM64, KILN_DSBISB64,
};

/* R0 to R10 in bpf_jit_comp.c: reg2hex, bpf2a64. */
static u8 kiln_machine_reg(enum kiln_arch arch, int reg)
{
	static const u8 x86[] = { 0, 7, 6, 2, 1, 8, 3, 13, 14, 15, 5 };
	static const u8 arm64[] = { 7, 0, 1, 2, 3, 4, 19, 20, 21, 22, 25 };

	return arch == KILN_X86_64 ? x86[reg] : arm64[reg];
}

/* Free within an instruction: r10, r11; x9, x10. */
static u8 kiln_scratch(enum kiln_arch arch, int number)
{
	return (arch == KILN_X86_64 ? 10 : 9) + number;
}

static void kiln_byte(struct kiln_code *out, u8 byte)
{
	out->bytes[out->size++] = byte;
}

static void kiln_word(struct kiln_code *out, u32 word)
{
	int i;

	for (i = 0; i < 32; i += 8)
		kiln_byte(out, word >> i);
}

/* An instruction of two registers: @prefix is 0x0f or 0. */
static void kiln_two(struct kiln_code *out, bool wide, bool byte, u8 prefix, u8 opcode, u8 reg, u8 rm)
{
	u8 rex = 0x40 | wide << 3 | (reg >> 3) << 2 | rm >> 3;

	if (rex != 0x40 || (byte && rm >= 4))
		kiln_byte(out, rex);
	if (prefix)
		kiln_byte(out, prefix);
	kiln_byte(out, opcode);
	kiln_byte(out, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

static void kiln_vex(struct kiln_code *out, u8 map, u8 prefix, bool wide, u8 opcode, u8 reg, u8 vvvv,
		     u8 rm)
{
	kiln_byte(out, 0xc4);
	kiln_byte(out, (reg < 8) << 7 | 1 << 6 | (rm < 8) << 5 | map);
	kiln_byte(out, wide << 7 | (~vvvv & 15) << 3 | prefix);
	kiln_byte(out, opcode);
	kiln_byte(out, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

static void kiln_rol(struct kiln_code *out, bool wide, u8 reg, u8 imm)
{
	kiln_two(out, wide, false, 0, imm == 1 ? 0xd1 : 0xc1, 0, reg);
	if (imm != 1)
		kiln_byte(out, imm);
}

/* lea dst, [base + index << shift] */
static void kiln_lea(struct kiln_code *out, u8 dst, u8 base, u8 index, u8 shift)
{
	/* rbp and r13 as a base need a displacement. */
	bool displaced = (base & 7) == 5;

	kiln_byte(out, 0x48 | (dst >> 3) << 2 | (index >> 3) << 1 | base >> 3);
	kiln_byte(out, 0x8d);
	kiln_byte(out, displaced << 6 | (dst & 7) << 3 | 4);
	kiln_byte(out, shift << 6 | (index & 7) << 3 | (base & 7));
	if (displaced)
		kiln_byte(out, 0);
}

/* prefetcht0 [base] */
static void kiln_prefetch(struct kiln_code *out, u8 base)
{
	bool displaced = (base & 7) == 5;

	if (base >= 8)
		kiln_byte(out, 0x41);
	kiln_byte(out, 0x0f);
	kiln_byte(out, 0x18);
	kiln_byte(out, displaced << 6 | 1 << 3 | (base & 7));
	if (displaced)
		kiln_byte(out, 0);
}

static void kiln_x86(struct kiln_code *out, u8 insn, const u8 *r, u8 imm)
{
	switch (insn) {
	case KILN_MOV32:
	case KILN_MOV64:
		kiln_two(out, insn == KILN_MOV64, false, 0, 0x89, r[1], r[0]);
		break;
	case KILN_ROL32:
	case KILN_ROL64:
		kiln_rol(out, insn == KILN_ROL64, r[0], imm);
		break;
	case KILN_ROL32CL:
	case KILN_ROL64CL:
		kiln_two(out, insn == KILN_ROL64CL, false, 0, 0xd3, 0, r[0]);
		break;
	case KILN_RORX32:
	case KILN_RORX64:
		kiln_vex(out, 3, 3, insn == KILN_RORX64, 0xf0, r[0], 0, r[1]);
		kiln_byte(out, imm);
		break;
	case KILN_ANDN32:
	case KILN_ANDN64:
		kiln_vex(out, 2, 0, insn == KILN_ANDN64, 0xf2, r[0], r[1], r[2]);
		break;
	case KILN_MOVSXB32:
	case KILN_MOVSXB64:
		kiln_two(out, insn == KILN_MOVSXB64, true, 0x0f, 0xbe, r[0], r[1]);
		break;
	case KILN_MOVSXW32:
	case KILN_MOVSXW64:
		kiln_two(out, insn == KILN_MOVSXW64, false, 0x0f, 0xbf, r[0], r[1]);
		break;
	case KILN_MOVSXD64:
		kiln_two(out, true, false, 0, 0x63, r[0], r[1]);
		break;
	case KILN_LEA64:
		kiln_lea(out, r[0], r[1], r[2], imm);
		break;
	case KILN_PREFETCH64:
		kiln_prefetch(out, r[0]);
		break;
	case KILN_LFENCE64:
		kiln_byte(out, 0x0f);
		kiln_byte(out, 0xae);
		kiln_byte(out, 0xe8);
		break;
	}
}

static void kiln_arm64(struct kiln_code *out, u8 insn, const u8 *r, u8 imm)
{
	const u32 wide = 1u << 31, n = 1 << 22, zero = 31;
	u32 one = r[1] << 5 | r[0], two = r[2] << 16 | one;

	switch (insn) {
	case KILN_MOV32:
	case KILN_MOV64:
		kiln_word(out, (insn == KILN_MOV64 ? wide : 0) | 0x2a000000 | r[1] << 16 | zero << 5 | r[0]);
		break;
	case KILN_EXTR32:
		kiln_word(out, 0x13800000 | imm << 10 | two);
		break;
	case KILN_EXTR64:
		kiln_word(out, wide | n | 0x13800000 | imm << 10 | two);
		break;
	case KILN_NEG32:
		kiln_word(out, 0x4b000000 | r[1] << 16 | zero << 5 | r[0]);
		break;
	case KILN_RORV32:
	case KILN_RORV64:
		kiln_word(out, (insn == KILN_RORV64 ? wide : 0) | 0x1ac02c00 | two);
		break;
	case KILN_BIC32:
	case KILN_BIC64:
		kiln_word(out, (insn == KILN_BIC64 ? wide : 0) | 0x0a200000 | two);
		break;
	case KILN_SXTB32:
	case KILN_SXTH32:
		kiln_word(out, 0x13000000 | (insn == KILN_SXTB32 ? 7 : 15) << 10 | one);
		break;
	case KILN_SXTB64:
	case KILN_SXTH64:
	case KILN_SXTW64:
		kiln_word(out, wide | n | 0x13000000 |
			  (insn == KILN_SXTB64 ? 7 : insn == KILN_SXTH64 ? 15 : 31) << 10 | one);
		break;
	case KILN_ADDLSL64:
		kiln_word(out, wide | 0x0b000000 | imm << 10 | two);
		break;
	case KILN_PRFM64:
		kiln_word(out, 0xf9800000 | r[0] << 5);
		break;
	case KILN_DSBISB64:
		kiln_word(out, 0xd503379f);
		kiln_word(out, 0xd5033fdf);
		break;
	}
}

#endif
