/* SPDX-License-Identifier: GPL-2.0 */
/* The machine instructions that rows name, for the registers of Linux's JITs. */
#ifndef KILN_MACHINE_H
#define KILN_MACHINE_H

struct kiln_code {
	u8 *bytes;
	int size;
};

/* The operands of a machine instruction; a comparison by its number in BPF. */
struct kiln_args {
	u8 regs[4];
	s32 imm;
	u8 base;
	s32 offset;
	u8 comparison;
};

enum kiln_insn {
	KILN_MOV32, KILN_MOV64,
	/* x86-64 */
	KILN_ROL32, KILN_ROL64, KILN_ROL32CL, KILN_ROL64CL, KILN_RORX32, KILN_RORX64,
	KILN_ANDN32, KILN_ANDN64, KILN_MOVSXB32, KILN_MOVSXW32, KILN_MOVSXB64, KILN_MOVSXW64,
	KILN_MOVSXD64, KILN_LEA64, KILN_PREFETCH64, KILN_LFENCE64, KILN_ROLW32, KILN_ZERO32,
	KILN_MOVZXW32, KILN_MOVBE32, KILN_MOVBE64, KILN_MOVBESTOREW32, KILN_MOVBESTORE32,
	KILN_MOVBESTORE64, KILN_IMULM32, KILN_IMULM64, KILN_ADDM32, KILN_ADDM64, KILN_SUBM32,
	KILN_SUBM64, KILN_ANDM32, KILN_ANDM64, KILN_ORM32, KILN_ORM64, KILN_XORM32, KILN_XORM64,
	KILN_SETCC32, KILN_CMOVNCC64,
	/* 64-bit Arm */
	KILN_EXTR32, KILN_EXTR64, KILN_NEG32, KILN_RORV32, KILN_RORV64, KILN_BIC32, KILN_BIC64,
	KILN_SXTB32, KILN_SXTH32, KILN_SXTB64, KILN_SXTH64, KILN_SXTW64, KILN_ADDLSL64,
	KILN_PRFM64, KILN_DSBISB64, KILN_LDRH32, KILN_LDR32, KILN_LDR64, KILN_STRH32, KILN_STR32,
	KILN_STR64, KILN_LDP64, KILN_STP64, KILN_STPZR64, KILN_REVERSE16, KILN_REV32, KILN_REV64,
	KILN_CSET32, KILN_CSEL64,
	/* both */
	KILN_CMP32, KILN_CMP64, KILN_CMPI32, KILN_CMPI64,
};

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

/* An instruction with an operand in memory: @opcode is up to three bytes. */
static void kiln_memory(struct kiln_code *out, bool wide, u32 opcode, u8 reg, const struct kiln_args *args)
{
	u8 rex = 0x40 | wide << 3 | (reg >> 3) << 2 | args->base >> 3;
	/* rbp and r13 as a base need a displacement; rsp and r12 hold no BPF register. */
	u8 mode = !args->offset && (args->base & 7) != 5 ? 0x00 :
		  args->offset >= -128 && args->offset <= 127 ? 0x40 : 0x80;

	if (rex != 0x40)
		kiln_byte(out, rex);
	if (opcode >> 16)
		kiln_byte(out, opcode >> 16);
	if (opcode >> 8)
		kiln_byte(out, opcode >> 8);
	kiln_byte(out, opcode);
	kiln_byte(out, mode | (reg & 7) << 3 | (args->base & 7));
	if (mode == 0x40)
		kiln_byte(out, args->offset);
	if (mode == 0x80)
		kiln_word(out, args->offset);
}

/* cmp reg, imm; zero by test */
static void kiln_compare(struct kiln_code *out, bool wide, u8 reg, s32 imm)
{
	if (!imm) {
		kiln_two(out, wide, false, 0, 0x85, reg, reg);
	} else if (imm >= -128 && imm <= 127) {
		kiln_two(out, wide, false, 0, 0x83, 7, reg);
		kiln_byte(out, imm);
	} else {
		if (reg) {
			kiln_two(out, wide, false, 0, 0x81, 7, reg);
		} else {
			if (wide)
				kiln_byte(out, 0x48);
			kiln_byte(out, 0x3d);
		}
		kiln_word(out, imm);
	}
}

/* The condition of jcc, setcc and cmovcc for a comparison of BPF. */
static u8 kiln_x86_condition(u8 comparison)
{
	static const u8 conditions[16] = {
		[1] = 0x4, [2] = 0x7, [3] = 0x3, [5] = 0x5, [6] = 0xf, [7] = 0xd,
		[0xa] = 0x2, [0xb] = 0x6, [0xc] = 0xc, [0xd] = 0xe,
	};

	return conditions[comparison & 15];
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

static void kiln_x86_memory(struct kiln_code *out, u8 insn, const struct kiln_args *args)
{
	static const struct { u8 insn; bool wide; u32 opcode; } rows[] = {
		{ KILN_MOVZXW32, false, 0x0fb7 }, { KILN_MOVBE32, false, 0x0f38f0 }, { KILN_MOVBE64, true, 0x0f38f0 },
		{ KILN_MOVBESTOREW32, false, 0x0f38f1 }, { KILN_MOVBESTORE32, false, 0x0f38f1 },
		{ KILN_MOVBESTORE64, true, 0x0f38f1 }, { KILN_IMULM32, false, 0x0faf }, { KILN_IMULM64, true, 0x0faf },
		{ KILN_ADDM32, false, 0x03 }, { KILN_ADDM64, true, 0x03 }, { KILN_SUBM32, false, 0x2b },
		{ KILN_SUBM64, true, 0x2b }, { KILN_ANDM32, false, 0x23 }, { KILN_ANDM64, true, 0x23 },
		{ KILN_ORM32, false, 0x0b }, { KILN_ORM64, true, 0x0b }, { KILN_XORM32, false, 0x33 },
		{ KILN_XORM64, true, 0x33 },
	};
	unsigned int i;

	if (insn == KILN_MOVBESTOREW32)
		kiln_byte(out, 0x66);
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].insn == insn)
			kiln_memory(out, rows[i].wide, rows[i].opcode, args->regs[0], args);
}

static void kiln_x86(struct kiln_code *out, u8 insn, const struct kiln_args *args)
{
	const u8 *r = args->regs;
	s32 imm = args->imm;

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
	case KILN_ROLW32:
		kiln_byte(out, 0x66);
		kiln_two(out, false, false, 0, 0xc1, 0, r[0]);
		kiln_byte(out, imm);
		break;
	case KILN_ZERO32:
		kiln_two(out, false, false, 0, 0x31, r[0], r[0]);
		break;
	case KILN_CMP32:
	case KILN_CMP64:
		kiln_two(out, insn == KILN_CMP64, false, 0, 0x39, r[1], r[0]);
		break;
	case KILN_CMPI32:
	case KILN_CMPI64:
		kiln_compare(out, insn == KILN_CMPI64, r[0], imm);
		break;
	case KILN_SETCC32:
		kiln_two(out, false, true, 0x0f, 0x90 | kiln_x86_condition(args->comparison), 0, r[0]);
		break;
	case KILN_CMOVNCC64:
		kiln_two(out, true, false, 0x0f, 0x40 | (kiln_x86_condition(args->comparison) ^ 1), r[0], r[1]);
		break;
	default:
		kiln_x86_memory(out, insn, args);
	}
}

/* A number in a register of 64 bits, by movz, movn and movk */
static void kiln_arm64_number(struct kiln_code *out, u8 reg, u64 number)
{
	int i, zeros = 0, ones = 0;
	bool first = true;
	u16 rest;

	for (i = 0; i < 64; i += 16) {
		zeros += (u16)(number >> i) == 0;
		ones += (u16)(number >> i) == 0xffff;
	}
	rest = ones > zeros ? 0xffff : 0;
	for (i = 0; i < 4; i++) {
		u16 half = number >> 16 * i;

		if (half == rest)
			continue;
		if (first)
			kiln_word(out, (rest ? 0x92800000 : 0xd2800000) | i << 21 |
				  (u32)(u16)(rest ? ~half : half) << 5 | reg);
		else
			kiln_word(out, 0xf2800000 | i << 21 | (u32)half << 5 | reg);
		first = false;
	}
	if (first)
		kiln_word(out, (rest ? 0x92800000 : 0xd2800000) | reg);
}

/* A load or a store; the first scratch register may hold the offset. */
static void kiln_arm64_access(struct kiln_code *out, bool load, int log, u8 reg, const struct kiln_args *args)
{
	u32 common = (u32)log << 30 | (u32)load << 22 | args->base << 5 | reg;
	s32 offset = args->offset;

	if (offset >= 0 && !(offset & ((1 << log) - 1)) && offset >> log < 4096) {
		kiln_word(out, 0x39000000 | common | (u32)(offset >> log) << 10);
	} else if (offset >= -256 && offset < 256) {
		kiln_word(out, 0x38000000 | common | ((u32)offset & 0x1ff) << 12);
	} else {
		kiln_arm64_number(out, kiln_scratch(KILN_AARCH64, 0), (s64)offset);
		kiln_word(out, 0x38206800 | common | (u32)kiln_scratch(KILN_AARCH64, 0) << 16);
	}
}

static void kiln_arm64_pair(struct kiln_code *out, bool load, u8 one, u8 two, const struct kiln_args *args)
{
	const u8 scratch = kiln_scratch(KILN_AARCH64, 0);
	s32 offset = args->offset;
	u8 base = args->base;

	if (offset & 7 || offset < -512 || offset >= 512) {
		kiln_arm64_number(out, scratch, (s64)offset);
		kiln_word(out, 0x8b000000 | (u32)scratch << 16 | (u32)base << 5 | scratch);
		base = scratch;
		offset = 0;
	}
	kiln_word(out, 0xa9000000 | (u32)load << 22 | ((u32)(offset >> 3) & 0x7f) << 15 | (u32)two << 10 |
		  (u32)base << 5 | one);
}

static void kiln_arm64_memory(struct kiln_code *out, u8 insn, const struct kiln_args *args)
{
	const u8 zero = 31;

	switch (insn) {
	case KILN_LDRH32:
	case KILN_STRH32:
		kiln_arm64_access(out, insn == KILN_LDRH32, 1, args->regs[0], args);
		break;
	case KILN_LDR32:
	case KILN_STR32:
		kiln_arm64_access(out, insn == KILN_LDR32, 2, args->regs[0], args);
		break;
	case KILN_LDR64:
	case KILN_STR64:
		kiln_arm64_access(out, insn == KILN_LDR64, 3, args->regs[0], args);
		break;
	case KILN_LDP64:
	case KILN_STP64:
		kiln_arm64_pair(out, insn == KILN_LDP64, args->regs[0], args->regs[1], args);
		break;
	case KILN_STPZR64:
		kiln_arm64_pair(out, false, zero, zero, args);
		break;
	}
}

/* The condition of b.cond, cset and csel for a comparison of BPF. */
static u8 kiln_arm64_condition(u8 comparison)
{
	static const u8 conditions[16] = {
		[1] = 0, [2] = 8, [3] = 2, [5] = 1, [6] = 12, [7] = 10, [0xa] = 3, [0xb] = 9, [0xc] = 11, [0xd] = 13,
	};

	return conditions[comparison & 15];
}

static void kiln_arm64_compare(struct kiln_code *out, bool wide, u8 reg, s32 imm)
{
	const u8 zero = 31, scratch = kiln_scratch(KILN_AARCH64, 0);
	u32 width = wide ? 1u << 31 : 0;

	if (imm >= 0 && imm < 4096) {
		kiln_word(out, 0x71000000 | width | (u32)imm << 10 | (u32)reg << 5 | zero);
	} else if (imm > -4096 && imm < 0) {
		kiln_word(out, 0x31000000 | width | (u32)-imm << 10 | (u32)reg << 5 | zero);
	} else {
		kiln_arm64_number(out, scratch, wide ? (u64)(s64)imm : (u32)imm);
		kiln_word(out, 0x6b000000 | width | (u32)scratch << 16 | (u32)reg << 5 | zero);
	}
}

static void kiln_arm64(struct kiln_code *out, u8 insn, const struct kiln_args *args)
{
	const u32 wide = 1u << 31, n = 1 << 22, zero = 31;
	const u8 *r = args->regs;
	u32 imm = args->imm;
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
	case KILN_REVERSE16:
		kiln_word(out, 0x5ac00400 | one);
		break;
	case KILN_REV32:
		kiln_word(out, 0x5ac00800 | one);
		break;
	case KILN_REV64:
		kiln_word(out, 0xdac00c00 | one);
		break;
	case KILN_CMP32:
	case KILN_CMP64:
		kiln_word(out, (insn == KILN_CMP64 ? wide : 0) | 0x6b000000 | r[1] << 16 | r[0] << 5 | zero);
		break;
	case KILN_CMPI32:
	case KILN_CMPI64:
		kiln_arm64_compare(out, insn == KILN_CMPI64, r[0], args->imm);
		break;
	case KILN_CSET32:
		kiln_word(out, 0x1a9f07e0 | (kiln_arm64_condition(args->comparison) ^ 1) << 12 | r[0]);
		break;
	case KILN_CSEL64:
		kiln_word(out, 0x9a800000 | r[2] << 16 | kiln_arm64_condition(args->comparison) << 12 | one);
		break;
	default:
		kiln_arm64_memory(out, insn, args);
	}
}

#endif
