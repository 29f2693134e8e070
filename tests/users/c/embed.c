// What a C program does with Kiln. It ends with 0 if every part did what it should.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kiln.h"

static int parts;

#define CHECK(condition)                                                                                    \
    do {                                                                                                    \
        if (!(condition)) {                                                                                 \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, kiln_last_error());       \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

static const char COUNT[] = "; map count array key 4 value 8 entries 1\n"
                            "; program xdp name count\n"
                            "  r6 = r1\n"
                            "  *(u32 *)(r10 - 4) = 0\n"
                            "  r1 = map[count]\n"
                            "  r2 = r10\n"
                            "  r2 += -4\n"
                            "  call map_lookup_elem\n"
                            "  if r0 == 0 goto done\n"
                            "  r1 = 1\n"
                            "  lock *(u64 *)(r0 + 0) += r1\n"
                            "  r1 = *(u32 *)(r6 + 0)\n"
                            "  r2 = *(u32 *)(r6 + 4)\n"
                            "  r3 = r1\n"
                            "  r3 += 1\n"
                            "  if r3 > r2 goto done\n"
                            "  *(u8 *)(r1 + 0) = 7\n"
                            "done:\n"
                            "  r0 = 2\n"
                            "  exit\n";

static const char UNSAFE[] = "; program xdp name unsafe\n  r0 = *(u8 *)(r2 + 0)\n  exit\n";
static const char NEWER[] = "; program xdp name newer\n  call ktime_get_tai_ns\n  r0 = 2\n  exit\n";
static const char SUM[] = "; program xdp name sum\n"
                          "  r1 = r10\n"
                          "  r1 += -8\n"
                          "  call 65537\n"
                          "  r1 = r10\n"
                          "  r1 += -8\n"
                          "  r2 = 8\n"
                          "  call 65536\n"
                          "  exit\n";

static kiln_object *object(const char *name, const char *text) {
    kiln_object *made = NULL;
    CHECK(kiln_object_from_memory(name, text, strlen(text), &made) == KILN_OK && made);
    return made;
}

// A helper that sums bytes of the program, and one that fills eight.
static uint64_t sum(void *data, kiln_call *call) {
    unsigned char bytes[64];
    uint64_t size = kiln_call_argument(call, 1), total = 0;
    if (size > sizeof bytes || kiln_call_read(call, kiln_call_argument(call, 0), bytes, size) != KILN_OK)
        return (uint64_t)-1;
    for (uint64_t at = 0; at < size; at++)
        total += bytes[at];
    ++*(int *)data;
    return total;
}

static uint64_t fill(void *data, kiln_call *call) {
    static const unsigned char fives[9] = {5, 5, 5, 5, 5, 5, 5, 5, 5};
    uint64_t to = kiln_call_argument(call, 0);
    (void)data;
    // One byte more than the declaration says is refused.
    if (kiln_call_write(call, to, fives, 9) == KILN_OK)
        return (uint64_t)-1;
    return kiln_call_write(call, to, fives, 8);
}

static void runs_and_maps(void) {
    kiln_object *counting = object("count.bpf", COUNT);
    kiln_vm *vm = NULL;
    CHECK(kiln_vm_new(counting, NULL, 0, &vm) == KILN_OK);
    kiln_object_free(counting);
    parts++;

    size_t count = 99;
    uint64_t r0 = 0, value = 0;
    uint32_t zero = 0;
    unsigned char packet[64] = {0};
    CHECK(kiln_vm_load(vm, "count", &count) == KILN_OK && count == 0);
    for (int run = 0; run < 3; run++)
        CHECK(kiln_vm_run(vm, count, packet, sizeof packet, &r0) == KILN_OK && r0 == 2);
    CHECK(packet[0] == 7 && packet[1] == 0);
    parts++;

    kiln_map map;
    CHECK(kiln_vm_map(vm, "count", &map) == KILN_OK && map.key_size == 4 && map.value_size == 8);
    CHECK(kiln_vm_lookup(vm, map.index, &zero, 4, &value, 8) == KILN_OK && value == 3);
    value = 40;
    CHECK(kiln_vm_update(vm, map.index, &zero, 4, &value, 8) == KILN_OK);
    CHECK(kiln_vm_run(vm, count, packet, sizeof packet, NULL) == KILN_OK);
    CHECK(kiln_vm_lookup(vm, map.index, &zero, 4, &value, 8) == KILN_OK && value == 41);
    // An array's entries stay, and sizes are the map's.
    CHECK(kiln_vm_delete(vm, map.index, &zero, 4) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_lookup(vm, map.index, &zero, 3, &value, 8) == KILN_INVALID_INPUT);
    CHECK(strstr(kiln_last_error(), "4 bytes, not 3"));
    CHECK(kiln_vm_lookup(vm, map.index, &zero, 4, &value, 7) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_lookup(vm, 12, &zero, 4, &value, 8) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_map(vm, "none", &map) == KILN_INVALID_INPUT && strstr(kiln_last_error(), "none"));
    parts++;

    CHECK(kiln_vm_run(vm, 7, packet, sizeof packet, &r0) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_run(vm, count, packet, 3, &r0) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_load(vm, "none", &count) == KILN_INVALID_INPUT);
    parts++;
    kiln_vm_free(vm);
}

static void checks(void) {
    kiln_check *check = NULL;
    kiln_object *good = object("count.bpf", COUNT), *bad = object("unsafe.bpf", UNSAFE), *newer = object("newer.bpf", NEWER);
    CHECK(kiln_check_new(good, NULL, &check) == KILN_OK && kiln_check_count(check) == 1);
    CHECK(kiln_check_verdict(check, 0) == KILN_OK && strcmp(kiln_check_name(check, 0), "count") == 0);
    kiln_check_free(check);
    parts++;

    CHECK(kiln_check_new(bad, NULL, &check) == KILN_OK && kiln_check_verdict(check, 0) == KILN_REJECTED);
    CHECK(strstr(kiln_check_story(check, 0), "r2"));
    CHECK(strstr(kiln_check_json(check), "\"verdict\":\"rejected\""));
    CHECK(kiln_check_verdict(check, 1) == KILN_INVALID_INPUT && !kiln_check_story(check, 1));
    kiln_check_free(check);
    parts++;

    // The helper came with Linux 6.1.
    CHECK(kiln_check_new(newer, "5.15", &check) == KILN_OK && kiln_check_verdict(check, 0) == KILN_REJECTED);
    CHECK(strstr(kiln_check_json(check), "5.15"));
    kiln_check_free(check);
    CHECK(kiln_check_new(newer, "6.6", &check) == KILN_OK && kiln_check_verdict(check, 0) == KILN_OK);
    kiln_check_free(check);
    CHECK(kiln_check_new(newer, "2.4", &check) == KILN_INVALID_INPUT);
    parts++;

    kiln_vm *vm = NULL;
    size_t program;
    CHECK(kiln_vm_new(bad, NULL, 0, &vm) == KILN_OK && kiln_vm_load(vm, "unsafe", &program) == KILN_REJECTED);
    kiln_vm_free(vm);
    kiln_object_free(good);
    kiln_object_free(bad);
    kiln_object_free(newer);
    parts++;
}

static void own_helpers(void) {
    int calls = 0;
    const kiln_argument summed[] = {{KILN_READ, 0}, {KILN_SIZE, 0}}, filled[] = {{KILN_WRITE_FIXED, 8}};
    kiln_helper helpers[] = {{65536, "sum", summed, 2, sum, &calls}, {65537, "fill", filled, 1, fill, NULL}};
    kiln_object *summing = object("sum.bpf", SUM);
    kiln_vm *vm = NULL;
    size_t program;
    uint64_t r0 = 0;
    unsigned char packet[64] = {0};
    CHECK(kiln_vm_new(summing, helpers, 2, &vm) == KILN_OK && kiln_vm_load(vm, "sum", &program) == KILN_OK);
    CHECK(kiln_vm_run(vm, program, packet, sizeof packet, &r0) == KILN_OK && r0 == 40 && calls == 1);
    kiln_vm_free(vm);
    parts++;

    // Without the helpers the program is rejected, and what is no helper is refused.
    CHECK(kiln_vm_new(summing, NULL, 0, &vm) == KILN_OK && kiln_vm_load(vm, "sum", &program) == KILN_REJECTED);
    kiln_vm_free(vm);
    helpers[0].id = 1;
    CHECK(kiln_vm_new(summing, helpers, 2, &vm) == KILN_INVALID_INPUT);
    helpers[0].id = 65536;
    helpers[1].function = NULL;
    CHECK(kiln_vm_new(summing, helpers, 2, &vm) == KILN_INVALID_INPUT);
    kiln_object_free(summing);
    parts++;
}

static void raw_instructions(void) {
    // r0 = 3; exit. Then a `syscall` program that doubles the first eight bytes of its context.
    static const unsigned char three[] = {0xb7, 0, 0, 0, 3, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0};
    static const unsigned char doubles[] = {0x79, 0x12, 0, 0, 0, 0, 0, 0, 0x0f, 0x22, 0, 0, 0, 0, 0, 0, 0x7b, 0x21, 0, 0,
                                            0,    0,    0, 0, 0xb7, 0, 0, 0, 0, 0,    0, 0, 0x95, 0, 0, 0, 0, 0,    0, 0};
    kiln_object *raw = NULL;
    kiln_vm *vm = NULL;
    size_t program;
    uint64_t r0 = 0, number = 21;
    unsigned char packet[64] = {0};
    CHECK(kiln_object_from_bytecode("three", "xdp", three, sizeof three, &raw) == KILN_OK);
    CHECK(kiln_vm_new(raw, NULL, 0, &vm) == KILN_OK && kiln_vm_load(vm, "three", &program) == KILN_OK);
    CHECK(kiln_vm_run(vm, program, packet, sizeof packet, &r0) == KILN_OK && r0 == 3);
    kiln_vm_free(vm);
    kiln_object_free(raw);
    CHECK(kiln_object_from_bytecode("three", "xdp", three, 15, &raw) == KILN_INVALID_INPUT);
    CHECK(kiln_object_from_bytecode("three", "none", three, 16, &raw) == KILN_INVALID_INPUT);
    parts++;

    CHECK(kiln_object_from_bytecode("double", "syscall", doubles, sizeof doubles, &raw) == KILN_OK);
    CHECK(kiln_vm_new(raw, NULL, 0, &vm) == KILN_OK && kiln_vm_load(vm, "double", &program) == KILN_OK);
    CHECK(kiln_vm_run_context(vm, program, &number, sizeof number, NULL) == KILN_OK && number == 42);
    kiln_vm_free(vm);
    kiln_object_free(raw);
    parts++;
}

static void bad_pointers(void) {
    kiln_object *made = NULL;
    kiln_vm *vm = NULL;
    kiln_check *check = NULL;
    size_t program;
    char misaligned[2 * sizeof(void *)];
    CHECK(kiln_object_open(NULL, &made) == KILN_INVALID_INPUT && strstr(kiln_last_error(), "null"));
    CHECK(kiln_object_open("none.o", NULL) == KILN_INVALID_INPUT);
    CHECK(kiln_object_open("none.o", &made) == KILN_INVALID_INPUT && strstr(kiln_last_error(), "none.o"));
    CHECK(kiln_object_open("\xff\xfe", &made) == KILN_INVALID_INPUT && strstr(kiln_last_error(), "UTF-8"));
    CHECK(kiln_object_from_memory("x.o", NULL, 10, &made) == KILN_INVALID_INPUT);
    CHECK(kiln_object_from_memory("x.o", "junk", 4, &made) == KILN_INVALID_INPUT);
    CHECK(kiln_object_from_memory("x.o", "junk", (size_t)-1, &made) == KILN_INVALID_INPUT);
    CHECK(kiln_check_new(NULL, NULL, &check) == KILN_INVALID_INPUT && kiln_check_count(NULL) == 0);
    CHECK(kiln_vm_new(NULL, NULL, 0, &vm) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_load(NULL, "x", &program) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_run(NULL, 0, NULL, 0, NULL) == KILN_INVALID_INPUT);
    CHECK(kiln_vm_run((kiln_vm *)(misaligned + ((size_t)misaligned % 2 == 0)), 0, NULL, 0, NULL) == KILN_INVALID_INPUT);
    CHECK(strstr(kiln_last_error(), "not aligned"));
    CHECK(!kiln_check_json(NULL) && !made && !vm && !check);
    kiln_object_free(NULL);
    kiln_check_free(NULL);
    kiln_vm_free(NULL);
    parts++;
}

static void a_file(void) {
    kiln_object *made = NULL;
    FILE *file = fopen("count.bpf", "w");
    CHECK(file && fputs(COUNT, file) >= 0 && fclose(file) == 0);
    CHECK(kiln_object_open("count.bpf", &made) == KILN_OK);
    kiln_object_free(made);
    parts++;
}

int main(void) {
    runs_and_maps();
    checks();
    own_helpers();
    raw_instructions();
    bad_pointers();
    a_file();
    printf("all %d parts\n", parts);
    return 0;
}
