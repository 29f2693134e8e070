/* The C interface of Kiln. Written by cbindgen from crates/c-api: BLESS=1 cargo test -p kiln-c */

#ifndef KILN_H
#define KILN_H

#include <stddef.h>
#include <stdint.h>

// What a function did, and a verdict. The first four are the exit codes of the command.
typedef enum kiln_status {
  // Done; accepted.
  KILN_OK = 0,
  // The program is not safe.
  KILN_REJECTED = 1,
  // A malformed object or argument, or a name that there is not.
  KILN_INVALID_INPUT = 2,
  // Kiln, or this machine, lacks something.
  KILN_UNSUPPORTED = 3,
  // A run was stopped: its budget is spent, or a helper failed.
  KILN_STOPPED = 4,
  // A limit of time or memory.
  KILN_LIMIT = 5,
  // A bug in Kiln, or a panic in its use.
  KILN_PANIC = 6,
} kiln_status;

// What an argument of a helper must be.
typedef enum kiln_argument_kind {
  // Any number.
  KILN_INTEGER = 0,
  // The program's context.
  KILN_CONTEXT = 1,
  // Memory that the helper reads, its size in the next argument.
  KILN_READ = 2,
  // Memory that the helper writes whole, its size in the next argument.
  KILN_WRITE = 3,
  // The size, from 1, of the memory in the argument before.
  KILN_SIZE = 4,
  // `size` bytes that the helper reads.
  KILN_READ_FIXED = 5,
  // `size` bytes that the helper writes whole.
  KILN_WRITE_FIXED = 6,
} kiln_argument_kind;

// A call of a helper. It exists only while the helper runs.
typedef struct kiln_call kiln_call;

// The verdicts on an object's programs.
typedef struct kiln_check kiln_check;

// An object: programs and maps.
typedef struct kiln_object kiln_object;

// A VM: the maps of one object, and its programs that were loaded. Threads may run programs and use maps at once; while
// `kiln_vm_load` or `kiln_vm_free` has it, nobody else may.
typedef struct kiln_vm kiln_vm;

// An argument of a helper.
typedef struct kiln_argument {
  // A `kiln_argument_kind`.
  uint32_t kind;
  // Bytes, for the kinds with a fixed size; else 0.
  uint32_t size;
} kiln_argument;

// The function of a helper: it gets the `data` of its declaration and the call, and returns R0. Threads may run it at
// once. It must return: no `longjmp`, no C++ exception.
typedef uint64_t (*kiln_helper_function)(void *data, struct kiln_call *call);

// A helper that programs may call besides the kernel's.
typedef struct kiln_helper {
  // The number in the call instruction, from 65536 on.
  uint32_t id;
  // Its name, for messages.
  const char *name;
  // What its arguments must be.
  const struct kiln_argument *arguments;
  // How many there are, 5 at most.
  size_t argument_count;
  // Its function.
  kiln_helper_function function;
  // Passed to its function. Lives as long as the VM.
  void *data;
} kiln_helper;

// A map of a VM, with its sizes.
typedef struct kiln_map {
  // Its number.
  uint32_t index;
  // Bytes of a key.
  uint32_t key_size;
  // Bytes of a value; per-CPU maps have one after the other for each CPU.
  uint32_t value_size;
  // Entries at most.
  uint32_t max_entries;
} kiln_map;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Says why the last function that failed in this thread did. The text is valid until the next call of Kiln in this
// thread, and empty if nothing has failed.
const char *kiln_last_error(void);

// Opens an object file, or Kiln's text if the name ends with `.bpf`.
//
// # Safety
// `path` is a string, `object` a place for a handle.
enum kiln_status kiln_object_open(const char *path, struct kiln_object **object);

// Reads an object from memory, which need not stay. Text if `name` ends with `.bpf`, else ELF.
//
// # Safety
// `name` is a string, `bytes` has `size` bytes, `object` is a place for a handle.
enum kiln_status kiln_object_from_memory(const char *name,
                                         const void *bytes,
                                         size_t size,
                                         struct kiln_object **object);

// Makes an object of raw instructions, as `BPF_PROG_LOAD` takes them: one program, `name`, of a type such as `xdp`,
// without maps.
//
// # Safety
// `name` and `type` are strings, `bytes` has `size` bytes, `object` is a place for a handle.
enum kiln_status kiln_object_from_bytecode(const char *name,
                                           const char *type,
                                           const void *bytes,
                                           size_t size,
                                           struct kiln_object **object);

// Frees an object; null is none. Checks and VMs that were made of it stay.
//
// # Safety
// `object` is null or an object that was not freed.
void kiln_object_free(struct kiln_object *object);

// Verifies every program of an object. `kernel` is a release such as `5.15`, or `running`, and null for the newest that
// Kiln describes. `KILN_OK` says that there are verdicts, whichever they are.
//
// # Safety
// `object` is an object, `kernel` null or a string, `check` a place for a handle.
enum kiln_status kiln_check_new(const struct kiln_object *object,
                                const char *kernel,
                                struct kiln_check **check);

// How many programs have a verdict; 0 for a null pointer.
//
// # Safety
// `check` is null or a check.
size_t kiln_check_count(const struct kiln_check *check);

// The verdict on a program: `KILN_OK` is accepted. `KILN_INVALID_INPUT` also if there is no such program.
//
// # Safety
// `check` is null or a check.
enum kiln_status kiln_check_verdict(const struct kiln_check *check,
                                    size_t index);

// The name of a program; null if there is no such program. Valid as long as the check.
//
// # Safety
// `check` is null or a check.
const char *kiln_check_name(const struct kiln_check *check, size_t index);

// The explanation of a verdict, as `kiln check` prints it; null if there is no such program. Valid as long as the check.
//
// # Safety
// `check` is null or a check.
const char *kiln_check_story(const struct kiln_check *check,
                             size_t index);

// All verdicts as JSON, in the words of `kiln check --format json`: an array of programs, or with a kernel its table.
// Null for a null pointer. Valid as long as the check.
//
// # Safety
// `check` is null or a check.
const char *kiln_check_json(const struct kiln_check *check);

// Frees a check; null is none.
//
// # Safety
// `check` is null or a check that was not freed.
void kiln_check_free(struct kiln_check *check);

// An argument of the call, from 0 to 4; 0 for another index or a null pointer.
//
// # Safety
// `call` is null or the call that a helper's function was given.
uint64_t kiln_call_argument(const struct kiln_call *call, size_t index);

// Copies bytes from an address that the program passed. `KILN_INVALID_INPUT` if they are not all the program's.
//
// # Safety
// `call` is the call that a helper's function was given, `into` has `size` bytes.
enum kiln_status kiln_call_read(const struct kiln_call *call,
                                uint64_t address,
                                void *into,
                                size_t size);

// Copies bytes to an address that the program passed. `KILN_INVALID_INPUT` if they are not all in one argument that the
// helper's declaration lets it write.
//
// # Safety
// `call` is the call that a helper's function was given, `from` has `size` bytes.
enum kiln_status kiln_call_write(struct kiln_call *call,
                                 uint64_t address,
                                 const void *from,
                                 size_t size);

// Makes a VM, with helpers of one's own if there are any.
//
// # Safety
// `object` is an object, `helpers` an array of `count` helpers, `vm` a place for a handle. The functions of the helpers
// may be called with their data by any thread that runs a program, as long as the VM lives.
enum kiln_status kiln_vm_new(const struct kiln_object *object,
                             const struct kiln_helper *helpers,
                             size_t count,
                             struct kiln_vm **vm);

// Verifies and compiles a program, and those that its tail calls may lead to. Gives its number for `kiln_vm_run`.
//
// # Safety
// `vm` is a VM that nobody else uses now, `name` a string, `program` a place for a number.
enum kiln_status kiln_vm_load(struct kiln_vm *vm,
                              const char *name,
                              size_t *program);

// Runs a program on a packet in place, and gives R0. A packet whose length changes is `KILN_INVALID_INPUT` and stays as
// it was.
//
// # Safety
// `vm` is a VM, `packet` has `size` bytes that nobody else uses now, `result` is null or a place for a number.
enum kiln_status kiln_vm_run(const struct kiln_vm *vm,
                             size_t program,
                             void *packet,
                             size_t size,
                             uint64_t *result);

// Runs a program without packets on a context in place, and gives R0.
//
// # Safety
// As `kiln_vm_run`, with the context for the packet.
enum kiln_status kiln_vm_run_context(const struct kiln_vm *vm,
                                     size_t program,
                                     void *context,
                                     size_t size,
                                     uint64_t *result);

// Finds a map by name.
//
// # Safety
// `vm` is a VM, `name` a string, `map` a place for a map.
enum kiln_status kiln_vm_map(const struct kiln_vm *vm, const char *name, struct kiln_map *map);

// Copies the value of a key, in all its bytes. `KILN_INVALID_INPUT` if there is no entry, or sizes are not the map's.
//
// # Safety
// `vm` is a VM, `key` and `value` have the sizes that go with them.
enum kiln_status kiln_vm_lookup(const struct kiln_vm *vm,
                                uint32_t map,
                                const void *key,
                                size_t key_size,
                                void *value,
                                size_t value_size);

// Sets the value of a key.
//
// # Safety
// `vm` is a VM, `key` and `value` have the sizes that go with them.
enum kiln_status kiln_vm_update(const struct kiln_vm *vm,
                                uint32_t map,
                                const void *key,
                                size_t key_size,
                                const void *value,
                                size_t value_size);

// Removes the entry of a key.
//
// # Safety
// `vm` is a VM, `key` has `key_size` bytes.
enum kiln_status kiln_vm_delete(const struct kiln_vm *vm,
                                uint32_t map,
                                const void *key,
                                size_t key_size);

// Frees a VM; null is none.
//
// # Safety
// `vm` is null or a VM that was not freed and that nobody uses.
void kiln_vm_free(struct kiln_vm *vm);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KILN_H */
