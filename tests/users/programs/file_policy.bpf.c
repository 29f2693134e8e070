// Opening files of one device is refused, by a security hook.
#include "tools.h"

const volatile __u32 device = 0;
__u64 refused = 0;

SEC("lsm/file_open")
int BPF_PROG(open, struct file *file)
{
	if (device && file->f_inode->i_sb->s_dev == device) {
		__sync_fetch_and_add(&refused, 1);
		return -1;
	}
	return 0;
}
