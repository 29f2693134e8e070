//! The services of many hosts, reached by a folder of sockets: a query is installed on all of them, and comes back to the
//! version before on all of them if one cannot bear it.
//!
//! ```text
//!   hosts/a.sock --ssh -L--> a: kiln serve        install --> version 2 on a, b, c
//!   hosts/b.sock --ssh -L--> b: kiln serve        watch   --> b: its programs took 7 %
//!   hosts/c.sock --ssh -L--> c: kiln serve        withdraw -> version 1 on a, b, c
//! ```
//!
//! A host does not need this end: it withdraws a version that is over its limit by itself ([`crate::Service::supervise`]).

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::client::Client;
use crate::service::Install;
use crate::version::Withdrawn;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// Maximum number of hosts.
const MAX_HOSTS: usize = 4096;
/// How many hosts are asked at once.
const AT_ONCE: usize = 64;
/// How often a query is looked at while it is watched.
const EVERY: Duration = Duration::from_millis(200);

/// A host and its service.
pub struct Host {
    /// The name of its socket's file, without `.sock`.
    pub name: Shown,
    client: Client,
}

/// What one host answered.
pub type Answered<'a> = (&'a Shown, Result<Json, Error>);

/// Services that are asked together.
pub struct Fleet {
    hosts: Vec<Host>,
}

impl Fleet {
    /// The services of a folder's sockets, by name.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where the folder cannot be read or has no socket, [`Error::Limit`] for too many.
    pub fn of_folder(folder: &Path) -> Result<Fleet, Error> {
        let mut hosts = Vec::new();
        for file in std::fs::read_dir(folder).map_err(|error| Error::file(folder, &error))?.flatten() {
            if file.file_type().is_ok_and(|kind| kind.is_socket()) {
                let path = file.path();
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned().into();
                hosts.push(Host { name, client: Client::new(&path) });
            }
            if hosts.len() > MAX_HOSTS {
                return Err(Error::Limit(format!("{} has more than {MAX_HOSTS} sockets", folder.display())));
            }
        }
        if hosts.is_empty() {
            return Err(Error::InvalidInput(format!("{} has no socket of a service", folder.display())));
        }
        hosts.sort_by(|one, other| one.name.exact().cmp(other.name.exact()));
        Ok(Fleet { hosts })
    }

    /// One service.
    pub fn of_socket(socket: &Path) -> Fleet {
        Fleet { hosts: vec![Host { name: "this host".into(), client: Client::new(socket) }] }
    }

    /// Asks every host.
    pub fn each(&self, ask: impl Fn(&Client) -> Result<Json, Error> + Sync) -> Vec<Answered<'_>> {
        let mut answers = Vec::new();
        for hosts in self.hosts.chunks(AT_ONCE) {
            std::thread::scope(|scope| {
                let asked: Vec<_> = hosts.iter().map(|host| scope.spawn(|| ask(&host.client))).collect();
                let lost = || Err(Error::Unsupported("a bug in kiln ended this request".to_owned()));
                let answered = asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| lost()));
                answers.extend(hosts.iter().map(|host| &host.name).zip(answered));
            });
        }
        answers
    }

    /// Installs a query on all hosts or on none; `replaces`, as the version after the latest of all hosts. Returns the
    /// answers and the version.
    ///
    /// # Errors
    /// The first host's that does not take the query, after it was taken back from the others.
    pub fn install(&self, name: &str, install: &Install, replaces: bool) -> Result<(Vec<Answered<'_>>, u64), Error> {
        let latest = self.latest(name)?;
        let install = Install { version: replaces.then_some(latest.saturating_add(1)), ..install.clone() };
        let version = install.version.unwrap_or(1);
        let answers = self.each(|client| client.install(name, &install));
        let refused = answers.iter().find_map(|(host, answer)| Some((*host, answer.as_ref().err()?)));
        let Some((host, error)) = refused else { return Ok((answers, version)) };
        // What no host takes is wrong wherever it is installed.
        if answers.iter().all(|(_, answer)| answer.is_err()) {
            return Err(error.clone());
        }
        let why = format!("host {host} does not take it: {error}");
        let withdrawn = Withdrawn { version, reason: why.as_str().into() };
        let mut kept = String::new();
        for (host, answer) in self.hosts.iter().zip(&answers) {
            let Ok(document) = &answer.1 else { continue };
            let is_first = document["query"]["earlier"].is_null();
            let back = if is_first { host.client.stop(name) } else { host.client.withdraw(name, &withdrawn) };
            kept += &back.err().map_or_else(String::new, |error| format!("; host {} keeps it: {error}", host.name));
        }
        Err(Error::Limit(format!("`{name}` was installed on no host: {why}{kept}")))
    }

    /// The latest version of a query on any host; 0 if there is none.
    fn latest(&self, name: &str) -> Result<u64, Error> {
        let mut latest = 0;
        for (host, answer) in self.each(Client::list) {
            let document = answer.map_err(|error| match self.hosts.len() {
                1 => error,
                _ => Error::InvalidInput(format!("nothing was installed: host {host} does not answer: {error}")),
            })?;
            let queries = document["queries"].as_array().into_iter().flatten();
            for query in queries.map(|query| &query["query"]).filter(|query| query["name"] == name) {
                let number = |json: &Json| json["version"].as_u64().unwrap_or_default();
                latest = latest.max(number(query)).max(number(&query["withdrawn"]));
            }
        }
        Ok(latest)
    }

    /// Looks at a version of a query for some time, or until `stop`. If a host refuses it or fails, it is withdrawn from all
    /// hosts. `tell` gets a sentence for each host that does not answer, or where the version was stopped.
    ///
    /// # Errors
    /// [`Error::Limit`] with the host and its reason.
    pub fn watch(
        &self,
        (name, version): (&str, u64),
        time: Duration,
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(String),
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let mut told = BTreeSet::new();
        while begun.elapsed() < time && !stop() {
            for (host, answer) in self.each(|client| client.show(name, u64::MAX)) {
                match answer.map(|document| trouble(&document, version)) {
                    Ok(None) => {}
                    Ok(Some(reason)) => {
                        let why = format!("host {host}: {reason}");
                        let kept = self.withdraw(name, &Withdrawn { version, reason: why.as_str().into() });
                        let message = format!("version {version} of `{name}` was withdrawn from all hosts: {why}");
                        return Err(Error::Limit(message + &kept));
                    }
                    Err(error) if told.insert(host.exact()) => tell(format!("host {host} does not answer: {error}")),
                    Err(_) => {}
                }
            }
            std::thread::sleep(EVERY.min(time.saturating_sub(begun.elapsed())));
        }
        Ok(())
    }

    /// Withdraws a version of a query from all hosts. Returns what is to be said of hosts where this does not work.
    pub fn withdraw(&self, name: &str, withdrawn: &Withdrawn) -> String {
        let answers = self.each(|client| client.withdraw(name, withdrawn));
        let failed = answers.into_iter().filter_map(|(host, answer)| Some((host, answer.err()?)));
        failed.map(|(host, error)| format!("; host {host} is left as it is: {error}")).collect()
    }

    /// Withdraws the latest version of a query from all hosts. Returns its number.
    ///
    /// # Errors
    /// Where a host does not answer, and [`Error::InvalidInput`] where none has such a query.
    pub fn roll_back(&self, name: &str) -> Result<u64, Error> {
        let version = self.latest(name)?;
        if version == 0 {
            return Err(Error::InvalidInput(format!("there is no query `{name}` to roll back")));
        }
        let kept = self.withdraw(name, &Withdrawn { version, reason: "it was rolled back by a request".into() });
        if kept.is_empty() { Ok(version) } else { Err(Error::Limit(format!("version {version} of `{name}`{kept}"))) }
    }
}

/// Why a host does not run a version of a query any more, if that is a reason to withdraw it everywhere.
fn trouble(document: &Json, version: u64) -> Option<String> {
    let query = &document["query"];
    let reason = |reason: &Json| reason.as_str().unwrap_or("it gives no reason").to_owned();
    let has_ended = matches!(document["state"].as_str(), Some("refused" | "failed"));
    if query["version"] == version {
        return has_ended.then(|| reason(&document["reason"]));
    }
    (query["withdrawn"]["version"] == version).then(|| reason(&query["withdrawn"]["reason"]))
}
