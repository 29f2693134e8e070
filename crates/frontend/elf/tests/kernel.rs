//! Loads written files through libbpf into the kernel: whatever loads before must load after.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use kiln_linux::{LoadedObject, ObjectFile};
use kiln_platform::MapType;
use kiln_program::Object;

/// The result of loading one program: the object in the kernel and the program's translated bytes.
fn load(label: &str, bytes: &[u8], program: &str) -> Result<(LoadedObject, u32), String> {
    let mut file = ObjectFile::open(label, bytes).map_err(|failure| failure.to_string())?;
    file.only(&[program]).map_err(|error| error.to_string())?;
    let loaded = file
        .load()
        .map_err(|failure| format!("{failure}: {}\n{}", failure.reason().unwrap_or_default(), failure.messages))?;
    let info = loaded.program(program).and_then(|program| program.info()).map_err(|error| error.to_string())?;
    Ok((loaded, info.xlated_bytes))
}

/// The maps that libbpf created are those that we read. Types whose sizes libbpf or the kernel adjusts are compared
/// as far as they are the object's own.
fn compare_maps(label: &str, object: &Object, loaded: &LoadedObject) {
    for map in &object.maps {
        let Ok(created) = loaded.map(&map.name) else { continue };
        let what = format!("{label}: map {}", map.name);
        assert_eq!(created.map_type(), map.map_type.number(), "{what}: type");
        if map.map_type == MapType::StructOps {
            continue;
        }
        assert_eq!(created.key_bytes(), map.key_size, "{what}: key");
        let per_cpu = [MapType::PercpuArray, MapType::PercpuHash, MapType::LruPercpuHash, MapType::PercpuCgroupStorage];
        if per_cpu.contains(&map.map_type) {
            assert!(created.value_bytes().is_multiple_of(map.value_size.next_multiple_of(8)), "{what}: value");
        } else {
            assert_eq!(created.value_bytes(), map.value_size, "{what}: value");
        }
        let adjusted = matches!(map.map_type, MapType::Ringbuf | MapType::UserRingbuf) || map.max_entries == 0;
        assert!(adjusted || created.max_entries() == map.max_entries, "{what}: {} entries", created.max_entries());
    }
}

/// Loads every program of an object as it is, rebuilt and grown. Returns how many loaded, and how many did not load
/// to begin with.
fn judge(path: &Path) -> (u32, u32) {
    let (label, bytes) = (support::label(path), std::fs::read(path).unwrap());
    let Ok(elf) = kiln_elf::read(&label, &bytes) else { return (0, 0) };
    let rebuilt = elf.rebuild(&elf.object, true).unwrap();
    let grown = elf.write(&support::with_jumps_to_next(&elf.object));
    let (mut loaded, mut refused) = (0, 0);
    for program in &elf.object.programs {
        let Ok(before) = load(&label, &bytes, &program.name) else {
            refused += 1;
            continue;
        };
        loaded += 1;
        compare_maps(&label, &elf.object, &before.0);
        let after = load(&label, &rebuilt, &program.name);
        let after = after.unwrap_or_else(|error| panic!("{label}: {} rebuilt: {error}", program.name));
        assert_eq!(after.1, before.1, "{label}: {} rebuilt has other code", program.name);
        match &grown {
            Ok(grown) => {
                if let Err(error) = load(&label, grown, &program.name) {
                    // Exceeding the verifier's own limits is not an error of the writer.
                    let limit = error.contains("BPF program is too large") || error.contains("too complex");
                    assert!(limit, "{label}: {} grown: {error}", program.name);
                    println!("skipped: {label}: {} grown meets a limit of the verifier", program.name);
                }
            }
            Err(error) => println!("skipped: {error}"),
        }
    }
    (loaded, refused)
}

#[test]
fn what_loads_before_loads_after() {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: {error}");
        return;
    }
    // The whole corpus takes minutes, so this uses the two small parts and a sample of the kernel's selftests.
    let all = support::corpus();
    let every = std::env::var("KILN_EVERY_OBJECT").is_ok();
    let mut paths = support::part(&all, "xdp-tools");
    paths.extend(support::part(&all, "samples-6.1"));
    let selftests = ["selftests-6.12", "selftests-6.12-cpuv4"].into_iter().flat_map(|name| support::part(&all, name));
    paths.extend(selftests.step_by(if every { 1 } else { 16 }));
    let deadline = Instant::now() + if every { Duration::from_secs(3600) } else { Duration::from_secs(60) };
    let (mut objects, mut loaded, mut refused) = (0, 0, 0);
    for path in &paths {
        if Instant::now() > deadline {
            println!("skipped: {} objects, out of time", paths.len() - objects);
            break;
        }
        let (some, none) = judge(path);
        objects += 1;
        loaded += some;
        refused += none;
        if every {
            println!("{}: {some} loaded, {none} did not to begin with", support::label(path));
        }
    }
    println!("{objects} objects: {loaded} programs load before and after, {refused} did not to begin with");
    assert!(paths.is_empty() || loaded > 0, "nothing loads at all");
}
