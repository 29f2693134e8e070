// SPDX-License-Identifier: GPL-2.0
/* Init of a machine for the kernel's own tests: test_bpf.ko, whose verdicts are
 * in the kernel's log, and the commands of /steps. Both are printed to be compared.
 */
#include "steps.h"

/* Prints what test_bpf.ko wrote into the log. Where another CPU wrote meanwhile,
 * the end of a line is a line of its own, which begins as `jited:`.
 */
static void verdicts(void)
{
	static char text[4 << 20];
	int size = klogctl(3, text, sizeof(text) - 1);
	char *line;

	text[size < 0 ? 0 : size] = 0;
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *begin = strstr(line, "test_bpf: "), *end = strstr(line, "jited:");

		if (begin || end)
			printf("%s%s", begin ? "\n" : "", begin ? begin : end);
	}
	printf("\n");
}

int main(void)
{
	int file;

	start();
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	write_text("/proc/sys/kernel/unprivileged_bpf_disabled", "0");
	file = open("/test_bpf.ko", O_RDONLY);
	if (syscall(__NR_finit_module, file, "", 0))
		fail("test_bpf.ko: %s", strerror(errno));
	close(file);
	verdicts();
	finish();
}
