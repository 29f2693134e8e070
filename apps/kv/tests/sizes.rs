//! Values of other sizes than before: memory moves from one size to another.

use std::time::{Duration, Instant};

use kiln_kv::store::{Condition, OWN_VARIABLE_BYTES, Outcome, Settings, Store, own_heap};

const SETTINGS: Settings = Settings { buckets: 1 << 12, most_bytes: 4 << 20, served: None };

fn put(store: &Store<'_>, key: usize, bytes: usize) -> Outcome {
    store.put(format!("key{key}").as_bytes(), 0, 0, &vec![b'x'; bytes], Condition::Any)
}

#[test]
fn values_may_change_their_size() {
    let heap = own_heap(&SETTINGS);
    let store = Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store");
    // From the smallest to the largest and back, each of them until something was evicted twice over.
    for bytes in [10, 6 << 10, 100, 1000, 40_000, 10, 900_000, 128, 6 << 10] {
        for key in 0..(3 * SETTINGS.most_bytes as usize / (bytes + 100)).min(60_000) {
            assert_eq!(put(&store, key, bytes), Outcome::Stored, "{bytes} bytes");
        }
        let share = store.bytes() as f64 / SETTINGS.most_bytes as f64;
        // A bucket's items go together, and few large ones may share a bucket.
        let least = if bytes <= 6 << 10 { 0.6 } else { 0.03 };
        assert!(share > least, "{bytes} bytes: {share} of the memory is in use");
    }
    store.clear();
    assert_eq!((store.items(), store.bytes()), (0, 0));
    let accounts = kiln_heap::supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "{accounts:?}");
}

#[test]
fn a_size_that_is_new_costs_few_others() {
    let heap = own_heap(&SETTINGS);
    // Not the bytes of all items but memory is the limit.
    let settings = Settings { most_bytes: 1 << 30, ..SETTINGS };
    let store = Store::create(&heap, OWN_VARIABLE_BYTES, &settings).expect("a store");
    let full = |key: &usize| put(&store, *key, 10) != Outcome::Stored || store.evicted() > 0;
    let items = (0..1_000_000).find(full).expect("memory has an end");
    let evicted = store.evicted();
    assert_eq!(put(&store, items + 1, 6 << 10), Outcome::Stored);
    assert!(store.evicted() - evicted < items as u64 / 10, "{} of {items}", store.evicted() - evicted);
}

/// Thousands of `set` in a second while sizes change: `cargo test -p kiln-kv --test sizes -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn mixed_sizes() {
    let settings = Settings { buckets: 1 << 16, most_bytes: 32 << 20, served: None };
    for (name, sizes) in
        [("128", [128, 128]), ("1,024", [1024, 1024]), ("128 and 1,024", [128, 1024]), ("6,000", [6000; 2])]
    {
        let heap = own_heap(&settings);
        let store = Store::create(&heap, OWN_VARIABLE_BYTES, &settings).expect("a store");
        // Full of small values first.
        for key in 0..400_000 {
            put(&store, key, 128);
        }
        let (begun, mut done, mut failed) = (Instant::now(), 0, 0);
        while begun.elapsed() < Duration::from_secs(3) {
            let key = (done * 7919) % 400_000;
            failed += usize::from(put(&store, key, sizes[done / 3 % 2]) != Outcome::Stored);
            done += 1;
        }
        let thousands = done as f64 / begun.elapsed().as_secs_f64() / 1000.0;
        let items = store.items();
        println!("{name} bytes: {thousands:.1} thousand a second, {failed} of {done} failed, {items} items");
    }
}
