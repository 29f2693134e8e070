//! `kiln check --fix`: each mistake of `tests/helps`, `tests/fresh` and `tests/unseen` is rejected, and an edit is accepted.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;

use world::has_clang;

/// Of so many mistakes a run of the tests takes one; with `KILN_ALL_FIXES`, each, which takes some minutes.
const STRIDE: usize = 9;

/// Mistakes without such an edit: two of `tests/fresh`.
const NOT_MENDED: [&str; 2] = ["callback-context-overrun", "read-backwards"];

/// Mistakes that only the types of the running kernel show.
const WITH_TYPES: [&str; 2] = ["field-not-there", "kfunc-misspelt"];

/// How the sources are compiled. Those that include the kernel's types are in a folder of their own, with `-include vmlinux.h`, for
/// which clang takes `vmlinux.h.pch`.
const FLAGS: &str = "\"-I.\", \"-D__TARGET_ARCH_x86\"";

fn folder() -> PathBuf {
    tests().join("helps")
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

fn kiln(arguments: &[&str]) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).args(arguments).output().expect("kiln runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

#[test]
fn a_mistake_is_mended_by_its_own_fix() {
    if !has_clang() {
        return;
    }
    let copies = tempfile::tempdir().expect("a folder");
    let types = with_types(copies.path());
    let mut paths: Vec<PathBuf> = Vec::new();
    for name in ["helps", "fresh", "unseen"] {
        let before = paths.len();
        paths.extend(sources(&tests().join(name)));
        assert!(paths.len() - before >= 60, "{name}");
    }
    for path in chosen(paths) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let original = std::fs::read_to_string(&path).expect("a text");
        let Some(folder) = folder_for(&original, copies.path(), types.as_deref()) else { continue };
        let copy = folder.join(path.file_name().expect("a name"));
        std::fs::write(&copy, &original).expect("a copy");
        let kernel = original.lines().find_map(|line| line.strip_prefix("// kernel: ")).unwrap_or("6.18");
        let kernel = if WITH_TYPES.contains(&name.as_str()) { "running" } else { kernel };
        let file = copy.to_str().expect("a path");
        let (_, accepted) = kiln(&["check", file, "--kernel", kernel, "--fix", "--unsafe-fixes", "--dry-run"]);
        assert!(!accepted, "{name} is a mistake");
        assert_eq!(std::fs::read_to_string(&copy).expect("a text"), original, "{name}: --dry-run writes nothing");
        let (text, _) = kiln(&["check", file, "--kernel", kernel]);
        let is_fresh = path.parent().is_some_and(|folder| folder.ends_with("fresh"));
        let line = original.lines().find_map(|line| line.strip_prefix("// line: ")).unwrap_or_default();
        let number = text.split(&format!("{name}.c:")).nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
        let found = number.and_then(|number: usize| original.lines().nth(number - 1)).unwrap_or_default();
        assert!(found.trim() == line || !is_fresh, "{name}: {text}");
        kiln(&["check", file, "--kernel", kernel, "--fix", "--unsafe-fixes"]);
        let (text, accepted) = kiln(&["check", file, "--kernel", kernel]);
        assert_eq!(accepted, !NOT_MENDED.contains(&name.as_str()), "{name}: {text}");
    }
}

/// A loop's condition that is the wrong way round stays so in no fix.
#[test]
fn a_condition_the_wrong_way_round_is_turned() {
    if !has_clang() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("count.c");
    let text = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n\nSEC(\"tc\")\n\
        int count(struct __sk_buff *skb)\n{\n\tint n = skb->mark, i;\n\t__u32 sum = 0;\n\n\
        \tfor (i = 0; i > n; i++)\n\t\tsum += bpf_get_prandom_u32();\n\treturn sum & 1;\n}\n\n\
        char _license[] SEC(\"license\") = \"GPL\";\n";
    std::fs::write(&path, text).expect("a source");
    let file = path.to_str().expect("a path");
    kiln(&["check", file, "--kernel", "6.18", "--fix", "--unsafe-fixes"]);
    let mended = std::fs::read_to_string(&path).expect("a text");
    assert!(mended.contains("i < n;") && !mended.contains("i > n"), "{mended}");
    assert!(kiln(&["check", file, "--kernel", "6.18"]).1, "{mended}");
}

/// The header with the kernel's types.
const TYPES: &str = "vmlinux.h";

/// The bound ends before the lock that is behind the array, also if a header declares both, and lines end as the source's do.
#[test]
fn a_bound_stops_before_a_lock() {
    if !has_clang() {
        return;
    }
    const HEADER: &str = "
struct value { __u64 counts[6]; unsigned char seen[40]; struct bpf_spin_lock lock; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 8); __type(key, __u32); __type(value, struct value); } values SEC(\".maps\");
";
    const SOURCE: &str = "#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include \"values.h\"
SEC(\"tc\") int count(struct __sk_buff *skb)
{
	__u32 key = 0, index = skb->mark & 0xff;
	struct value *value = bpf_map_lookup_elem(&values, &key);
	if (!value)
		return 0;
	value->seen[index]++;
	return 0;
}
char _license[] SEC(\"license\") = \"GPL\";
";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("count.c");
    std::fs::write(folder.path().join("values.h"), HEADER).expect("a header");
    std::fs::write(&file, SOURCE.replace('\n', "\r\n")).expect("a source");
    let path = file.to_str().expect("a path");
    let (text, accepted) = kiln(&["check", path, "--kernel", "6.18"]);
    assert!(!accepted && text.contains("`if (index >= 40)"), "{text}");
    let (text, _) = kiln(&["check", path, "--kernel", "6.18", "--fix"]);
    let mended = std::fs::read_to_string(&file).expect("a text");
    assert!(mended.contains("if (index >= 40)"), "{text}");
    assert!(mended.split_inclusive('\n').all(|line| line.ends_with("\r\n")), "{mended:?}");
}

/// The C sources of a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    all.filter(|path| path.extension().is_some_and(|ending| ending == "c")).collect()
}

/// Those that a run takes.
fn chosen(mut paths: Vec<PathBuf>) -> impl Iterator<Item = PathBuf> {
    paths.sort();
    let stride = if std::env::var_os("KILN_ALL_FIXES").is_some() { 1 } else { STRIDE };
    paths.into_iter().step_by(stride)
}

/// Puts flags into a folder, and flags and the header with the kernel's types into one below it; `None` where no bpftool makes that
/// header.
fn with_types(copies: &Path) -> Option<PathBuf> {
    let folder = copies.join("types");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(copies.join("kiln.toml"), format!("flags = [{FLAGS}]\n")).expect("the flags");
    let with_types = format!("flags = [{FLAGS}, \"-include\", \"{TYPES}\"]\n");
    std::fs::write(folder.join("kiln.toml"), with_types).expect("the flags");
    let arguments = ["btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c"];
    let made = Command::new("bpftool").args(arguments).output().ok().filter(|made| made.status.success())?;
    std::fs::write(folder.join(TYPES), made.stdout).expect("the header");
    // Read once, and not in each of hundreds of compilations: a tenth of their time.
    let path = folder.join(TYPES).display().to_string();
    kiln(&["cc", "-D__TARGET_ARCH_x86", "-x", "c-header", &path, "-o", &format!("{path}.pch")]).1.then_some(folder)
}

/// Where a source is copied to; `None` if it needs types that are not there.
fn folder_for<'a>(source: &str, copies: &'a Path, types: Option<&'a Path>) -> Option<&'a Path> {
    if source.contains(TYPES) { types } else { Some(copies) }
}

/// What the author of a mistake wrote instead of it is a diff beside it.
#[test]
fn what_a_mistake_was_mended_to_is_accepted() {
    if !has_clang() {
        return;
    }
    let copies = tempfile::tempdir().expect("a folder");
    let types = with_types(copies.path());
    let unseen = tests().join("unseen");
    let paths = sources(&unseen);
    assert_eq!(paths.len(), std::fs::read_dir(unseen.join("mended")).expect("the diffs").count());
    for path in chosen(paths) {
        let name = path.file_name().expect("a name");
        let text = std::fs::read_to_string(&path).expect("a text");
        let Some(folder) = folder_for(&text, copies.path(), types.as_deref()) else { continue };
        let copy = folder.join(name);
        std::fs::write(&copy, &text).expect("a copy");
        let diff = unseen.join("mended").join(name).with_extension("diff").canonicalize().expect("a diff");
        let applied = Command::new("git").arg("apply").arg(&diff).current_dir(folder).status();
        let mended = std::fs::read_to_string(&copy).expect("a text");
        assert!(applied.expect("git is there").success() && mended != text, "{}", diff.display());
        let (said, accepted) = kiln(&["check", copy.to_str().expect("a path"), "--kernel", "6.18"]);
        assert!(accepted, "{}: {said}", path.display());
    }
}

#[test]
fn sarif_has_the_edit_that_is_written() {
    if !has_clang() {
        return;
    }
    let copies = tempfile::tempdir().expect("a folder");
    let copy = copies.path().join("lookup-used-at-once.c");
    let original = std::fs::read_to_string(folder().join("lookup-used-at-once.c")).expect("a text");
    std::fs::write(&copy, &original).expect("a copy");
    let file = copy.to_str().expect("a path");
    let (text, _) = kiln(&["check", file, "--kernel", "6.18", "--format", "sarif"]);
    let log: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let fixes = &log["runs"][0]["results"][0]["fixes"];
    assert_eq!(fixes[0]["properties"]["safe"], true, "{text}");
    let mut lines: Vec<String> = original.split_inclusive('\n').map(str::to_owned).collect();
    let replacements = fixes[0]["artifactChanges"][0]["replacements"].as_array().expect("replacements");
    for replacement in replacements.iter().rev() {
        let region = &replacement["deletedRegion"];
        let line = |name: &str| region[name].as_u64().expect("a line") as usize - 1;
        let inserted = replacement["insertedContent"]["text"].as_str().expect("a text");
        lines.splice(line("startLine")..line("endLine"), [inserted.to_owned()]);
    }
    kiln(&["check", file, "--kernel", "6.18", "--fix"]);
    assert_eq!(lines.concat(), std::fs::read_to_string(&copy).expect("a text"));
}

#[test]
fn a_constant_that_a_loader_sets_opens_a_path() {
    if !has_clang() {
        return;
    }
    let source = folder().join("knob-opens-a-path.c");
    let file = source.to_str().expect("a path");
    let (text, accepted) = kiln(&["check", file, "--kernel", "6.18", "--set", "strict=true"]);
    assert!(!accepted && text.contains("packet-out-of-bounds"), "{text}");
    let (text, accepted) = kiln(&["check", file, "--kernel", "6.18", "--set", "strict=false"]);
    assert!(accepted, "{text}");
    for wrong in ["strickt=true", "strict=300", "strict"] {
        assert!(!kiln(&["check", file, "--kernel", "6.18", "--set", wrong]).1, "{wrong}");
    }
}
