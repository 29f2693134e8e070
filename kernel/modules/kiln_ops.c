// SPDX-License-Identifier: GPL-2.0
/* Kiln's native operations, from the rows in operations.h. */
#include <linux/bpf_native_op.h>
#include <linux/filter.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#ifdef CONFIG_X86
#include <asm/cpufeature.h>
#endif

#include "operation.h"

static struct bpf_native_op ops[ARRAY_SIZE(kiln_operations)];

static const struct kiln_operation *row(const struct bpf_native_op_rec *rec)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kiln_operations); i++)
		if (!strcmp(kiln_operations[i].name, rec->name))
			return &kiln_operations[i];
	return NULL;
}

static int proof(const struct bpf_native_op_rec *rec, struct bpf_insn *insns)
{
	return kiln_proof(row(rec), rec->form, rec->variant, rec->operands, insns,
			  BPF_NATIVE_OP_MAX_INSNS);
}

static u16 results(const struct bpf_native_op_rec *rec)
{
	return kiln_results(row(rec), rec->operands);
}

static int emit(const struct bpf_native_op_rec *rec, const u8 *regs, u8 *code)
{
	unsigned int features = 0;

#if defined(CONFIG_X86_64)
	if (boot_cpu_has(X86_FEATURE_BMI1))
		features |= KILN_BMI1;
	if (boot_cpu_has(X86_FEATURE_BMI2))
		features |= KILN_BMI2;
	if (boot_cpu_has(X86_FEATURE_MOVBE))
		features |= KILN_MOVBE;
	return kiln_emit(row(rec), KILN_X86_64, features, regs, rec->operands, code);
#elif defined(CONFIG_ARM64)
	return kiln_emit(row(rec), KILN_AARCH64, features, regs, rec->operands, code);
#else
	return 0;
#endif
}

#ifdef KILN_CANARY
/* Wrong on purpose: the test in the machine must find it. */
static int wrong(const struct bpf_native_op_rec *rec, const u8 *regs, u8 *code)
{
	struct bpf_native_op_rec other = *rec;

	if (strcmp(rec->name, "rotate_left_64"))
		return emit(rec, regs, code);
	other.operands[3] = 1 + rec->operands[3] % 63;
	return emit(&other, regs, code);
}
#define EMIT wrong

/* What KASAN, lockdep and the check for sleeping report, in a kernel that has them. */
static void splats(void)
{
#ifdef CONFIG_KASAN
	static void __rcu *nothing;
	char *bytes = kmalloc(13, GFP_KERNEL);

	preempt_disable();
	might_sleep();
	preempt_enable();
	rcu_dereference(nothing);
	if (bytes)
		*(volatile char *)(bytes + 13) = 0;
	kfree(bytes);
#endif
}
#else
#define EMIT emit

static void splats(void)
{
}
#endif

static void forget(int count)
{
	while (count--)
		bpf_unregister_native_op(&ops[count]);
}

static int __init kiln_ops_init(void)
{
	int i, err;

	splats();
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		ops[i] = (struct bpf_native_op){
			.name = kiln_operations[i].name,
			.owner = THIS_MODULE,
			.proof = proof,
			.results = results,
			.emit = EMIT,
		};
		err = bpf_register_native_op(&ops[i]);
		if (err) {
			forget(i);
			return err;
		}
	}
	return 0;
}

static void __exit kiln_ops_exit(void)
{
	forget(ARRAY_SIZE(ops));
}

module_init(kiln_ops_init);
module_exit(kiln_ops_exit);
MODULE_DESCRIPTION("Kiln's native operations for BPF");
MODULE_LICENSE("GPL");
