// SPDX-License-Identifier: GPL-2.0
/* Init of a test machine: loads kiln_ops.ko, runs every operation against its
 * proof sequence, gives the kernel records that it must refuse, and ends.
 */
#include "programs.h"

#define BUFFERS 6	/* of random states for each record */
#define LEAST 10000	/* states of each operation, if the environment does not say `states` */
#define TYPES 6		/* at least, of programs that run here */
#define HOSTILE 1000
#define RELOADS 50	/* of the module, while programs are loaded and run */
#define WORKERS 3

#define XDP (&types[0])

static bool usable[ARRAY_SIZE(types)];
static int least = LEAST;

/* Runs both programs on the same states. Returns how many it compared. */
static int compare(int with, int without, const struct type *type, const char *name)
{
	u8 in[INPUT], left[INPUT] = { 0 }, right[INPUT] = { 0 };
	int n;

	for (n = 0; n < BUFFERS; n++) {
		fill(in, type);
		if (run(with, type, in, left) || run(without, type, in, right)) {
			fail("%s in %s: a run: %s", name, type->name, strerror(errno));
			return n * STATES;
		}
		if (taken(left, type) != STATES || memcmp(left, right, INPUT)) {
			fail("%s in %s: native code and proof sequence differ", name, type->name);
			return n * STATES;
		}
	}
	return n * STATES;
}

struct counts {
	int loads, native, states, saved;
};

/* One record in a program of one type, against the same program without it. */
static void record(const struct kiln_operation *op, struct sample *s, const struct type *type, bool in_state,
		   bool expect_native, struct counts *sum)
{
	struct prog p;
	u32 with_len, without_len, ignored;
	u8 code[64];
	int with, without, size, number;

	build_at(&p, type, s->proof, s->len, s->live, in_state);
	s->rec.insn_off = p.region;
	with = load_with(&p, type, &s->rec);
	without = load(&p, type, NULL, 0, 0);
	if (with < 0 || without < 0) {
		fail("%s form %d in %s: %s %s", op->name, s->rec.form, type->name, strerror(errno), verifier_log);
		return;
	}
	sum->loads++;
	has_code(without, NULL, 0, &without_len);
	for (number = 0; number < CODES; number++) {
		size = code_of(op, &s->rec, number, code);
		/* The proof sequence may have the same few bytes. */
		if (!expect_native && size < 4)
			continue;
		if (has_code(with, code, size, &with_len) && (expect_native || !has_code(without, code, size, &ignored))) {
			sum->native++;
			sum->saved += (int)without_len - (int)with_len;
			break;
		}
	}
	sum->states += compare(with, without, type, op->name);
	close(with);
	close(without);
}

/* One operation in all forms, choices and types of programs, on the stack and in the state. */
static void records(const struct kiln_operation *op, bool expect_native, struct counts *sum)
{
	int form, variant, t, place;

	for (form = 0; form < op->form_count; form++)
		for (variant = 0; variant < variants(&op->forms[form]); variant++)
			for (t = 0; t < ARRAY_SIZE(types); t++)
				for (place = 0; place < (access_of(&op->forms[form]) ? 2 : 1); place++) {
					struct sample s;

					if (usable[t] && make_sample_at(op, form, variant, place, &s))
						record(op, &s, &types[t], place, expect_native, sum);
				}
}

/* One operation, again and again with other operands until enough states were compared. */
static struct counts operation(const struct kiln_operation *op, bool expect_native)
{
	struct counts sum = { 0 };
	int before = failures;

	do
		records(op, expect_native, &sum);
	while (sum.states && sum.states < least && failures == before);
	if (sum.states < least && failures == before)
		fail("%s: %d states", op->name, sum.states);
	if (expect_native && !sum.native && has_native(op))
		fail("%s: no native code", op->name);
	if (!expect_native && sum.native)
		fail("%s: native code where there is none", op->name);
	printf("%-24s %4d programs, %4d native, %6d states, %5d bytes saved\n", op->name, sum.loads, sum.native,
	       sum.states, sum.saved);
	return sum;
}

static void operations(bool expect_native)
{
	struct counts all = { 0 };
	int i;

	for (i = 0; i < ARRAY_SIZE(kiln_operations); i++) {
		struct counts one = operation(&kiln_operations[i], expect_native);

		if (failures && getenv("canary"))
			finish();
		all.loads += one.loads;
		all.native += one.native;
		all.states += one.states;
		all.saved += one.saved;
	}
	printf("%-24s %4d programs, %4d native, %6d states, %5d bytes saved\n", "all", all.loads, all.native, all.states,
	       all.saved);
}

/* Records that must be refused, each for its own reason. */
static void refusals(void)
{
	const struct kiln_operation *op = &kiln_operations[1];
	struct bpf_native_op_rec two[2];
	struct sample s;
	struct prog p;
	int fd, t, at;

	if (!make_sample(op, 2, 0, &s))
		fail("no sample");
	build(&p, XDP, s.proof, s.len, s.live);
	s.rec.insn_off = p.region;
#define REFUSED(what, call, error) do { \
	fd = call; \
	if (fd >= 0 || errno != (error)) \
		fail("%s: %s, not %s", what, fd < 0 ? strerror(errno) : "loaded", strerror(error)); \
	if (fd >= 0) \
		close(fd); \
} while (0)
	REFUSED("record size", load(&p, XDP, &s.rec, 1, sizeof(s.rec) - 4), EINVAL);
	REFUSED("record count", load(&p, XDP, &s.rec, 1000, sizeof(s.rec)), EINVAL);
	REFUSED("bad pointer", load(&p, XDP, (void *)8, 1, sizeof(s.rec)), EFAULT);
	two[0] = two[1] = s.rec;
	REFUSED("the same twice", load(&p, XDP, two, 2, sizeof(s.rec)), EINVAL);
	two[0].insn_off++;
	REFUSED("elsewhere", load_with(&p, XDP, two), EINVAL);
	two[0].insn_off = 0xffffffff;
	REFUSED("outside", load_with(&p, XDP, two), EINVAL);
	two[0] = s.rec;
	memset(two[0].name, 'x', sizeof(two[0].name));
	REFUSED("endless name", load_with(&p, XDP, two), EINVAL);
	strcpy(two[0].name, "no_such_operation");
	REFUSED("unknown name", load_with(&p, XDP, two), ENOENT);
	/* The temporary is read after the region: the program alone loads, with the record it does not. */
	build(&p, XDP, s.proof, s.len, 0x3ff);
	s.rec.insn_off = p.region;
	fd = load(&p, XDP, NULL, 0, 0);
	if (fd < 0)
		fail("reading a temporary without a record: %s", strerror(errno));
	close(fd);
	REFUSED("temporary read", load_with(&p, XDP, &s.rec), EACCES);
	/* A jump into the middle, from before it. */
	for (t = 1; t < s.len; t++) {
		build(&p, XDP, s.proof, s.len, s.live);
		at = p.region;
		memmove(p.insns + at + 1, p.insns + at, (p.len - at) * sizeof(*p.insns));
		p.len++;
		p.insns[at] = (struct bpf_insn){ .code = 0x15, .dst_reg = 0, .off = t, .imm = 7 };
		s.rec.insn_off = at + 1;
		REFUSED("jump inside", load_with(&p, XDP, &s.rec), EINVAL);
	}
}

/* Whether a program's machine code has that of a record. */
static bool emitted(const struct kiln_operation *op, const struct sample *s, int fd)
{
	u8 code[64];
	u32 ignored;
	int number;

	for (number = 0; number < CODES; number++)
		if (has_code(fd, code, code_of(op, &s->rec, number, code), &ignored))
			return true;
	return false;
}

#define INSN_ARRAY 34		/* the type of map that Linux has since 6.19, with the targets of indirect jumps */
#define INDIRECT_JUMP 0x0d

/* A frozen map of two targets. */
static int targets(u32 first, u32 second)
{
	union bpf_attr attr = { .map_type = INSN_ARRAY, .key_size = 4, .value_size = 16, .max_entries = 2 };
	int fd = bpf(BPF_MAP_CREATE, &attr);
	u32 key;

	for (key = 0; fd >= 0 && key < 2; key++) {
		u32 value[4] = { key ? second : first };

		attr = (union bpf_attr){ .map_fd = fd, .key = (u64)(uintptr_t)&key, .value = (u64)(uintptr_t)value };
		if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
			fail("a target: %s", strerror(errno));
	}
	attr = (union bpf_attr){ .map_fd = fd };
	if (fd >= 0 && bpf(BPF_MAP_FREEZE, &attr))
		fail("targets: %s", strerror(errno));
	return fd;
}

/* Loads the program of a record with an indirect jump to its region and @inner instructions behind that; -1 if the
 * kernel has none. Two registers that the region does not name hold a value and the place of the target.
 */
static int load_indirect(struct sample *s, int inner, bool with)
{
	u16 named = 0;
	struct prog p;
	int i, map_fd, fd, place, other;

	for (i = 0; i < s->len; i++)
		named |= 1 << s->proof[i].dst_reg | 1 << s->proof[i].src_reg;
	place = __builtin_ctz(~named);
	other = __builtin_ctz(~named & ~(1 << place));
	build(&p, XDP, s->proof, s->len, s->live & ~(1 << place | 1 << other));
	s->rec.insn_off = p.region + 6;
	map_fd = targets(s->rec.insn_off, s->rec.insn_off + inner);
	if (map_fd < 0)
		return -1;
	memmove(p.insns + p.region + 6, p.insns + p.region, (p.len - p.region) * sizeof(*p.insns));
	memcpy(p.insns + p.region, (struct bpf_insn[]){
		{ .code = 0x18, .dst_reg = place, .src_reg = BPF_PSEUDO_MAP_VALUE, .imm = map_fd }, { 0 },
		{ .code = 0x57, .dst_reg = other, .imm = 8 },
		{ .code = 0x0f, .dst_reg = place, .src_reg = other },
		{ .code = 0x79, .dst_reg = place, .src_reg = place },
		{ .code = INDIRECT_JUMP, .dst_reg = place },
	}, 6 * sizeof(*p.insns));
	p.len += 6;
	fd = with ? load_with(&p, XDP, &s->rec) : load(&p, XDP, NULL, 0, 0);
	if (fd < 0)
		fail("an indirect jump: %s %s", strerror(errno), verifier_log);
	close(map_fd);
	return fd;
}

/* An indirect jump to the region has native code, one between its instructions has none. */
static void indirect_jumps(void)
{
	const struct kiln_operation *op = &kiln_operations[1];
	struct sample s;
	int inner, with, without, before = failures;

	if (!make_sample(op, 2, 0, &s))
		fail("no sample");
	for (inner = 0; inner < s.len; inner++) {
		with = load_indirect(&s, inner, true);
		if (with < 0)
			break;
		without = load_indirect(&s, inner, false);
		if (emitted(op, &s, with) != !inner)
			fail("an indirect jump to instruction %d: %s native code", inner, inner ? "there is" : "there is no");
		compare(with, without, XDP, "an indirect jump");
		close(with);
		close(without);
	}
	if (failures == before)
		printf("indirect jumps: %s\n", inner ? "to the region and between its instructions" : "not in this kernel");
}

/* Random damage: refused, or the program still does what its instructions say. */
static void hostile(void)
{
	int i, refused = 0, accepted = 0;

	for (i = 0; i < HOSTILE; i++) {
		const struct kiln_operation *op = &kiln_operations[rnd() % ARRAY_SIZE(kiln_operations)];
		struct sample s;
		struct prog p;
		int with, without, n;
		u8 *bytes = (u8 *)&s.rec;

		if (!make_sample(op, rnd() % op->form_count, 0, &s))
			continue;
		build(&p, XDP, s.proof, s.len, s.live);
		s.rec.insn_off = p.region;
		for (n = 1 + rnd() % 3; n; n--)
			bytes[rnd() % sizeof(s.rec)] ^= 1 << rnd() % 8;
		if (!(rnd() & 3))
			s.rec.operands[rnd() % KILN_OPERANDS] = rnd();
		if (!(rnd() & 7))
			s.rec.form = rnd();
		if (!(rnd() & 3))
			p.insns[p.region + rnd() % s.len].imm ^= 1 << rnd() % 6;
		with = load_with(&p, XDP, &s.rec);
		if (with < 0) {
			refused++;
			continue;
		}
		accepted++;
		without = load(&p, XDP, NULL, 0, 0);
		compare(with, without, XDP, "hostile");
		close(without);
		close(with);
	}
	printf("hostile records: %d refused, %d accepted and right\n", refused, accepted);
}

/* A program holds the module; without it a record is refused. */
static void modules(void)
{
	struct sample s;
	struct prog p;
	int fd, i;

	if (!make_sample(&kiln_operations[1], 2, 0, &s))
		fail("no sample");
	build(&p, XDP, s.proof, s.len, s.live);
	s.rec.insn_off = p.region;
	for (i = 0; i < 20; i++) {
		fd = load_with(&p, XDP, &s.rec);
		if (fd < 0)
			fail("after a reload: %s", strerror(errno));
		if (!drop() || errno != EWOULDBLOCK)
			fail("the module went while a program uses it");
		close(fd);
		/* Programs are freed later. */
		int tries = 0;
		while (drop() && ++tries < 200)
			usleep(10000);
		if (tries == 200)
			fail("the module stays: %s", strerror(errno));
		fd = load_with(&p, XDP, &s.rec);
		if (fd >= 0 || errno != ENOENT)
			fail("loaded without the module");
		if (insert())
			fail("the module does not come back: %s", strerror(errno));
	}
	printf("module unloaded and loaded %d times\n", i);
}

struct work {
	volatile bool stop;
	volatile int loads, absent, other;
};

static u64 microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

/* Loads a program with a record, runs it against the one without, frees it, until it is told to stop. */
static void worker(struct work *work, struct sample *s, const struct prog *p)
{
	int before = failures, without = load(p, XDP, NULL, 0, 0);

	seed += getpid();
	while (!work->stop) {
		u64 from = microseconds();
		int with = load_with(p, XDP, &s->rec);

		if (with < 0) {
			__sync_fetch_and_add(errno == ENOENT ? &work->absent : &work->other, 1);
			continue;
		}
		compare(with, without, XDP, "under load");
		close(with);
		__sync_fetch_and_add(&work->loads, 1);
		/* So that the module is free now and then, however fast the machine is. */
		usleep(rnd() % (5 * (microseconds() - from) + 20000));
	}
	_exit(failures != before);
}

/* Unloads and loads the module while programs that want it are loaded, run and freed. */
static void reload_under_load(void)
{
	struct work *work = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sample s;
	struct prog p;
	int i, tries, status;

	if (!make_sample(&kiln_operations[1], 2, 0, &s))
		fail("no sample");
	build(&p, XDP, s.proof, s.len, s.live);
	s.rec.insn_off = p.region;
	for (i = 0; i < WORKERS; i++)
		if (!fork())
			worker(work, &s, &p);
	for (i = 0; i < RELOADS; i++) {
		for (tries = 0; drop() && tries < 20000; tries++)
			usleep(500);
		if (tries == 20000) {
			fail("under load the module stays: %s", strerror(errno));
			break;
		}
		if (insert())
			fail("under load the module does not come back: %s", strerror(errno));
		usleep(5000);
	}
	work->stop = true;
	while (wait(&status) > 0)
		if (status)
			fail("a worker ended with status %d", status);
	if (work->other || !work->loads || !work->absent)
		fail("under load: %d loads failed otherwise", work->other);
	printf("module unloaded and loaded %d times, meanwhile %d programs loaded, %d refused as it was away\n", i,
	       work->loads, work->absent);
}

/* Whether what a program without an operation writes is seen. */
static bool writes(int fd, const struct type *type)
{
	u8 in[INPUT], out[INPUT] = { 0 };
	bool seen = true;
	int n;

	fill(in, type);
	if (run(fd, type, in, out))
		return false;
	for (n = 0; n < STATES; n++)
		seen = seen && !memcmp(state_of(in, type, n), state_of(out, type, n) + WRITTEN, 80);
	return seen;
}

int main(void)
{
	struct prog p;
	int t, fd, tested = 0;

	start();
	make_map();
	if (getenv("states"))
		least = atoi(getenv("states"));
	if (insert())
		fail("kiln_ops.ko: %s", strerror(errno));
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	for (t = 0; t < ARRAY_SIZE(types); t++) {
		build(&p, &types[t], NULL, 0, 0x3ff);
		fd = load(&p, &types[t], NULL, 0, 0);
		usable[t] = fd >= 0 && writes(fd, &types[t]);
		if (fd >= 0)
			close(fd);
		tested += usable[t];
		printf("%s: %s\n", types[t].name, usable[t] ? "tested" : "cannot be run here");
	}
	if (tested < TYPES)
		fail("%d types of programs", tested);
	printf("native code:\n");
	operations(true);
	refusals();
	indirect_jumps();
	hostile();
	modules();
	reload_under_load();
	printf("constants blinded:\n");
	write_text("/proc/sys/net/core/bpf_jit_harden", "2");
	operations(false);
	write_text("/proc/sys/net/core/bpf_jit_harden", "0");
	printf("interpreted:\n");
	write_text("/proc/sys/net/core/bpf_jit_enable", "0");
	operations(false);
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	finish();
}
