//! Which kernels a command is about, and with which types.
//!
//! ```text
//!   --kernel 5.15,6.1         the command line, before
//!   KILN_KERNEL=5.15,6.1      the environment, before
//!   kiln.toml                 the project's file: in the current folder, or the nearest folder above it
//!     kernel = ["5.15", "running"]
//!     btf = "btfhub"
//!     flags = ["-Iinclude"]   for C sources, see `kiln-driver`
//! ```
//!
//! Types are those of the running kernel, of one file, or one file for each release ([`hub`]).

pub mod hub;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_platform::KernelVersion;
use kiln_program::btf::Btf;
use serde::Deserialize;

use kiln_inspect::input::{RUNNING_KERNEL_TYPES, read_types};
use kiln_inspect::kernels::{self, Kernel, KernelTypes};
use kiln_inspect::{Shown, file};
use kiln_program::Error;

/// The name of a project's file.
const FILE: &str = "kiln.toml";
/// The environment variable that names kernels.
const VARIABLE: &str = "KILN_KERNEL";
/// Bytes of a project's file at most.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Kernels and types, and who chose them.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The kernels; empty if the question is about the running one alone.
    pub kernels: Vec<Kernel>,
    /// Where they were named, if that is not the command line.
    pub by: Option<Shown>,
    /// A file or folder of kernel types.
    pub btf: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    #[serde(default)]
    kernel: Names,
    btf: Option<PathBuf>,
    #[serde(default)]
    flags: Vec<String>,
}

/// One name, or a list of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "kernels are text: \"6.1\", or [\"5.15\", \"running\"]")]
enum Names {
    One(String),
    List(Vec<String>),
}

impl Default for Names {
    fn default() -> Names {
        Names::List(Vec::new())
    }
}

impl Names {
    fn all(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::List(names) => names,
        }
    }
}

/// The kernels and types of a command: those of the command line, or else those of the environment and the project.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if the variable or the project's file is malformed.
pub fn choose(kernels: &[Kernel], btf: Option<&Path>) -> Result<Choice, Error> {
    let folder = std::env::current_dir().unwrap_or_default();
    let variable = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    choose_from(kernels, btf, variable.as_deref(), &folder)
}

/// The kernels and types of the project that a folder belongs to.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if the project's file is malformed.
pub fn choose_in(folder: &Path) -> Result<Choice, Error> {
    choose_from(&[], None, None, folder)
}

fn choose_from(kernels: &[Kernel], btf: Option<&Path>, variable: Option<&str>, folder: &Path) -> Result<Choice, Error> {
    let parse = |place: &str, text: &str| {
        let said = |error: String| Error::InvalidInput(format!("{place}: {text:?}: {error}"));
        text.trim().parse().map_err(said)
    };
    let file = project_file(folder);
    let project = file.as_deref().map(read).transpose()?.unwrap_or_default();
    let place = file.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let own_btf = project.btf.and_then(|path| Some(file.as_ref()?.parent()?.join(path)));
    let mut choice = Choice { kernels: kernels.to_vec(), by: None, btf: btf.map(Path::to_owned) };
    // A file named on the command line is a question of its own: it says which kernel is meant.
    let asked = !kernels.is_empty() || btf.is_some_and(|path| !path.is_dir());
    if let (false, Some(text)) = (asked, variable) {
        choice.kernels = text.split(',').map(|text| parse(VARIABLE, text)).collect::<Result<_, _>>()?;
        choice.by = Some(VARIABLE.into());
    } else if !asked && !project.kernel.all().is_empty() {
        choice.kernels = project.kernel.all().iter().map(|text| parse(&place, text)).collect::<Result<_, _>>()?;
        choice.by = Some(place.as_str().into());
    }
    choice.btf = choice.btf.or(own_btf);
    Ok(choice)
}

fn project_file(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file())
}

/// The nearest project's file of a folder, and the compiler's flags that it has; `None` without any.
///
/// # Errors
/// [`Error::InvalidInput`] if the file is malformed.
pub fn project_flags(folder: &Path) -> Result<Option<(PathBuf, Vec<String>)>, Error> {
    let Some(path) = project_file(folder) else { return Ok(None) };
    let flags = read(&path)?.flags;
    Ok((!flags.is_empty()).then_some((path, flags)))
}

fn read(path: &Path) -> Result<Project, Error> {
    let text = file::text(path, MAX_FILE_BYTES)?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or_default().split('\n').count());
        Error::InvalidInput(format!("{}:{line}: {}", path.display(), error.message().replace('\n', "; ")))
    })
}

/// The types that programs are verified against.
#[derive(Clone, Debug)]
pub enum Types {
    /// The running kernel's, where they can be read.
    Running,
    /// The types of one file, for all kernels.
    File(PathBuf, Arc<Btf>),
    /// One file for each release.
    Hub(hub::Hub),
}

impl Types {
    /// Opens a file or folder of types; without one, they are the running kernel's.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if the file has no BTF, or the folder no file of a release that Kiln describes.
    pub fn open(btf: Option<&Path>) -> Result<Types, Error> {
        match btf {
            None => Ok(Types::Running),
            Some(path) if path.is_dir() => Ok(Types::Hub(hub::Hub::open(path)?)),
            Some(path) => Ok(Types::File(path.to_owned(), read_types(path)?)),
        }
    }

    /// Whether they are the running kernel's, by default or by name.
    pub fn are_running(&self) -> bool {
        match self {
            Types::Running => true,
            Types::File(path, _) => path == Path::new(RUNNING_KERNEL_TYPES),
            Types::Hub(_) => false,
        }
    }

    /// The kernels that the types themselves name: one for each release of a folder.
    pub fn kernels(&self) -> Vec<Kernel> {
        match self {
            Types::Hub(hub) => hub.releases().map(Kernel::Release).collect(),
            Types::Running | Types::File(..) => Vec::new(),
        }
    }
}

impl KernelTypes for Types {
    fn of(&self, running: bool, release: KernelVersion) -> Result<(Option<Arc<Btf>>, Shown), Error> {
        match self {
            Types::File(path, types) => Ok((Some(types.clone()), of_file(path))),
            Types::Hub(hub) if !running => {
                let (path, types) = hub.types(release)?;
                Ok((Some(types), of_file(path)))
            }
            // Another system has no such types, and nothing to mount.
            Types::Running | Types::Hub(_) if cfg!(not(target_os = "linux")) => {
                Ok((None, "without a kernel's BTF (--btf names one)".into()))
            }
            Types::Running | Types::Hub(_) => kernels::RunningTypes.of(running, release),
        }
    }

    fn are_named(&self) -> bool {
        !matches!(self, Types::Running)
    }
}

fn of_file(path: &Path) -> Shown {
    format!("BTF of {}", path.display()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Kernel {
        text.parse().expect("a kernel")
    }

    #[test]
    fn the_command_line_is_before_the_environment_and_that_before_the_project() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("src/bpf");
        std::fs::create_dir_all(&below).expect("a folder");
        let none = choose_from(&[], None, None, &below).expect("no file");
        assert!(none.kernels.is_empty() && none.by.is_none() && none.btf.is_none());

        std::fs::write(folder.path().join(FILE), "kernel = [\"5.15\", \"running\"]\nbtf = \"hub\"\n").expect("a file");
        let project = choose_from(&[], None, None, &below).expect("a choice");
        assert_eq!(project.kernels, [release("5.15"), Kernel::Running]);
        assert_eq!(project.by.as_ref().map(Shown::exact), folder.path().join(FILE).to_str());
        assert_eq!(project.btf, Some(folder.path().join("hub")));

        let variable = choose_from(&[], None, Some("6.1, 6.6"), &below).expect("a choice");
        assert_eq!(variable.kernels, [release("6.1"), release("6.6")]);
        assert_eq!(variable.by.as_ref().map(Shown::exact), Some(VARIABLE));

        let named = choose_from(&[release("6.12")], Some(Path::new("own.btf")), Some("6.1"), &below).expect("a choice");
        assert_eq!((named.kernels, named.btf), (vec![release("6.12")], Some("own.btf".into())));
        assert!(named.by.is_none());
        let file = choose_from(&[], Some(Path::new("own.btf")), Some("6.1"), &below).expect("a choice");
        assert!(file.kernels.is_empty(), "a file of types says which kernel is meant");
    }

    #[test]
    fn what_is_malformed_is_named_with_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = choose_from(&[], None, Some("6.1,old"), folder.path()).expect_err("no kernel").to_string();
        assert!(error.starts_with("KILN_KERNEL: \"old\": "), "{error}");
        for (text, said) in [("kernel = [\"4.9\"]", "4.9"), ("kernels = []", "unknown field"), ("kernel = 5", "kernel")]
        {
            std::fs::write(folder.path().join(FILE), text).expect("a file");
            let error = choose_from(&[], None, None, folder.path()).expect_err(text).to_string();
            assert!(error.contains(FILE) && error.contains(said), "{error}");
        }
    }
}
