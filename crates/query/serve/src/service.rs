//! The queries of a service and their limits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use kiln_inspect::show::shown::Shown;
use kiln_live::Session;
use kiln_program::Error;

use crate::running::{self, Reader, Running, State};
use crate::shared::{locked, percent};
use crate::version::{Earlier, LATEST, Withdrawn};

/// Maximum length of a query's name.
const MAX_NAME: usize = 64;

/// What all queries of a service may take together, and each of them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// Maximum number of queries, those that have ended included.
    pub queries: usize,
    /// The part of one processor's time that the programs of all queries may take.
    pub overhead: f64,
    /// The part of one processor's time that the programs of one query may take, unless it asks for less.
    pub query_overhead: f64,
    /// Maximum number of rows that all queries may keep, by what they asked for.
    pub rows: usize,
    /// How many rows a query keeps if it does not say: groups of open windows, pairs without an end, rows that wait to be
    /// ordered, and rows for readers, each.
    pub query_rows: usize,
    /// Bytes of the ring buffer of each query, a power of two.
    pub ring_bytes: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queries: 256,
            overhead: 0.2,
            query_overhead: 0.05,
            rows: 1 << 22,
            query_rows: 1 << 14,
            ring_bytes: 1 << 20,
        }
    }
}

/// A request to install a query.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Install {
    /// The query.
    pub sql: Shown,
    /// The part of one processor's time that its programs may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_overhead: Option<f64>,
    /// How many rows it keeps: see [`Limits::query_rows`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// Its version. A query with a version replaces an earlier one of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// Queries that run until they are stopped.
pub struct Service {
    limits: Limits,
    /// An OTLP receiver that the rows of all queries are sent to.
    otlp: Option<String>,
    /// Where its page is.
    page: Option<Shown>,
    /// Installing is one at a time, so that two requests cannot both take the last room.
    installing: Mutex<()>,
    queries: Mutex<BTreeMap<String, Arc<Running>>>,
}

/// The part of one processor that queries take together.
fn share_of<'a>(queries: impl Iterator<Item = &'a Arc<Running>>) -> f64 {
    queries.fold(0.0, |sum, query| sum + query.share())
}

impl Service {
    /// A service without queries. Rows are also sent to `otlp`; `page` is what readers are told of its page.
    ///
    /// # Errors
    /// [`Error::Os`] and [`Error::Unsupported`] where the kernel cannot be asked.
    pub fn new(limits: Limits, otlp: Option<String>, page: Option<Shown>) -> Result<Service, Error> {
        kiln_linux::running::require_kernel()?;
        allow_descriptors();
        Ok(Service { limits, otlp, page, installing: Mutex::new(()), queries: Mutex::new(BTreeMap::new()) })
    }

    /// Plans, loads and attaches a query. One with a version then replaces the query of its name. Returns how it begins.
    ///
    /// # Errors
    /// [`Error::Limit`] for what is above a limit, [`Error::InvalidInput`] for a name that is taken, for a version that is
    /// not the latest and for no rows or time at all, and what [`kiln_live::plan::plan`] and [`kiln_live::live::run`] return.
    pub fn install(&self, name: &str, install: &Install) -> Result<Json, Error> {
        let _alone = locked(&self.installing);
        check_name(name)?;
        if install.version.is_some_and(|version| !(1..=LATEST).contains(&version)) {
            return Err(Error::InvalidInput(format!("the versions of a query are 1 to {LATEST}")));
        }
        let before = self.query(name);
        if let Some(before) = &before {
            check_replaces(before.spec(), install.version)?;
        }
        let spec = self.checked(name, install, before.as_deref())?;
        // Only what works is worth coming back to.
        let good = before.filter(|before| matches!(before.state(), State::Running | State::Ended));
        let earlier = good.as_deref().map(Running::spec).map(|spec| Earlier {
            version: spec.version,
            sql: spec.sql.clone(),
            max_overhead: spec.max_overhead,
            rows: spec.rows,
        });
        self.begin(name, running::Spec { earlier, ..spec })
    }

    /// Withdraws a version of a query: the one before runs again, and without one the query ends. Another version than
    /// this one is left alone. Returns the query as it is then.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where there is none of this name, and as [`Service::install`]: then the version has ended.
    pub fn withdraw(&self, name: &str, withdrawn: &Withdrawn) -> Result<Json, Error> {
        let _alone = locked(&self.installing);
        let query = self.query(name).ok_or_else(|| no_query(name))?;
        if query.spec().version != withdrawn.version {
            return Ok(query.document(None));
        }
        query.end(State::Refused, withdrawn.reason.exact().to_owned());
        let Some(earlier) = &query.spec().earlier else {
            query.join();
            return Ok(query.document(None));
        };
        let install = Install {
            sql: earlier.sql.clone(),
            max_overhead: Some(earlier.max_overhead),
            rows: Some(earlier.rows),
            version: Some(earlier.version),
        };
        let spec = self.checked(name, &install, Some(&query))?;
        self.begin(name, running::Spec { withdrawn: Some(withdrawn.clone()), ..spec })
    }

    /// Begins a query, and ends the one of its name that it replaces.
    fn begin(&self, name: &str, spec: running::Spec) -> Result<Json, Error> {
        let running = Running::begin(spec)?;
        let document = running.document(None);
        if let Some(before) = locked(&self.queries).insert(name.to_owned(), running) {
            before.stop();
            before.join();
        }
        Ok(document)
    }

    fn query(&self, name: &str) -> Option<Arc<Running>> {
        locked(&self.queries).get(name).cloned()
    }

    /// Runs a query for a reader, who gets its rows. It counts as a query of the service, with a name that is returned, until
    /// it is stopped.
    ///
    /// # Errors
    /// As [`Service::install`].
    pub fn follow(&self, sql: &str, session: Session, reader: Reader) -> Result<String, Error> {
        let _alone = locked(&self.installing);
        let names = |number: &u64| format!("reader-{number}");
        let name = (1..).map(|number| names(&number)).find(|name| !locked(&self.queries).contains_key(name));
        let name = name.unwrap_or_default();
        let spec = self.checked(&name, &Install { sql: sql.into(), ..Install::default() }, None)?;
        let running = Running::begin_for(running::Spec { otlp: None, version: 0, ..spec }, session, Some(reader))?;
        locked(&self.queries).insert(name.clone(), running);
        Ok(name)
    }

    /// How many rows a query keeps if it does not say.
    pub fn rows_of_query(&self) -> usize {
        self.limits.query_rows
    }

    /// Holds a request to the limits. What it replaces does not count.
    fn checked(&self, name: &str, install: &Install, before: Option<&Running>) -> Result<running::Spec, Error> {
        let limits = &self.limits;
        let queries = locked(&self.queries);
        let others = || queries.iter().filter(|(other, _)| before.is_none() || *other != name).map(|(_, query)| query);
        if others().count() >= limits.queries {
            let most = limits.queries;
            return Err(Error::Limit(format!("the service has {most} queries, and may have no more (--max-queries)")));
        }
        let rows = install.rows.unwrap_or(limits.query_rows);
        let taken: usize = others().map(|query| query.spec().rows).sum();
        if rows == 0 {
            return Err(Error::InvalidInput("a query keeps at least one row (--rows)".to_owned()));
        }
        if rows > limits.rows.saturating_sub(taken) {
            return Err(Error::Limit(format!(
                "the query would keep {rows} rows; queries keep {taken} already, and all together may keep {} \
                 (--max-rows); stop one, or ask for fewer (--rows)",
                limits.rows
            )));
        }
        let max_overhead = install.max_overhead.unwrap_or(limits.query_overhead);
        // Not a number is neither more nor less.
        if max_overhead.is_nan() || max_overhead <= 0.0 {
            return Err(Error::InvalidInput(
                "a query may take more than 0 of one processor (--max-overhead)".to_owned(),
            ));
        }
        if max_overhead > limits.query_overhead {
            return Err(Error::Limit(format!(
                "the query asks for {} of one processor, and one query may take {} (--max-overhead of the service)",
                percent(max_overhead),
                percent(limits.query_overhead)
            )));
        }
        let share = share_of(others());
        if share >= limits.overhead {
            return Err(Error::Limit(format!(
                "the programs of all queries take {} of one processor, and may take {} (--max-total-overhead); stop one",
                percent(share),
                percent(limits.overhead)
            )));
        }
        Ok(running::Spec {
            name: name.to_owned().into(),
            sql: install.sql.clone(),
            max_overhead,
            rows,
            ring_bytes: limits.ring_bytes,
            otlp: self.otlp.clone().map(Shown::from),
            version: install.version.unwrap_or(1),
            earlier: None,
            withdrawn: None,
        })
    }

    /// All queries, and what they take together; `with_page`, with the page's address and key.
    pub fn list(&self, with_page: bool) -> Json {
        let page = self.page.as_ref().filter(|_| with_page);
        let queries = locked(&self.queries);
        let share = share_of(queries.values());
        let documents: Vec<Json> = queries.values().map(|query| query.document(None)).collect();
        serde_json::json!({
            "queries": documents,
            "share": share,
            "limits": self.limits,
            "page": page,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    /// A query with its last windows: those with a larger number than `after`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where there is none of this name.
    pub fn show(&self, name: &str, after: u64) -> Result<Json, Error> {
        Ok(self.query(name).ok_or_else(|| no_query(name))?.document(Some(after)))
    }

    /// Stops a query and forgets it. Returns it with its last windows.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where there is none of this name.
    pub fn stop(&self, name: &str) -> Result<Json, Error> {
        let query = locked(&self.queries).remove(name).ok_or_else(|| no_query(name))?;
        query.stop();
        query.join();
        Ok(query.document(Some(0)))
    }

    /// Stops all queries. Returns how many there were.
    pub fn stop_all(&self) -> usize {
        let queries = std::mem::take(&mut *locked(&self.queries));
        queries.values().for_each(|query| query.stop());
        queries.values().for_each(|query| query.join());
        queries.len()
    }

    /// Holds all queries together to their limit: while they take more, ends the one that takes the most. A version that
    /// was refused or failed is withdrawn. Returns a sentence for each query that has ended since the last call without
    /// having been stopped. To be called about once a second.
    pub fn supervise(&self) -> Vec<Shown> {
        let queries: Vec<_> = locked(&self.queries).values().cloned().collect();
        self.hold(&queries);
        queries.iter().filter_map(|query| Some(self.come_back(query, query.news()?))).collect()
    }

    /// Withdraws a query's version that has just ended, unless it has all its rows or is the first. Returns its news.
    fn come_back(&self, query: &Running, news: Shown) -> Shown {
        let running::Spec { name, version, earlier, .. } = query.spec();
        let Some(earlier) = earlier.as_ref().filter(|_| query.state() != State::Ended) else { return news };
        let reason = query.reason().unwrap_or_else(|| "it failed".into());
        let news = news.exact();
        match self.withdraw(name.exact(), &Withdrawn { version: *version, reason }) {
            Ok(_) => format!("{news}; version {} runs instead of version {version}", earlier.version).into(),
            Err(error) => format!("{news}; version {} does not run again: {error}", earlier.version).into(),
        }
    }

    fn hold(&self, queries: &[Arc<Running>]) {
        let share = share_of(queries.iter());
        if share <= self.limits.overhead {
            return;
        }
        if let Some(most) = queries.iter().max_by(|one, other| one.share().total_cmp(&other.share())) {
            most.end(
                State::Refused,
                format!(
                    "the programs of all queries took {} of one processor, and may take {} (--max-total-overhead); \
                     this query's took the most, {}",
                    percent(share),
                    percent(self.limits.overhead),
                    percent(most.share())
                ),
            );
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop_all();
    }
}

fn no_query(name: &str) -> Error {
    Error::InvalidInput(format!("there is no query `{name}`; `kiln serve list` lists those there are"))
}

/// Whether a query of this version may replace another.
fn check_replaces(before: &running::Spec, version: Option<u64>) -> Result<(), Error> {
    let name = before.name.exact();
    let message = match version {
        _ if before.version == 0 => format!("`{name}` is a reader's query; choose another name"),
        None => {
            format!("there is a query `{name}` already; stop it first, replace it (--replace), or choose another name")
        }
        Some(version) if version <= before.latest() => {
            format!("version {version} of `{name}` does not come after version {}", before.latest())
        }
        Some(_) => return Ok(()),
    };
    Err(Error::InvalidInput(message))
}

/// Names are parts of addresses and of file names.
fn check_name(name: &str) -> Result<(), Error> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_good) && !name.starts_with('.') {
        return Ok(());
    }
    Err(Error::InvalidInput(format!(
        "`{name}` cannot name a query: a name has up to {MAX_NAME} letters, digits, `-`, `_` and `.`"
    )))
}

/// Raises this process's limit of open files as far as it may: a query takes about ten.
fn allow_descriptors() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // Where it stays, installing says when there are none left.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}
