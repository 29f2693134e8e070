//! Compares what the table says of a map's sizes and flags with the maps that the running kernel makes. Each kernel since
//! 4.18 can be asked: `scripts/under-kernel 5.10 env KILN_ANY_KERNEL=1 BINARY`.

mod oracle;

use kiln_platform::{KernelVersion, MapDefinition, MapType, Profile};
use oracle::{Kernel, TYPED_MAPS};

/// A map of each type that the kernel has, as the kernel makes it.
fn typed_maps(kernel: KernelVersion) -> impl Iterator<Item = MapDefinition> {
    let known = TYPED_MAPS.iter().filter(move |(map_type, ..)| map_type.since() <= kernel);
    known.map(|&(map_type, key, value, entries, flags)| MapDefinition {
        map_type,
        key,
        value,
        entries,
        flags,
        extra: 0,
    })
}

fn makes(kernel: &mut Kernel, map: &MapDefinition) -> bool {
    kernel.create_map(map.map_type, map.key, map.value, map.entries, map.flags)
}

#[test]
fn maps_have_the_sizes_the_rules_allow() {
    let Some(mut kernel) = Kernel::open_since("map sizes", Profile::OLDEST) else {
        return;
    };
    let mut wrong = Vec::new();
    for right in typed_maps(kernel.version) {
        let mut check = |definition: MapDefinition| {
            let (made, refused) = (makes(&mut kernel, &definition), definition.refused(kernel.version));
            if made != refused.is_none() {
                wrong.push(format!("{definition:?}: kernel {made}, {refused:?}"));
            }
        };
        for key in [0, 1, 3, 4, 5, 8, 12, 16, 260, 264, 512, 513] {
            check(MapDefinition { key, ..right });
        }
        for value in [0, 1, 4, 7, 8, 12, 16, 32, 64, 32_768, 32_776, 40_000] {
            check(MapDefinition { value, ..right });
        }
        let many = if right.map_type == MapType::Cpumap { 3 } else { 8 }; // No more than the machine could have CPUs.
        for entries in [0, 1, 2, 3, 4096, 4097, 8192, 12_288].into_iter().take(many) {
            check(MapDefinition { entries, ..right });
        }
    }
    let version = kernel.version;
    let of = |map_type: MapType| typed_maps(version).find(|map| map.map_type == map_type).expect("a map of the type");
    let hash = of(MapType::Hash);
    let largest = [
        MapDefinition { value: 4_194_255 - hash.key, entries: 1, flags: 1, ..hash },
        MapDefinition { value: 4_194_256 - hash.key, entries: 1, flags: 1, ..hash },
        MapDefinition { entries: (1 << 27) + 1, ..hash },
        MapDefinition { value: 4_194_024, entries: 1, ..of(MapType::LpmTrie) },
        MapDefinition { value: 4_194_025, entries: 1, ..of(MapType::LpmTrie) },
        MapDefinition { value: 4 << 20, entries: 1, ..of(MapType::Queue) },
        MapDefinition { value: (4 << 20) + 1, entries: 1, ..of(MapType::Queue) },
        MapDefinition { value: 4 << 20, entries: 1, ..of(MapType::BloomFilter) },
        MapDefinition { value: (4 << 20) + 1, entries: 1, ..of(MapType::BloomFilter) },
        MapDefinition { value: 64, flags: 1 << 5, ..of(MapType::StackTrace) },
        MapDefinition { value: 72, flags: 1 << 5, ..of(MapType::StackTrace) },
    ];
    let expected = [true, false, false, true, false, true, false, true, false, true, false];
    for (definition, expected) in largest.into_iter().zip(expected) {
        let (made, refused) = (makes(&mut kernel, &definition), definition.refused(kernel.version));
        assert_eq!((made, refused.is_none()), (expected, expected), "{definition:?}: {refused:?}");
    }
    // Hash functions of a Bloom filter; measured under Linux 6.18, as this test makes maps without `map_extra`.
    let hashed = |extra| MapDefinition { extra, ..of(MapType::BloomFilter) }.refused(version).is_none();
    assert_eq!([0, 15, 16].map(hashed), [true, true, false]);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn maps_take_the_flags_of_the_table() {
    // Flags of loaders: a file descriptor comes with each, or the map's file is meant. (The NUMA node is 0 here.)
    const FOR_LOADERS: u32 = 1 << 13 | 1 << 14 | 1 << 15 | 1 << 16;
    let Some(mut kernel) = Kernel::open_since("map flags", Profile::OLDEST) else {
        return;
    };
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for right in typed_maps(kernel.version) {
        let one = (0..32).map(|bit| 1 << bit);
        for flag in one.chain([3 << 3, 3 << 7, right.flags, 0]).filter(|flag| flag & FOR_LOADERS == 0) {
            for flags in [flag, flag | right.flags] {
                let definition = MapDefinition { flags, ..right };
                let (made, refused) = (makes(&mut kernel, &definition), definition.refused(kernel.version));
                asked += 1;
                if made != refused.is_none() {
                    wrong.push(format!("{definition:?}: kernel {made}, {refused:?}"));
                }
            }
        }
    }
    println!("{asked} questions");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
