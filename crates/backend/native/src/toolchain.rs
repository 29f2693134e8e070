//! clang: its command line, its time limit, and the results that are kept.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wait_timeout::ChildExt as _;

use crate::Error;

/// How clang is to compile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Setting {
    /// `-O3` with vectorized loops, without vectors for straight code, which were measured to be slower.
    #[default]
    Fast,
    /// `-O2` without vectors and copies of loops: sometimes faster, and half as many bytes.
    Scalar,
    /// `-Oz`.
    Size,
}

impl Setting {
    /// All settings.
    pub const ALL: [Setting; 3] = [Setting::Fast, Setting::Scalar, Setting::Size];

    /// Its name in options: `fast`, `scalar`, `size`.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Fast => "fast",
            Setting::Scalar => "scalar",
            Setting::Size => "size",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Setting::Fast => &["-O3", "-fno-slp-vectorize"],
            Setting::Scalar => &["-O2", "-fno-slp-vectorize", "-fno-vectorize", "-fno-unroll-loops"],
            Setting::Size => &["-Oz", "-fno-slp-vectorize", "-fno-vectorize"],
        }
    }
}

/// Flags of every compilation. The text names no target, which clang would warn about.
#[cfg(not(target_arch = "aarch64"))]
const FLAGS: &[&str] = &["-x", "ir", "-", "-fPIC", "-fno-plt", "-fomit-frame-pointer", "-Wno-override-module"];
/// On 64-bit Arm, clang calls routines of its library for atomic operations if it is not told to write them out.
#[cfg(target_arch = "aarch64")]
const FLAGS: &[&str] =
    &["-x", "ir", "-", "-fPIC", "-fno-plt", "-fomit-frame-pointer", "-Wno-override-module", "-mno-outline-atomics"];

/// Flags of a shared object that needs nothing, in one piece.
const SHARED_FLAGS: &[&str] = &[
    "-nostdlib",
    "-shared",
    "-Wl,-Bsymbolic",
    "-Wl,--build-id=none",
    "-Wl,-z,norelro",
    "-Wl,-z,noseparate-code",
    "-Wl,-z,noexecstack",
    "-Wl,--no-undefined",
];

/// Flags of an object file for a linker.
const OBJECT_FLAGS: &[&str] = &["-c"];

/// A clang, and where its results are kept.
#[derive(Clone, Debug)]
pub struct Toolchain {
    clang: String,
    cpu: String,
    version: String,
    cache: Option<PathBuf>,
    limit: Duration,
}

impl Toolchain {
    /// The compiler's name unless another is given.
    pub const CLANG: &str = "clang-19";

    /// How long a compilation may take unless another time is set.
    pub const LIMIT: Duration = Duration::from_secs(60);

    /// A compiler, by its name or path. Nothing is kept.
    ///
    /// # Errors
    /// [`Error::Os`] if it cannot be run.
    pub fn new(clang: &str) -> Result<Toolchain, Error> {
        let output = Command::new(clang).arg("--version").output();
        let output = output.map_err(|source| Error::Os { what: clang.to_owned(), source })?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Toolchain {
            clang: clang.to_owned(),
            cpu: "native".to_owned(),
            version,
            cache: None,
            limit: Toolchain::LIMIT,
        })
    }

    /// The same, with results kept in a folder, which is created if there is none. A folder that others may write is not
    /// used, for what is in it would run.
    #[must_use]
    pub fn keeping(self, folder: PathBuf) -> Toolchain {
        Toolchain { cache: Some(folder), ..self }
    }

    /// The same, for another CPU than this one, by clang's name for it: `x86-64-v2`.
    #[must_use]
    pub fn for_cpu(self, cpu: &str) -> Toolchain {
        Toolchain { cpu: cpu.to_owned(), ..self }
    }

    /// The same, with another time that a compilation may take.
    #[must_use]
    pub fn limited(self, limit: Duration) -> Toolchain {
        Toolchain { limit, ..self }
    }

    /// Compiles LLVM's text to a shared object; its bytes.
    ///
    /// # Errors
    /// [`Error::Clang`] if clang does not take the text, [`Error::Limit`] if it takes too long, [`Error::Os`] if it cannot be
    /// run. A folder of kept results that cannot be used is no error.
    pub fn compile(&self, text: &str, setting: Setting) -> Result<Vec<u8>, Error> {
        let kept = self.cache.as_deref().filter(|folder| is_own_folder(folder));
        let kept = kept.map(|folder| folder.join(self.key(text, setting)));
        if let Some(bytes) = kept.as_deref().and_then(read_kept) {
            return Ok(bytes);
        }
        let bytes = self.run(text, setting, SHARED_FLAGS)?;
        if let Some(path) = kept {
            // Others may keep the same at the same time: the file appears whole.
            let _ = keep(&path, &bytes);
        }
        Ok(bytes)
    }

    /// Compiles LLVM's text to a static library `lib.a` with one member, NAME.o; its bytes.
    ///
    /// # Errors
    /// As [`Toolchain::compile`]; [`Error::Os`] without `ar`.
    pub fn archive(&self, text: &str, setting: Setting, name: &str) -> Result<Vec<u8>, Error> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| Error::Os { what, source }
        };
        let folder = tempfile::tempdir().map_err(failed("a temporary folder"))?;
        let (member, library) = (folder.path().join(format!("{name}.o")), folder.path().join("lib.a"));
        fs::write(&member, self.run(text, setting, OBJECT_FLAGS)?).map_err(failed("a temporary file"))?;
        let status = Command::new("ar").arg("rcsD").arg(&library).arg(&member).status().map_err(failed("ar"))?;
        match status.success() {
            true => fs::read(&library).map_err(failed("the static library")),
            false => Err(failed("ar")(io::Error::other("no static library"))),
        }
    }

    /// What a result depends on, as the name of a file.
    fn key(&self, text: &str, setting: Setting) -> String {
        let mut hash = Sha256::new();
        let flags = [setting.flags(), FLAGS, SHARED_FLAGS].concat().join(" ");
        let parts = [text, &flags, &self.clang, &self.version, &self.cpu, &this_cpu()];
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        format!("{:x}", hash.finalize())
    }

    fn run(&self, text: &str, setting: Setting, flags: &[&str]) -> Result<Vec<u8>, Error> {
        let failed = |source| Error::Os { what: self.clang.clone(), source };
        let folder =
            tempfile::tempdir().map_err(|source| Error::Os { what: "a temporary folder".to_owned(), source })?;
        let (path, messages) = (folder.path().join("native.so"), folder.path().join("messages"));
        let mut command = Command::new(&self.clang);
        let cpu = format!("{}={}", if cfg!(target_arch = "x86_64") { "-march" } else { "-mcpu" }, self.cpu);
        command.args(FLAGS).args(flags).args(setting.flags()).arg(cpu).arg("-o").arg(&path).env("LC_ALL", "C");
        // Into a file, so that clang never waits for a reader.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(fs::File::create(&messages).map_err(failed)?);
        let mut child = command.spawn().map_err(failed)?;
        // clang reads all of it before it compiles; if it ends before that, its message says why.
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()));
        match child.wait_timeout(self.limit).map_err(failed)? {
            None => {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                Err(Error::Limit { clang: self.clang.clone(), seconds: self.limit.as_secs() })
            }
            Some(ended) if ended.success() => {
                written.map_err(failed)?;
                fs::read(&path).map_err(failed)
            }
            Some(_) => {
                let message = fs::read_to_string(&messages).unwrap_or_default();
                let message = message.lines().find(|line| line.contains("error")).unwrap_or("no message");
                Err(Error::Clang { clang: self.clang.clone(), message: message.trim().to_owned() })
            }
        }
    }
}

/// What `-march=native` depends on.
fn this_cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let wanted = ["vendor_id", "cpu family", "model\t", "model name", "flags", "CPU ", "Features"];
    let first = text.lines().take_while(|line| !line.is_empty());
    first.filter(|line| wanted.iter().any(|name| line.starts_with(name))).collect()
}

/// Whether a folder, which is created if there is none, can only be written by this user.
fn is_own_folder(folder: &Path) -> bool {
    let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let Ok(found) = fs::symlink_metadata(folder) else { return false };
    let own = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == found.uid());
    found.is_dir() && own && found.mode() & 0o022 == 0
}

/// A kept result: the hash of the rest, then the rest. `None` if it is damaged, or not there.
fn read_kept(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.read_to_end(&mut bytes).ok()?;
    let (hash, rest) = bytes.split_at_checked(Sha256::output_size())?;
    (Sha256::digest(rest)[..] == *hash).then(|| rest.to_vec())
}

fn keep(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&Sha256::digest(bytes))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}
