// SPDX-License-Identifier: GPL-2.0
/* Init of a machine for the kernel's own tests: test_bpf.ko, whose verdicts are
 * in the kernel's log, and the commands of /steps. Both are printed to be compared.
 */
#include "steps.h"

/* Prints the lines of the log that test_bpf.ko wrote. */
static void verdicts(void)
{
	static char text[4 << 20];
	int size = klogctl(3, text, sizeof(text) - 1);
	char *line = text;

	text[size < 0 ? 0 : size] = 0;
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *found = strstr(line, "test_bpf: ");

		if (found)
			printf("%s\n", found);
	}
}

int main(void)
{
	int file;

	start();
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	mount("none", "/sys/fs/bpf", "bpf", 0, NULL);
	file = open("/test_bpf.ko", O_RDONLY);
	if (syscall(__NR_finit_module, file, "", 0))
		fail("test_bpf.ko: %s", strerror(errno));
	close(file);
	verdicts();
	finish();
}
