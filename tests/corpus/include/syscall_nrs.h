/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Stands in for a header that the kernel's build generates: system call numbers under names of their own. */
#pragma once
#include <asm/unistd.h>

#define SYS__NR_read __NR_read
#define SYS__NR_write __NR_write
#define SYS__NR_mmap __NR_mmap
