//! Threads on one VM: what each type of map promises when programs on two CPUs and user space work on it at once.
//!
//! Thread 0 runs machine code, thread 1 machine code or the interpreter, and the test's own thread reads and changes maps
//! meanwhile. Nothing may be lost: counts are exact, elements are there, records arrive once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

mod common;

use common::locked_btf;
use kiln_vm::{Engine, Input, Options, Surroundings, UpdateFlag, Vm};

/// Runs of each thread.
const RUNS: u32 = if cfg!(miri) { 8 } else { 20_000 };

fn vm(text: &str, cpus: u32) -> Vm {
    let object = kiln_program::text::parse(text).expect("it parses");
    let surroundings = Surroundings { cpus, ..Surroundings::default() };
    let mut vm = Vm::new(&object, Options { surroundings, ..Options::default() }).expect("a VM");
    vm.load("work").unwrap_or_else(|error| panic!("{error}"));
    vm
}

/// A packet that says `number`.
fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0; 64];
    packet[..4].copy_from_slice(&number.to_le_bytes());
    packet
}

fn engines() -> [[Engine; 2]; 2] {
    let first = if cfg!(miri) { Engine::Interpreter } else { Engine::Jit };
    [[first, first], [first, Engine::Interpreter]]
}

/// Runs the program on two CPUs at once, each packet with another number, and `beside` meanwhile.
fn hammer(vm: &Vm, engines: [Engine; 2], beside: impl Fn() + Sync) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2u32)
            .map(|cpu| {
                scope.spawn(move || {
                    for run in 0..RUNS {
                        let packet = packet(2 * run + cpu);
                        let ran = vm.run_on(cpu, "work", &Input::packet(&packet), engines[cpu as usize]);
                        assert_eq!(ran.expect("a run").value, 2, "run {run} on CPU {cpu}");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                beside();
                std::thread::yield_now();
            }
        });
        let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("the thread ends well"));
    });
}

/// The packet's number in r6 and at r10 - 4.
const NUMBER: &str = "
  r2 = *(u32 *)(r1 + 0)
  r3 = *(u32 *)(r1 + 4)
  r4 = r2
  r4 += 16
  r0 = 1
  if r4 > r3 goto out
  r6 = *(u32 *)(r2 + 0)
  *(u32 *)(r10 - 4) = r6
";

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
    u64::from_le_bytes(word)
}

#[test]
fn atomic_additions_are_exact() {
    let text = "; map counts array key 4 value 16 entries 1
        ; map shared hash key 4 value 8 entries 4
        ; program xdp name work
          r6 = map_value[counts] + 0
          r1 = 1
          lock *(u64 *)(r6 + 0) += r1
          r2 = 2
        lock *(u64 *)(r6 + 8) += r2
          *(u32 *)(r10 - 4) = 0
          r1 = map[shared]
          r2 = r10
          r2 += -4
          call map_lookup_elem
          if r0 == 0 goto out
          r1 = 3
          lock *(u64 *)(r0 + 0) += r1
          r0 = 2
          exit
        out:
          r0 = 1
          exit";
    for engines in engines() {
        let vm = vm(text, 2);
        let (counts, shared) = (vm.map("counts").expect("a map"), vm.map("shared").expect("a map"));
        vm.update(shared, &[0; 4], &[0; 8], UpdateFlag::Any).expect("an update");
        hammer(&vm, engines, || drop(vm.look_up(shared, &[0; 4])));
        let both = u64::from(2 * RUNS);
        let values = vm.look_up(counts, &[0; 4]).expect("a lookup").expect("a value");
        assert_eq!((number(&values[..8]), number(&values[8..])), (both, 2 * both));
        let value = vm.look_up(shared, &[0; 4]).expect("a lookup").expect("a value");
        assert_eq!(number(&value), 3 * both);
    }
}

#[test]
fn each_cpu_has_its_own_values() {
    let text = "; map own percpu_array key 4 value 8 entries 1
        ; map table percpu_hash key 4 value 8 entries 4
        ; program xdp name work
          *(u32 *)(r10 - 4) = 0
          r1 = map[own]
          r2 = r10
          r2 += -4
          call map_lookup_elem
          if r0 == 0 goto out
          r1 = *(u64 *)(r0 + 0)
          r1 += 1
          *(u64 *)(r0 + 0) = r1
          r1 = map[table]
          r2 = r10
          r2 += -4
          call map_lookup_elem
          if r0 == 0 goto out
          r1 = *(u64 *)(r0 + 0)
          r1 += 1
          *(u64 *)(r0 + 0) = r1
          r0 = 2
          exit
        out:
          r0 = 1
          exit";
    for engines in engines() {
        let vm = vm(text, 2);
        let (own, table) = (vm.map("own").expect("a map"), vm.map("table").expect("a map"));
        vm.update(table, &[0; 4], &[0; 16], UpdateFlag::Any).expect("an update");
        hammer(&vm, engines, || drop(vm.snapshot()));
        for map in [own, table] {
            let values = vm.look_up(map, &[0; 4]).expect("a lookup").expect("values");
            assert_eq!((number(&values[..8]), number(&values[8..])), (RUNS.into(), RUNS.into()));
        }
    }
}

/// Each run inserts its number into two tables, finds it there, and takes it out of the second.
const TABLES: &str = "
  *(u32 *)(r10 - 8) = r6
  *(u64 *)(r10 - 16) = r6
  r1 = map[table]
  r2 = r10
  r2 += -4
  r3 = r10
  r3 += -16
  r4 = 1
  call map_update_elem
  r7 = r0
  r0 = 3
  if r7 != 0 goto out
  r1 = map[table]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto out
  r1 = *(u64 *)(r0 + 0)
  r0 = 4
  if r1 != r6 goto out
  r1 = map[short]
  r2 = r10
  r2 += -8
  r3 = r10
  r3 += -16
  r4 = 0
  call map_update_elem
  r7 = r0
  r0 = 5
  if r7 != 0 goto out
  r1 = map[short]
  r2 = r10
  r2 += -8
  call map_lookup_elem
  r8 = r0
  r1 = map[short]
  r2 = r10
  r2 += -8
  call map_delete_elem
  r7 = r0
  r0 = 6
  if r7 != 0 goto out
  r0 = 7
  if r8 == 0 goto out
  r1 = *(u64 *)(r8 + 0)
  r0 = 8
  if r1 != r6 goto out
  r0 = 2
out:
  exit
";

#[test]
fn no_element_of_a_hash_is_lost() {
    for engines in engines() {
        let entries = 2 * RUNS;
        let vm = vm(
            &format!(
                "; map table hash key 4 value 8 entries {entries}\n; map short hash key 4 value 8 entries 8 flags 1
                 ; program xdp name work\n{NUMBER}{TABLES}"
            ),
            2,
        );
        let (table, short) = (vm.map("table").expect("a map"), vm.map("short").expect("a map"));
        let beside = || {
            if let Ok(Some(value)) = vm.look_up(table, &7u32.to_le_bytes()) {
                assert_eq!(number(&value), 7);
            }
            assert!(vm.entries(short).expect("entries").iter().all(|(key, value)| number(key) == number(value)));
        };
        hammer(&vm, engines, beside);
        let found = vm.entries(table).expect("entries");
        assert_eq!(found.len(), entries as usize);
        assert!(found.iter().all(|(key, value)| number(key) == number(value)));
        assert!(vm.entries(short).expect("entries").is_empty());
    }
}

/// Both CPUs and user space replace, read and remove the same few elements: whoever finds one finds it whole.
#[test]
fn elements_are_replaced_whole() {
    let work = "
  r7 = r6
  r7 &= 3
  *(u32 *)(r10 - 8) = r7
  r6 = 0x0101010101010101 ll
  *(u64 *)(r10 - 24) = r6
  *(u64 *)(r10 - 16) = r6
  r1 = map[table]
  r2 = r10
  r2 += -8
  r3 = r10
  r3 += -24
  r4 = 0
  call map_update_elem
  r1 = map[table]
  r2 = r10
  r2 += -8
  call map_lookup_elem
  if r0 == 0 goto fine
  r1 = *(u64 *)(r0 + 0)
  r2 = *(u64 *)(r0 + 8)
  r0 = 4
  r3 = 0x0101010101010101 ll
  if r1 == r3 goto second
  r3 = 0x0202020202020202 ll
  if r1 != r3 goto out
second:
  r1 = map[table]
  r2 = r10
  r2 += -8
  call map_delete_elem
fine:
  r0 = 2
out:
  exit
";
    for map in
        ["hash key 4 value 16 entries 4", "hash key 4 value 16 entries 4 flags 1", "lru_hash key 4 value 16 entries 4"]
    {
        for engines in engines() {
            let vm = vm(&format!("; map table {map}\n; program xdp name work\n{NUMBER}{work}"), 2);
            let table = vm.map("table").expect("a map");
            let beside = || {
                for key in 0..4u32 {
                    // Full while the others insert what they replace.
                    let _ = vm.update(table, &key.to_le_bytes(), &[2; 16], UpdateFlag::Any);
                    if let Some(value) = vm.look_up(table, &key.to_le_bytes()).expect("a lookup") {
                        assert!(value == [1; 16] || value == [2; 16], "{value:x?}");
                    }
                }
            };
            hammer(&vm, engines, beside);
            assert!(vm.entries(table).expect("entries").len() <= 4);
        }
    }
}

#[test]
fn least_recently_used_maps_never_refuse() {
    let work = "
  *(u64 *)(r10 - 16) = r6
  r1 = map[recent]
  r2 = r10
  r2 += -4
  r3 = r10
  r3 += -16
  r4 = 0
  call map_update_elem
  r7 = r0
  r0 = 3
  if r7 != 0 goto out
  r1 = map[recent]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  r0 = 2
out:
  exit
";
    for engines in engines() {
        let text = format!("; map recent lru_hash key 4 value 8 entries 16\n; program xdp name work\n{NUMBER}{work}");
        let vm = vm(&text, 2);
        let recent = vm.map("recent").expect("a map");
        hammer(&vm, engines, || {
            assert!(vm.entries(recent).expect("entries").iter().all(|(key, value)| number(key) == number(value)));
        });
        let entries = vm.entries(recent).expect("entries");
        assert!((1..=16).contains(&entries.len()), "{}", entries.len());
        // The map is as good as new.
        for key in 0..100u32 {
            vm.update(recent, &key.to_le_bytes(), &u64::from(key).to_le_bytes(), UpdateFlag::NoExist).ok();
        }
        assert_eq!(vm.entries(recent).expect("entries").len(), 16);
    }
}

#[test]
fn prefixes_come_and_go() {
    let work = "
  *(u32 *)(r10 - 16) = 32
  *(u32 *)(r10 - 12) = r6
  *(u64 *)(r10 - 24) = r6
  r1 = map[prefixes]
  r2 = r10
  r2 += -16
  r3 = r10
  r3 += -24
  r4 = 0
  call map_update_elem
  r7 = r0
  r0 = 3
  if r7 != 0 goto out
  r1 = map[prefixes]
  r2 = r10
  r2 += -16
  call map_lookup_elem
  r8 = r0
  r1 = map[prefixes]
  r2 = r10
  r2 += -16
  call map_delete_elem
  r7 = r0
  r0 = 4
  if r7 != 0 goto out
  r0 = 5
  if r8 == 0 goto out
  r1 = *(u64 *)(r8 + 0)
  r0 = 6
  if r1 != r6 goto out
  r0 = 2
out:
  exit
";
    for engines in engines() {
        let text =
            format!("; map prefixes lpm_trie key 8 value 8 entries 8 flags 1\n; program xdp name work\n{NUMBER}{work}");
        let vm = vm(&text, 2);
        let prefixes = vm.map("prefixes").expect("a map");
        hammer(&vm, engines, || drop(vm.entries(prefixes)));
        assert!(vm.entries(prefixes).expect("entries").is_empty());
    }
}

#[test]
fn queues_and_ring_buffers_deliver_once() {
    let work = "
  *(u64 *)(r10 - 16) = r6
  r1 = map[queue]
  r2 = r10
  r2 += -16
  r3 = 0
  call map_push_elem
  r7 = r0
  r0 = 3
  if r7 != 0 goto out
  r1 = map[seen]
  r2 = r10
  r2 += -4
  r3 = 0
  call map_push_elem
again:
  r1 = map[ring]
  r2 = 8
  r3 = 0
  call ringbuf_reserve
  if r0 == 0 goto full
  *(u64 *)(r0 + 0) = r6
  r1 = r0
  r2 = 0
  call ringbuf_submit
  r0 = 2
  exit
full:
  r0 = 4
out:
  exit
";
    for engines in engines() {
        let entries = 2 * RUNS;
        let text = format!(
            "; map queue queue key 0 value 8 entries {entries}\n; map ring ringbuf key 0 value 0 entries 1048576
             ; map seen bloom_filter key 0 value 4 entries {entries}\n; program xdp name work\n{NUMBER}{work}"
        );
        let vm = vm(&text, 2);
        let (queue, ring) = (vm.map("queue").expect("a map"), vm.map("ring").expect("a map"));
        let records = std::sync::Mutex::new(Vec::new());
        hammer(&vm, engines, || records.lock().expect("a lock").extend(vm.drain(ring).expect("records")));
        let mut records = records.into_inner().expect("a lock");
        records.extend(vm.drain(ring).expect("records"));
        let all: BTreeSet<u64> = (0..u64::from(entries)).collect();
        assert_eq!(records.len(), entries as usize);
        assert_eq!(records.iter().map(|record| number(record)).collect::<BTreeSet<_>>(), all);
        // Of each CPU, they come in the order they were sent.
        for cpu in 0..2 {
            let own: Vec<u64> =
                records.iter().map(|record| number(record)).filter(|number| number % 2 == cpu).collect();
            assert!(own.is_sorted());
        }
        let pushed = vm.entries(queue).expect("entries");
        assert_eq!(pushed.iter().map(|(_, value)| number(value)).collect::<BTreeSet<_>>(), all);
    }
}

/// Two counters that nothing but the lock keeps equal.
#[test]
fn a_lock_excludes_the_other_cpu() {
    let text = "; map locked array key 4 value 12 entries 1 key_btf 1 value_btf 3
        ; program xdp name work
        ; function work btf 6
          *(u32 *)(r10 - 4) = 0
          r1 = map[locked]
          r2 = r10
          r2 += -4
          call map_lookup_elem
          if r0 == 0 goto out
          r6 = r0
          r1 = r6
          call spin_lock
          r7 = *(u32 *)(r6 + 4)
          r8 = *(u32 *)(r6 + 8)
          r7 += 1
          r8 += 1
          *(u32 *)(r6 + 4) = r7
          *(u32 *)(r6 + 8) = r8
          r1 = r6
          call spin_unlock
          r0 = 1
          if r7 != r8 goto out
          r0 = 2
        out:
          exit
        BTF";
    let text = text.replace("BTF", &format!("; btf {}", locked_btf()));
    for engines in engines() {
        let vm = vm(&text, 2);
        let locked = vm.map("locked").expect("a map");
        // Reading, and writing what is there under the lock, disturbs nobody; the lock itself is not for user space.
        hammer(&vm, engines, || {
            let value = vm.look_up(locked, &[0; 4]).expect("a lookup").expect("a value");
            assert_eq!(value[..4], [0; 4]);
        });
        let value = vm.look_up(locked, &[0; 4]).expect("a lookup").expect("a value");
        assert_eq!((number(&value[4..8]), number(&value[8..])), (u64::from(2 * RUNS), u64::from(2 * RUNS)));
    }
}

/// A run that is stopped while it holds a record: the consumer goes on.
#[test]
fn a_stopped_run_gives_back_what_it_holds() {
    let text = "; map ring ringbuf key 0 value 0 entries 4096
        ; program xdp name work
          r1 = map[ring]
          r2 = 8
          r3 = 0
          call ringbuf_reserve
          if r0 == 0 goto out
          r6 = r0
          r7 = 0
        again:
          r7 += 1
          if r7 < 1000 goto again
          *(u64 *)(r6 + 0) = r7
          r1 = r6
          r2 = 0
          call ringbuf_submit
        out:
          r0 = 2
          exit";
    let object = kiln_program::text::parse(text).expect("it parses");
    for engine in engines()[1] {
        let mut vm = Vm::new(&object, Options { budget: 100, ..Options::default() }).expect("a VM");
        vm.load("work").expect("it is accepted");
        let ring = vm.map("ring").expect("a map");
        for _ in 0..1000 {
            assert!(vm.run("work", &Input::packet(&[0; 64]), engine).is_err(), "the budget ends it");
            assert!(vm.drain(ring).expect("records").is_empty());
        }
    }
}

#[test]
fn a_handle_runs_what_the_name_does() {
    let text = format!("; program xdp name work\n{NUMBER}  r0 = r6\nout:\n  exit");
    let vm = vm(&text, 2);
    if cfg!(miri) {
        return;
    }
    let program = vm.program("work").expect("a handle");
    assert!(program.on(2).is_err() && vm.program("other").is_err());
    for cpu in 0..2 {
        let program = program.on(cpu).expect("a CPU");
        let mut after = Vec::new();
        assert_eq!(program.run_input(&Input::packet(&packet(7))).expect("a run"), 7);
        assert_eq!(program.run_into(&Input::packet(&packet(9)), &mut after).expect("a run"), 9);
        assert_eq!(after, packet(9));
        assert!(program.run_input(&Input::packet(&[])).is_err(), "an XDP frame has a header");
    }
}

/// What threads share, and what they hand on.
#[test]
fn a_vm_and_its_handles_are_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Vm>();
    shared::<kiln_vm::ProgramHandle<'static>>();
}
