// Sizes of block requests by process, and the disk that a request is for: its place moved with Linux 5.17.
#include "tools.h"

struct request_queue___gone { struct gendisk *disk; } __attribute__((preserve_access_index));
struct request___before { struct gendisk *rq_disk; } __attribute__((preserve_access_index));
struct block_key { __u32 device; __u32 at; char name[NAME_BYTES]; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 10240); __type(key, struct block_key); __type(value, __u64); } sizes SEC(".maps");

SEC("raw_tp/block_rq_issue")
int issued(struct bpf_raw_tracepoint_args *ctx)
{
	struct request *request = (void *)ctx->args[0];
	struct request_queue___gone *queue;
	struct gendisk *disk;
	struct block_key key = {};
	__u64 one = 1, *count;

	if (bpf_core_field_exists(((struct request___before *)request)->rq_disk))
		disk = BPF_CORE_READ((struct request___before *)request, rq_disk);
	else {
		queue = (void *)BPF_CORE_READ(request, q);
		disk = BPF_CORE_READ(queue, disk);
	}
	key.device = BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
	key.at = bucket(BPF_CORE_READ(request, __data_len) / 1024);
	bpf_get_current_comm(key.name, sizeof(key.name));
	count = bpf_map_lookup_elem(&sizes, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&sizes, &key, &one, BPF_NOEXIST);
	return 0;
}
