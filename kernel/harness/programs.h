/* SPDX-License-Identifier: GPL-2.0 */
/* Programs with a record, for the inits of the test machine.
 *
 * The program of a record loads R0 to R9 and some bytes of its stack from a
 * state, runs the proof sequence and writes all registers that are not clobbered,
 * and these bytes, back to the state. It is loaded with the record and without.
 * States are in the packet where programs may write it, else in a map. Each run
 * takes the next one, so one call of BPF_PROG_TEST_RUN tests many.
 */
#include "steps.h"

#define BPF_OP(code) ((code) & 0xf0)
#define BPF_X 0x08
#define BPF_NEG 0x80

#include "operation.h"
#include "machines.h"

#ifdef __aarch64__
#define ARCH KILN_AARCH64
#else
#define ARCH KILN_X86_64
#endif

/* Codes that a record may have, by the kernel's registers and the processor's features. */
#define FEATURES 8
#define CODES (int)(KILN_MACHINES * FEATURES)

#define MEMORY 32	/* bytes on the stack that operations access */
#define STATE 208	/* bytes of a state: registers, and after 88 what the program writes */
#define WRITTEN 88
#define STATES 16	/* of a buffer, which begins with the number of the next */
#define BUFFER (8 + STATES * STATE)
#define HEADER 14	/* of Ethernet, which some programs do not see */
#define INPUT (BUFFER + HEADER)

static u64 seed = 0x9e3779b97f4a7c15;

static inline u64 rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static char verifier_log[65536];

/* Types of programs. Those that may write packets have the place of the packet in
 * their context; the kernel takes no packet and no repetitions for the last two.
 * An XDP program that is repeated gets a dispatcher, which waits for RCU twice.
 */
static const struct type {
	const char *name;
	u32 type, data, data_end, header, flags;
	bool once, bare;
} types[] = {
	{ "xdp", BPF_PROG_TYPE_XDP, 0, 4, .once = true },
	{ "sched_cls", BPF_PROG_TYPE_SCHED_CLS, 76, 80 },
	{ "sched_act", BPF_PROG_TYPE_SCHED_ACT, 76, 80 },
	{ "lwt_xmit", BPF_PROG_TYPE_LWT_XMIT, 76, 80, HEADER },
	{ "socket_filter", BPF_PROG_TYPE_SOCKET_FILTER },
	{ "cgroup_skb", BPF_PROG_TYPE_CGROUP_SKB },
	{ "raw_tracepoint", BPF_PROG_TYPE_RAW_TRACEPOINT, .once = true, .bare = true },
	{ "syscall", BPF_PROG_TYPE_SYSCALL, .flags = BPF_F_SLEEPABLE, .once = true, .bare = true },
};

/* A map with one buffer, and where this process sees it. */
static struct {
	int fd;
	u8 *buffer;
} map;

static void make_map(void)
{
	union bpf_attr attr = { 0 };

	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = BUFFER;
	attr.max_entries = 1;
	attr.map_flags = BPF_F_MMAPABLE;
	map.fd = bpf(BPF_MAP_CREATE, &attr);
	map.buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED, map.fd, 0);
	if (map.buffer == MAP_FAILED)
		fail("a map: %s", strerror(errno));
}

struct prog {
	struct bpf_insn insns[160];
	int len, region;
};

#define INSN(c, d, s, o, i) \
	(p->insns[p->len++] = (struct bpf_insn){ .code = c, .dst_reg = d, .src_reg = s, .off = o, .imm = i })

/* Ends the program unless the packet has @bytes at R2; R5 is its end. */
static inline void check_end(struct prog *p, const struct type *type, int bytes)
{
	if (!type->data_end)
		return;
	INSN(0xbf, 4, 2, 0, 0);
	INSN(0x07, 4, 0, 0, bytes);
	INSN(0xbd, 4, 5, 2, 0);
	INSN(0xb7, 0, 0, 0, 0);
	INSN(0x95, 0, 0, 0, 0);
}

/* R2 is the next state. */
static inline void open_state(struct prog *p, const struct type *type)
{
	if (type->data_end) {
		INSN(0x61, 2, 1, type->data, 0);
		INSN(0x61, 5, 1, type->data_end, 0);
	} else {
		INSN(0x18, 2, BPF_PSEUDO_MAP_VALUE, 0, map.fd);
		INSN(0, 0, 0, 0, 0);
	}
	check_end(p, type, 8);
	INSN(0x79, 3, 2, 0, 0);
	INSN(0xbf, 4, 3, 0, 0);
	INSN(0x07, 4, 0, 0, 1);
	INSN(0x7b, 2, 4, 0, 0);
	INSN(0x57, 3, 0, 0, STATES - 1);
	INSN(0x27, 3, 0, 0, STATE);
	INSN(0x0f, 2, 3, 0, 0);
	INSN(0x07, 2, 0, 0, 8);
	check_end(p, type, STATE);
}

/* Where operations access the stack, and the register that points to the state
 * for those that access it, in the packet or map.
 */
#define STACK_MEMORY (-136)
#define STATE_BASE 1

static inline void build_at(struct prog *p, const struct type *type, const struct bpf_insn *proof, int len, u16 live,
		     bool in_state)
{
	int r;

	p->len = 0;
	open_state(p, type);
	INSN(0x7b, 10, 2, -8, 0);
	INSN(0xbf, 1, 2, 0, 0);
	for (r = 0; r < MEMORY; r += 8) {
		INSN(0x79, 3, 1, 8 + r, 0);
		INSN(0x7b, 10, 3, STACK_MEMORY + r, 0);
	}
	for (r = 0; r < 10; r++)
		if (r != STATE_BASE)
			INSN(0x79, r, 1, 8 * r, 0);
	if (!in_state)
		INSN(0x79, 1, 1, 8, 0);
	p->region = p->len;
	memcpy(p->insns + p->len, proof, len * sizeof(*proof));
	p->len += len;
	for (r = 0; r < 10; r++)
		if (live >> r & 1)
			INSN(0x7b, 10, r, -16 - 8 * r, 0);
	INSN(0x79, 2, 10, -8, 0);
	for (r = 0; r < 10; r++)
		if (live >> r & 1) {
			INSN(0x79, 3, 10, -16 - 8 * r, 0);
			INSN(0x7b, 2, 3, WRITTEN + 8 * r, 0);
		}
	for (r = 0; r < MEMORY; r += 8) {
		INSN(0x79, 3, 10, STACK_MEMORY + r, 0);
		INSN(0x7b, 2, 3, WRITTEN + 80 + r, 0);
	}
	INSN(0xb7, 0, 0, 0, 0);
	INSN(0x95, 0, 0, 0, 0);
}

static inline void build(struct prog *p, const struct type *type, const struct bpf_insn *proof, int len, u16 live)
{
	build_at(p, type, proof, len, live, false);
}

/* Loads a program. If that fails, it is loaded again with the verifier's log, which takes long. */
static inline int load(const struct prog *p, const struct type *type, const struct bpf_native_op_rec *recs, u32 count,
		       u32 size)
{
	union bpf_attr attr = { 0 };
	int fd;

	attr.prog_type = type->type;
	attr.prog_flags = type->flags;
	attr.insns = (u64)(uintptr_t)p->insns;
	attr.insn_cnt = p->len;
	attr.license = (u64)(uintptr_t)"GPL";
	attr.native_ops = (u64)(uintptr_t)recs;
	attr.native_op_cnt = count;
	attr.native_op_rec_size = size;
	fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd >= 0)
		return fd;
	attr.log_buf = (u64)(uintptr_t)verifier_log;
	attr.log_size = sizeof(verifier_log);
	attr.log_level = 1;
	verifier_log[0] = 0;
	return bpf(BPF_PROG_LOAD, &attr);
}

static inline int load_with(const struct prog *p, const struct type *type, const struct bpf_native_op_rec *rec)
{
	return load(p, type, rec, 1, sizeof(*rec));
}

/* One call of BPF_PROG_TEST_RUN; @out may be no place. */
static inline int test_run(int fd, const struct type *type, const u8 *in, u8 *out, u32 repeat)
{
	union bpf_attr attr = { 0 };

	attr.test.prog_fd = fd;
	if (!type->bare) {
		attr.test.data_in = (u64)(uintptr_t)in;
		attr.test.data_size_in = INPUT;
		attr.test.data_out = (u64)(uintptr_t)out;
		attr.test.data_size_out = out ? INPUT : 0;
		attr.test.repeat = repeat;
	}
	return bpf(BPF_PROG_TEST_RUN, &attr);
}

/* Runs a program on each state of a buffer, and writes the buffer that it leaves. */
static inline int run(int fd, const struct type *type, const u8 *in, u8 *out)
{
	int i, calls = type->once ? STATES : 1;

	memcpy(out, in, INPUT);
	memcpy(map.buffer, in + type->header, BUFFER);
	for (i = 0; i < calls; i++)
		if (test_run(fd, type, out, type->data_end ? out : NULL, STATES / calls))
			return -1;
	if (!type->data_end)
		memcpy(out + type->header, map.buffer, BUFFER);
	return 0;
}

static inline u8 *state_of(u8 *packet, const struct type *type, int number)
{
	return packet + type->header + 8 + number * STATE;
}

/* How many states of a buffer programs have taken. */
static inline u64 taken(const u8 *packet, const struct type *type)
{
	u64 number;

	memcpy(&number, packet + type->header, sizeof(number));
	return number;
}

static inline u64 value(void)
{
	static const u64 corners[] = {
		0, 1, 2, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
	};

	return rnd() & 1 ? rnd() : corners[rnd() % ARRAY_SIZE(corners)];
}

/* A packet of new states. */
static inline void fill(u8 *packet, const struct type *type)
{
	int n, r;

	memset(packet, 0, INPUT);
	for (n = 0; n < STATES; n++)
		for (r = 0; r < 10; r++) {
			u64 v = value();

			memcpy(state_of(packet, type, n) + 8 * r, &v, 8);
		}
}

/* The first template that accesses memory, or none. */
static const struct kiln_template *access_of(const struct kiln_form *form)
{
	int i;

	for (i = 0; i < form->length; i++)
		if (form->code[i].bytes)
			return &form->code[i];
	return NULL;
}

static inline s32 any(const struct kiln_operand *operand)
{
	u64 range = (u64)((s64)operand->max - operand->min) + 1;

	switch (operand->kind) {
	case KILN_IMMEDIATE:
		return operand->min == INT32_MIN && rnd() & 1 ? (s32)value() : (s32)(operand->min + (s64)(rnd() % range));
	case KILN_COMPARISON:
		return rnd() % 16;
	default:
		return rnd() % 10;
	}
}

/* Puts an access into the stack's or the state's memory; false if
 * another operand is the register with its address.
 */
static inline bool place(const struct kiln_operation *op, const struct kiln_template *access, bool in_state, s32 *o)
{
	int base = (access->codes[0] & 7) == 1 ? access->src : access->dst;
	int i;

	/* A stack slot is aligned; a pair has its second half behind the first. */
	o[access->off.operand] = in_state ? (s32)(rnd() % 80) : STACK_MEMORY + (s32)(rnd() % 3) * 8;
	o[base] = in_state ? STATE_BASE : BPF_REG_10;
	for (i = 0; i < op->operand_count; i++)
		if (i != base && op->operands[i].kind != KILN_IMMEDIATE && o[i] == o[base])
			return false;
	return true;
}

/* Operands that a form allows; false if none was found. */
static inline bool sample(const struct kiln_operation *op, int form, bool in_state, s32 *o)
{
	const struct kiln_template *access = access_of(&op->forms[form]);
	int tries, i;

	for (tries = 0; tries < 200000; tries++) {
		memset(o, 0, KILN_OPERANDS * sizeof(*o));
		for (i = 0; i < op->operand_count; i++)
			o[i] = any(&op->operands[i]);
		if (access && !place(op, access, in_state, o))
			continue;
		if (kiln_allowed(op, form, o))
			return true;
	}
	return false;
}

static inline int variants(const struct kiln_form *form)
{
	int i, count = 1;

	for (i = 0; i < form->length; i++)
		count *= form->code[i].choices;
	return count;
}

static inline u16 written(const struct bpf_insn *insns, int len)
{
	u16 mask = 0;

	while (len--) {
		u8 class = insns[len].code & 7;

		/* Not stores and branches. */
		if (class == 1 || class == 4 || class == 7)
			mask |= 1 << insns[len].dst_reg;
	}
	return mask;
}

struct sample {
	struct bpf_native_op_rec rec;
	struct bpf_insn proof[16];
	int len;
	u16 live;
};

static inline bool make_sample_at(const struct kiln_operation *op, int form, int variant, bool in_state, struct sample *s)
{
	memset(s, 0, sizeof(*s));
	if (!sample(op, form, in_state, s->rec.operands))
		return false;
	s->rec.form = form;
	s->rec.variant = variant;
	strcpy(s->rec.name, op->name);
	s->len = kiln_proof(op, form, variant, s->rec.operands, s->proof, 16);
	s->live = 0x3ff & ~(written(s->proof, s->len) & ~kiln_results(op, s->rec.operands));
	if (in_state)
		s->live &= ~(1 << STATE_BASE);
	return s->len > 0;
}

static inline bool make_sample(const struct kiln_operation *op, int form, int variant, struct sample *s)
{
	return make_sample_at(op, form, variant, false, s);
}

/* One of CODES of a record; its size, or 0 if this machine has none. */
static inline int code_of(const struct kiln_operation *op, const struct bpf_native_op_rec *rec, int number, u8 *code)
{
	const struct kiln_machine *machine = &kiln_machines[number / FEATURES];

	return machine->arch == ARCH ? kiln_emit(op, ARCH, number % FEATURES, machine->regs, rec->operands, code) : 0;
}

static inline bool has_native(const struct kiln_operation *op)
{
	int i;

	for (i = 0; i < op->native_count; i++)
		if (op->native[i].arch == ARCH)
			return true;
	return false;
}

static inline int insert_file(const char *path)
{
	int fd = open(path, O_RDONLY);
	int err = syscall(__NR_finit_module, fd, "", 0);

	close(fd);
	return err;
}

static inline int insert(void)
{
	return insert_file("/kiln_ops.ko");
}

static inline int drop(void)
{
	return syscall(__NR_delete_module, "kiln_ops", O_NONBLOCK);
}
