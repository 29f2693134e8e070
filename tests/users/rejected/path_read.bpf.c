// A path of user space is read directly.
#include "tools.h"
char buf[64];
SEC("tracepoint/syscalls/sys_enter_openat") int f(struct trace_event_raw_sys_enter *ctx)
{
	const char *name = (const char *)ctx->args[1];
	char c = name[0];
	return c == '/';
}
