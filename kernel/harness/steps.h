/* SPDX-License-Identifier: GPL-2.0 */
/* What an init of the test machine is made of: begins, runs the commands of
 * /steps, looks at the kernel's log, ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define ARRAY_SIZE(x) ((int)(sizeof(x) / sizeof(*(x))))

static int failures;

#define fail(...) do { failures++; printf("FAIL " __VA_ARGS__); printf("\n"); } while (0)

static long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

#define IMAGE 65536

/* Writes a program's machine code, and returns its size; 0 if there is none. */
static u32 machine_code(int fd, u8 *image)
{
	struct bpf_prog_info info = { 0 };
	union bpf_attr attr = { 0 };

	info.jited_prog_insns = (u64)(uintptr_t)image;
	info.jited_prog_len = IMAGE;
	attr.info.bpf_fd = fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (u64)(uintptr_t)&info;
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) ? 0 : info.jited_prog_len;
}

/* Whether a program's machine code has these bytes; its size. */
static bool has_code(int fd, const u8 *code, int size, u32 *jited)
{
	static u8 image[IMAGE];

	*jited = machine_code(fd, image);
	return size && memmem(image, *jited, code, size);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail("%s: %s", path, strerror(errno));
	close(fd);
}

/* Whether a loaded program has these bytes, given as hexadecimal. */
static bool image_has(const char *hex)
{
	union bpf_attr attr = { 0 };
	u8 code[256];
	u32 ignored;
	int size = 0, fd;
	bool found = false;

	while (size < ARRAY_SIZE(code) && sscanf(hex + 2 * size, "%2hhx", &code[size]) == 1)
		size++;
	while (!found && !bpf(BPF_PROG_GET_NEXT_ID, &attr)) {
		u32 id = attr.next_id;

		memset(&attr, 0, sizeof(attr));
		attr.prog_id = id;
		fd = bpf(BPF_PROG_GET_FD_BY_ID, &attr);
		found = fd >= 0 && has_code(fd, code, size, &ignored);
		if (fd >= 0)
			close(fd);
		memset(&attr, 0, sizeof(attr));
		attr.start_id = id;
	}
	return found;
}

/* Runs a command; meanwhile looks for machine code, if @hex. */
static void command(char **words, const char *hex)
{
	bool found = false;
	int status;
	pid_t child = fork();

	if (!child) {
		execv(words[0], words);
		printf("%s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	while (!waitpid(child, &status, hex ? WNOHANG : 0)) {
		found = found || image_has(hex);
		usleep(1000);
	}
	printf("step %s: status %d%s\n", words[0], status, !hex ? "" : found ? ", image found" : ", image not found");
}

/* Runs the commands of /steps, one per line: "image HEX COMMAND" or a command. */
static void steps(void)
{
	FILE *file = fopen("/steps", "r");
	char line[4096];

	while (file && fgets(line, sizeof(line), file)) {
		char *words[64] = { NULL }, *word = strtok(line, " \n");
		int count = 0;

		for (; word && count < 63; word = strtok(NULL, " \n"))
			words[count++] = word;
		if (count > 2 && !strcmp(words[0], "image")) {
			command(words + 2, words[1]);
		} else if (count) {
			command(words, NULL);
		}
	}
	if (file)
		fclose(file);
}

static void kernel_log(void)
{
	static char text[4 << 20];
	int size = klogctl(3, text, sizeof(text) - 1);

	if (size < 0 || strstr(text, "WARNING:") || strstr(text, "BUG:") || strstr(text, "UBSAN:") || strstr(text, "Oops"))
		fail("the kernel's log has a warning:\n%s", text);
}

/* Prints a file with counts of executed lines, as hexadecimal. */
static int print_counts(const char *path, const struct stat *own, int kind, struct FTW *place)
{
	FILE *file = kind == FTW_F && strstr(path, ".gcda") ? fopen(path, "r") : NULL;
	int byte;

	(void)own;
	(void)place;
	if (!file)
		return 0;
	printf("gcda %s ", path);
	while ((byte = getc(file)) != EOF)
		printf("%02x", byte);
	printf("\n");
	fclose(file);
	return 0;
}

/* Prints which lines the kernel executed, where it counts them. */
static void coverage(void)
{
	if (!mount("none", "/sys/kernel/debug", "debugfs", 0, NULL))
		nftw("/sys/kernel/debug/gcov", print_counts, 16, FTW_PHYS);
}

static void start(void)
{
	int fd;

	mkdir("/proc", 0755);
	mkdir("/dev", 0755);
	mount("none", "/proc", "proc", 0, NULL);
	mount("none", "/dev", "devtmpfs", 0, NULL);
	mkdir("/sys", 0755);
	mount("none", "/sys", "sysfs", 0, NULL);
	mkdir("/tmp", 0777);
	fd = open("/dev/console", O_RDWR);
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
}

static void finish(void)
{
	steps();
	kernel_log();
	coverage();
	printf("end of test: %d failures\n", failures);
	sync();
	reboot(RB_AUTOBOOT);
}
