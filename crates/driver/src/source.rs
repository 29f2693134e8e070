//! C sources: which flags the project compiles one with, and the object that clang makes of it.
//!
//! ```text
//!   net/foo.bpf.c --flags--> compile_commands.json, in a folder above the source or in build/ there
//!                            kiln.toml, in a folder above it: flags = ["-Iinclude", "-DDEBUG"]
//!                 --clang--> the object, what clang says of the source, and the files that were read
//! ```
//!
//! A project's files are input like any other: a flag is passed on only if the table [`PASSED`] has it, so that opening
//! a folder cannot load a plugin or write a file.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kiln_checker::sources::DATABASE;
pub use kiln_checker::sources::How;
use kiln_inspect::{Shown, file, input};
use kiln_program::Error;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde::Deserialize;
use wait_timeout::ChildExt as _;

use crate::{clang, target};

/// Bytes of a compilation database at most: that of a whole kernel has 30 MiB.
const MAX_DATABASE_BYTES: u64 = 128 << 20;
/// The time for one compilation.
const LIMIT: Duration = Duration::from_secs(120);
/// The memory for one compilation. clang reads each line's text from the file that `#line` names, also from `/dev/zero`.
const MEMORY: u64 = 2 << 30;
/// Bytes of clang's messages that are read.
const MAX_SAID_BYTES: u64 = 1 << 20;

/// How a flag is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it is, or with more after it.
    Prefix,
    /// With a value: in the same word or in the next.
    Value,
}

/// The flags that say what a source means or what code it becomes; no other is passed on.
const PASSED: [(&str, Form); 29] = [
    ("-I", Form::Value),
    ("-D", Form::Value),
    ("-U", Form::Value),
    ("-isystem", Form::Value),
    ("-iquote", Form::Value),
    ("-idirafter", Form::Value),
    ("-include", Form::Value),
    ("-imacros", Form::Value),
    ("--sysroot", Form::Value),
    ("-isysroot", Form::Value),
    ("-target", Form::Value),
    ("--target=", Form::Prefix),
    ("-mcpu=", Form::Prefix),
    ("-mlittle-endian", Form::Prefix),
    ("-mbig-endian", Form::Prefix),
    ("-malu32", Form::Prefix),
    ("-mno-alu32", Form::Prefix),
    ("-std=", Form::Prefix),
    ("-ansi", Form::Prefix),
    ("-nostdinc", Form::Prefix),
    ("-O", Form::Prefix),
    ("-g", Form::Prefix),
    ("-w", Form::Prefix),
    ("-fno-", Form::Prefix),
    ("-fshort-", Form::Prefix),
    ("-fms-extensions", Form::Prefix),
    ("-fpack-struct", Form::Prefix),
    ("-fsigned-char", Form::Prefix),
    ("-funsigned-char", Form::Prefix),
];

/// The project's flags for a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The file that gives them, if one does.
    pub from: Option<PathBuf>,
    /// The folder that they are about.
    pub folder: Option<PathBuf>,
    /// The flags that are passed on.
    pub passed: Vec<String>,
}

/// What clang made of a source.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The object; `None` where clang refuses the source.
    pub object: Option<Vec<u8>>,
    /// What clang says, a value for each message.
    pub messages: Vec<Message>,
    /// The folder that relative paths begin in.
    pub folder: PathBuf,
    /// The compiler and the project's flags.
    pub how: How,
}

/// One of clang's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The file it is about.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// Whether it is an error, and no warning.
    pub error: bool,
    /// The message.
    pub text: Shown,
}

/// Whether a file is a C source, by its name.
pub fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "c")
}

/// Compiles a source as `kiln cc` does, with the project's flags.
///
/// # Errors
/// [`Error::InvalidInput`] if the source or a project's file cannot be read, [`Error::Os`] if clang cannot be run,
/// [`Error::Limit`] if it takes more than two minutes. A source that clang refuses is no error here, see
/// [`Compiled::object`].
pub fn compile(source: &Path) -> Result<Compiled, Error> {
    compile_edited(source, None)
}

/// Compiles a source as [`compile`] does, with another text in its place: its path, its includes and the lines that the
/// object records are the same.
///
/// # Errors
/// As [`compile`].
pub fn compile_edited(source: &Path, text: Option<&str>) -> Result<Compiled, Error> {
    let absolute = std::fs::canonicalize(source).map_err(|error| Error::file(source, &error))?;
    file::check_regular(source)?;
    let flags = flags_of(&absolute)?;
    let os = |error: std::io::Error| Error::machine("a temporary folder", &error, "; name another with TMPDIR");
    let outputs = tempfile::Builder::new().prefix("kiln-compile").tempdir().map_err(os)?;
    let [object, depends, said] = ["object.o", "object.d", "said"].map(|name| outputs.path().join(name));
    let headers = clang::unpack_headers()?;
    let clang = clang::name();
    let mut command = Command::new(&clang);
    command.args(clang::flags(headers.path())).args(&flags.passed);
    command
        .args(["-fno-color-diagnostics", "-fno-crash-diagnostics", "-c", "-MD", "-MT", "object", "-MF"])
        .arg(&depends);
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let folder = flags.folder.unwrap_or_else(|| here.clone());
    if folder == here {
        // The object records the source's path below this folder, as people name it.
        command.arg(format!("-fdebug-prefix-map={}/=", here.display()));
    }
    if let Some(text) = text {
        let [copy, overlay] = ["edited.c", "overlay.json"].map(|name| outputs.path().join(name));
        std::fs::write(&copy, text).map_err(os)?;
        let file = serde_json::json!({ "type": "file", "name": absolute, "external-contents": copy });
        let files = serde_json::json!({ "version": 0, "use-external-names": false, "roots": [file] });
        std::fs::write(&overlay, files.to_string()).map_err(os)?;
        command.arg("-ivfsoverlay").arg(&overlay);
    }
    command.arg("-o").arg(&object).arg(&absolute).current_dir(&folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&said).map_err(os)?);
    let advice = "; install clang 19, or name another with KILN_CLANG";
    let mut child = command.spawn().map_err(|error| Error::machine(&clang, &error, advice))?;
    let memory = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    let seconds = Rlimit { current: Some(LIMIT.as_secs()), maximum: Some(LIMIT.as_secs()) };
    // Where the limits cannot be set, the one of time is left; it ends with this process, theirs do not.
    for (resource, limit) in [(Resource::As, memory), (Resource::Cpu, seconds)] {
        let _ = prlimit(Some(Pid::from_child(&child)), resource, limit);
    }
    let Some(ended) = child.wait_timeout(LIMIT).map_err(os)? else {
        child.kill().and_then(|()| child.wait()).map_err(os)?;
        return Err(Error::Limit(format!("{}: clang took over two minutes", source.display())));
    };
    let mut text = Vec::new();
    std::fs::File::open(&said).and_then(|file| file.take(MAX_SAID_BYTES).read_to_end(&mut text)).map_err(os)?;
    let said = String::from_utf8_lossy(&text).into_owned();
    let depends = file::read(&depends, MAX_DATABASE_BYTES).unwrap_or_default();
    let how = How {
        clang: clang.as_str().into(),
        flags: flags.passed.iter().map(|flag| flag.as_str().into()).collect(),
        from: flags.from.map(|path| path.display().to_string().as_str().into()),
        said: said.lines().map(Shown::from).collect(),
        read: files_read(&String::from_utf8_lossy(&depends), headers.path()),
    };
    Ok(Compiled {
        object: if ended.success() { Some(file::read(&object, input::MAX_FILE_BYTES)?) } else { None },
        messages: said.lines().filter_map(message).collect(),
        how,
        folder,
    })
}

impl Compiled {
    /// The object.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where clang refuses the source.
    pub fn object(self, source: &Path) -> Result<Vec<u8>, Error> {
        self.object.ok_or_else(|| Error::InvalidInput(format!("{} does not compile", source.display())))
    }
}

/// The project's flags for a source, whose path is absolute.
///
/// # Errors
/// [`Error::InvalidInput`] if a project's file cannot be read.
pub fn flags_of(source: &Path) -> Result<Flags, Error> {
    for folder in source.ancestors().skip(1) {
        for path in [folder.join(DATABASE), folder.join("build").join(DATABASE)] {
            if path.is_file()
                && let Some(flags) = of_database(&path, source)?
            {
                return Ok(flags);
            }
        }
    }
    let folder = source.parent().unwrap_or(source);
    let Some((path, flags)) = target::project_flags(folder)? else { return Ok(Flags::default()) };
    let folder = path.parent().map(Path::to_owned);
    Ok(Flags { passed: passed(&flags, source, folder.as_deref().unwrap_or(source)), folder, from: Some(path) })
}

/// An entry of a compilation database.
#[derive(Deserialize)]
struct Entry {
    directory: PathBuf,
    file: PathBuf,
    command: Option<String>,
    arguments: Option<Vec<String>>,
}

fn of_database(path: &Path, source: &Path) -> Result<Option<Flags>, Error> {
    let invalid = |error: &dyn std::fmt::Display| Error::InvalidInput(format!("{}: {error}", path.display()));
    let bytes = file::read(path, MAX_DATABASE_BYTES)?;
    let entries: Vec<Entry> = serde_json::from_slice(&bytes).map_err(|error| invalid(&error))?;
    let above = path.parent().unwrap_or(path);
    let same = |entry: &Entry| {
        entry.file.file_name() == source.file_name()
            && std::fs::canonicalize(above.join(&entry.directory).join(&entry.file)).is_ok_and(|path| path == source)
    };
    let Some(entry) = entries.into_iter().find(same) else { return Ok(None) };
    let words = match (entry.arguments, entry.command) {
        (Some(words), _) => words,
        (None, Some(command)) => {
            shlex::split(&command).ok_or_else(|| invalid(&"a command with quotes that do not end"))?
        }
        (None, None) => return Err(invalid(&"an entry without a command")),
    };
    let folder = above.join(&entry.directory);
    let passed = passed(words.get(1..).unwrap_or_default(), source, &folder);
    Ok(Some(Flags { from: Some(path.to_owned()), passed, folder: Some(folder) }))
}

/// The flags that are passed on.
fn passed(words: &[String], source: &Path, folder: &Path) -> Vec<String> {
    let mut passed = Vec::new();
    // clang reads more words from a file `@FILE` wherever that stands, and from one beside a target that is a path.
    let has_file_of_words =
        |flag: &str, word: &str| word.starts_with('@') || (flag.contains("-target") && word.contains('/'));
    let mut words = words.iter().filter(|word| folder.join(word) != source);
    while let Some(word) = words.next() {
        let warning = word.starts_with("-W") && !word.contains(',');
        let known = PASSED.iter().find(|(flag, form)| match form {
            Form::Prefix => word.starts_with(flag),
            Form::Value => word.starts_with(flag) && !word.starts_with("-include-"),
        });
        match known {
            Some((flag, Form::Value)) if word == flag => {
                let value = words.next().filter(|value| !has_file_of_words(flag, value));
                passed.extend(value.map(|value| [word.clone(), value.clone()]).into_iter().flatten());
            }
            Some((flag, _)) if has_file_of_words(flag, word) => {}
            Some(_) => passed.push(word.clone()),
            None if warning => passed.push(word.clone()),
            None => {}
        }
    }
    passed
}

/// A line `FILE:LINE:COLUMN: error: TEXT` of clang's.
fn message(line: &str) -> Option<Message> {
    let kinds = [(": fatal error: ", true), (": error: ", true), (": warning: ", false)];
    let (at, kind, error) = kinds.iter().find_map(|(kind, error)| Some((line.find(kind)?, kind, *error)))?;
    let mut place = line[..at].rsplitn(3, ':');
    let (column, number, file) = (place.next()?, place.next()?, place.next()?);
    let (line_number, column) = (number.parse().ok()?, column.parse().ok()?);
    Some(Message { file: file.into(), line: line_number, column, error, text: line[at + kind.len()..].into() })
}

/// The files of a rule for make, those of a folder left out.
fn files_read(rule: &str, without: &Path) -> Vec<PathBuf> {
    let files = rule.split_once(':').map_or("", |(_, files)| files).replace("\\\n", " ").replace("\\ ", "\u{1}");
    let files = files.split_whitespace().map(|file| PathBuf::from(file.replace('\u{1}', " ")));
    files.filter(|file| !file.starts_with(without)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_flags_of_meaning_are_passed_on() {
        let line = "-Iinc -I other -DA=1 -fplugin=x.so -Xclang -load -Xclang x.so -o out.o -c net/a.bpf.c -O1 -Wall \
                    -Wp,-MMD,x.d -MJ out.json --config x.cfg -fno-builtin -include x.h -include-pch y -mcpu=v3 @more";
        let kept = passed(&words(line), Path::new("/p/net/a.bpf.c"), Path::new("/p"));
        assert_eq!(kept.join(" "), "-Iinc -I other -DA=1 -O1 -Wall -fno-builtin -include x.h -mcpu=v3");
        assert!(passed(&words("-I"), Path::new("/a.c"), Path::new("/")).is_empty());
        // A file of words, as a value: it could name a plugin.
        assert_eq!(
            passed(&words("-I @more -target ./x --target=./x -target=./x -DA"), Path::new("/a.c"), Path::new("/")),
            ["-DA"]
        );
    }

    #[test]
    fn the_nearest_database_that_has_the_source_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = std::fs::canonicalize(folder.path()).expect("a path");
        std::fs::create_dir_all(root.join("src/build")).expect("a folder");
        let source = root.join("src/a b.bpf.c");
        std::fs::write(&source, "").expect("a file");
        std::fs::write(root.join("kiln.toml"), "flags = [\"-DTOML\"]\n").expect("a file");
        assert_eq!(flags_of(&source).expect("flags").passed, ["-DTOML"]);
        let database = |text: &str| std::fs::write(root.join("src/build").join(DATABASE), text).expect("a file");
        database(r#"[{"directory": "..", "file": "a b.bpf.c", "command": "clang -D'X=\"1 2\"' -c 'a b.bpf.c'"}]"#);
        let flags = flags_of(&source).expect("flags");
        assert_eq!(flags.passed, ["-DX=\"1 2\""]);
        assert_eq!(flags.from, Some(root.join("src/build").join(DATABASE)));
        database(r#"[{"directory": "..", "file": "other.c", "arguments": ["clang", "-DY"]}]"#);
        assert_eq!(flags_of(&source).expect("flags").passed, ["-DTOML"]);
        database("[{");
        let error = flags_of(&source).expect_err("it is cut off").to_string();
        assert!(error.contains(DATABASE), "{error}");
    }

    #[test]
    fn messages_and_files_are_read() {
        let said = "a:b.c:3:14: error: expected ';': really";
        let read = message(said).expect("a message");
        assert_eq!((read.file.to_str(), read.line, read.column), (Some("a:b.c"), 3, 14));
        assert_eq!(read.text.to_string(), "expected ';': really");
        assert!(message("In file included from a.c:1:").is_none() && message("1 error generated.").is_none());
        let files = files_read("object: /a/x.c \\\n  /inc/k.h /a/with\\ space.h\n", Path::new("/inc"));
        assert_eq!(files, [PathBuf::from("/a/x.c"), "/a/with space.h".into()]);
    }
}
