/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* clang calls a copy of the function, made for the constant: a local symbol, whose BTF says that it is global. */
__attribute__((noinline)) int seen(void *p)
{
	asm volatile("");
	return !!p;
}

__attribute__((section("tc"))) int program(void *context)
{
	return seen((void *)0);
}
