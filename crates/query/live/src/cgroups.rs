//! Cgroups and containers by name.
//!
//! Programs see the number of a thread's cgroup (version 2), which is the inode number of its directory. A container is
//! the cgroup whose directory has the container's id in its name, as container engines name them:
//! `docker-<id>.scope`, `cri-containerd-<id>.scope`, `libpod-<id>.scope`, or `<id>` itself.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kiln_program::Error;

/// Maximum number of cgroups below one.
const MAX_CGROUPS: usize = 1 << 10;
/// Maximum number of cgroups that are searched for a container.
const MAX_SEARCHED: usize = 1 << 16;
/// Minimum number of characters of a container's id.
const MIN_ID: usize = 6;

/// Where cgroup2 is mounted.
fn mount() -> Result<PathBuf, Error> {
    mounted(|kind, _| kind == "cgroup2").ok_or_else(|| Error::Unsupported("cgroup2 is not mounted here".to_owned()))
}

/// The first mount whose kind of file system and options are wanted.
fn mounted(is_wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().find_map(|line| match &line.split(' ').collect::<Vec<_>>()[..] {
        [_, place, kind, options, ..] if is_wanted(kind, options) => Some(PathBuf::from(*place)),
        _ => None,
    })
}

/// Where cgroups have their processor time: the controller `cpu` of version 1 if it is mounted, else cgroup2.
pub(crate) fn of_processors() -> Option<PathBuf> {
    mounted(|kind, options| kind == "cgroup" && options.split(',').any(|option| option == "cpu"))
        .or_else(|| mount().ok())
}

/// All cgroups: the number of each, and its path from the mount of cgroup2 on. None where it is not mounted.
pub(crate) fn all() -> Vec<(u64, String)> {
    mount().map(|mount| in_mount(&mount)).unwrap_or_default()
}

/// The cgroups below a mount: the number of each, and its path from there on.
pub(crate) fn in_mount(mount: &Path) -> Vec<(u64, String)> {
    let cgroup = |directory: PathBuf| {
        let number = std::fs::metadata(&directory).ok()?.ino();
        let path = directory.strip_prefix(mount).ok()?.to_string_lossy().into_owned();
        Some((number, format!("/{path}")))
    };
    below(mount, MAX_SEARCHED).into_iter().filter_map(cgroup).collect()
}

/// The id of the container that a cgroup is, or is in: the last run of 64 hexadecimal digits in its path.
pub(crate) fn container(path: &str) -> Option<&str> {
    path.rsplit(|letter: char| !letter.is_ascii_hexdigit()).find(|word| word.len() == ID)
}

/// Characters of a container's id.
const ID: usize = 64;

/// The unique id of the Kubernetes pod that a cgroup is of: what follows `pod` in a name of its path, in lower case with
/// hyphens. The name of a systemd slice has underscores for these.
pub(crate) fn pod(path: &str) -> Option<String> {
    let names = path.rsplit('/').filter_map(|name| name.split("pod").last());
    let uids = names.filter_map(|rest| rest.get(..UID)).map(|uid| uid.replace('_', "-").to_lowercase());
    let is_uid = |uid: &String| {
        let mut parts =
            uid.split('-').map(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(part.len()));
        UID_PARTS.iter().all(|length| parts.next() == Some(Some(*length))) && parts.next().is_none()
    };
    uids.into_iter().find(is_uid)
}

/// Characters of a pod's unique id, with its hyphens.
const UID: usize = 36;
/// Characters between the hyphens.
const UID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// The directories below one, itself first; `most` of them at most.
fn below(root: &Path, most: usize) -> Vec<PathBuf> {
    let mut all = vec![root.to_owned()];
    let mut next = 0;
    while next < all.len() && all.len() < most {
        let entries = std::fs::read_dir(&all[next]).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        all.extend(folders.map(|entry| entry.path()));
        next += 1;
    }
    all.truncate(most);
    all
}

/// The numbers of a cgroup and of those below it. Its path is absolute or begins at the mount of cgroup2.
///
/// # Errors
/// [`Error::InvalidInput`] if there is no such cgroup, or too many are below it.
pub fn of_path(path: &Path) -> Result<Vec<u64>, Error> {
    let mount = mount()?;
    let inside = path.strip_prefix(&mount).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    let directory = mount.join(inside);
    if !directory.is_dir() || inside.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(Error::InvalidInput(format!("there is no cgroup {} in {}", inside.display(), mount.display())));
    }
    let all = below(&directory, MAX_CGROUPS + 1);
    if all.len() > MAX_CGROUPS {
        let message = format!("{} has more than {MAX_CGROUPS} cgroups below it", directory.display());
        return Err(Error::InvalidInput(message));
    }
    // Some may be removed meanwhile.
    Ok(all.iter().filter_map(|directory| std::fs::metadata(directory).ok()).map(|about| about.ino()).collect())
}

/// The numbers of a container's cgroups, by its id or the beginning of it.
///
/// # Errors
/// [`Error::InvalidInput`] if none or several containers have an id that begins so.
pub fn of_container(id: &str) -> Result<Vec<u64>, Error> {
    if id.len() < MIN_ID || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Error::InvalidInput(format!("`{id}` is not {MIN_ID} characters or more of a container's id")));
    }
    let named = |directory: &PathBuf| {
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.strip_suffix(".scope").unwrap_or(&name);
        name.rsplit(['-', ':']).next().is_some_and(|own| own.starts_with(id))
    };
    let mut found: Vec<PathBuf> = below(&mount()?, MAX_SEARCHED).into_iter().filter(named).collect();
    // A container's cgroup may have cgroups with its id in their names below it.
    let all = found.clone();
    found.retain(|one| !all.iter().any(|other| other != one && one.starts_with(other)));
    match &found[..] {
        [only] => of_path(only),
        [] => Err(Error::InvalidInput(format!("no cgroup is of a container whose id begins with {id}"))),
        several => {
            let names: Vec<String> = several.iter().map(|one| one.display().to_string()).collect();
            Err(Error::InvalidInput(format!(
                "several containers have an id that begins with {id}: {}",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_in_the_path() {
        let uid = "0e1f3a52-9c1d-4b8e-a6d2-0123456789ab";
        let id = "a".repeat(ID);
        for path in [
            format!("/kubepods/burstable/pod{uid}/{id}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
                uid.replace('-', "_")
            ),
        ] {
            assert_eq!(pod(&path).as_deref(), Some(uid), "{path}");
            assert_eq!(container(&path), Some(&*id), "{path}");
        }
        let others =
            ["/", "/system.slice/podman.service", "/pod", "/podé0e1f3a52-9c1d-4b8e-a6d2-0123456789a", "/user.slice"];
        assert!(others.iter().all(|path| pod(path).is_none()));
    }

    #[test]
    fn cgroups_and_containers_are_found() {
        let Ok(mount) = mount() else { return println!("skipped: no cgroup2") };
        let name = format!("kiln-sqlx-{}", std::process::id());
        // No container engine makes an id of these letters.
        let id = format!("zzzzzz{}", std::process::id());
        let inner = mount.join(&name).join(format!("docker-{id}.scope"));
        if let Err(error) = std::fs::create_dir_all(&inner) {
            return println!("skipped: {error}");
        }
        let found = [of_path(Path::new(&name)), of_path(&mount.join(&name)), of_container(&id[..8])];
        let (missing, above) = (of_container("yyyyyyyy"), of_path(Path::new("../../etc")));
        let inodes =
            [mount.join(&name), inner.clone()].map(|folder| std::fs::metadata(folder).map(|about| about.ino()));
        std::fs::remove_dir(&inner).expect("it is empty");
        std::fs::remove_dir(mount.join(&name)).expect("it is empty");
        let [outer, inner] = inodes.map(|inode| inode.expect("it was there"));
        let found = found.map(|found| found.expect("it was there"));
        assert_eq!(found, [vec![outer, inner], vec![outer, inner], vec![inner]]);
        assert!(missing.is_err() && above.is_err());
    }
}
