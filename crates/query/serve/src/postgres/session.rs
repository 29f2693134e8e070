//! A client's session: what it asks, by the simple and the extended protocol, and what it is answered.
//!
//! ```text
//!   Query ------------------------------------> statements, one after the other --+
//!   Parse --> prepared --Bind--> portal --Execute--> up to so many rows ----------+--> answer: rows, a tag, or a fault
//! ```

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use kiln_live::ColumnHead;
use kiln_plan::Value;
use pgwire::messages::PgWireFrontendMessage as Asked;
use pgwire::messages::data::{DataRow, FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, CloseComplete, Parse, ParseComplete, PortalSuspended, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus,
};

use super::answer::{Answer, Next, answer, described};
use super::fault::Fault;
use super::settings::{DURATION, SETTINGS, duration};
use super::text::{self, Filled, Kind};
use super::value;
use super::wire::Wire;
use crate::service::Service;

/// Maximum number of prepared statements, and of portals.
const MAX_PREPARED: usize = 256;
/// Maximum number of parameters of a statement.
const MAX_PARAMETERS: usize = 64;
/// Maximum number of settings, and bytes of each.
const MAX_SETTINGS: usize = 64;
const MAX_SETTING: usize = 1024;

/// A statement that was parsed.
#[derive(Clone)]
struct Prepared {
    text: String,
    types: Vec<u32>,
    /// How many columns its answer has, if it has some.
    columns: Option<usize>,
}

/// A statement with its parameters.
struct Portal {
    text: String,
    filled: Filled,
    formats: Vec<i16>,
    answer: Option<Answer>,
}

/// A client's session.
pub struct Session {
    wire: Wire,
    service: Arc<Service>,
    cancelled: Arc<AtomicBool>,
    settings: BTreeMap<String, String>,
    prepared: HashMap<String, Prepared>,
    portals: HashMap<String, Portal>,
    transaction: TransactionStatus,
    /// After an error, messages are ignored until `Sync`.
    skips: bool,
    offset_ns: i128,
}

/// What ends a statement: an error of its own, or the connection's.
enum Stop {
    Fault(Fault),
    Over(io::Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Over(error)
    }
}

impl Session {
    /// The session of a client that gave its password.
    pub fn new(
        wire: Wire,
        service: Arc<Service>,
        cancelled: Arc<AtomicBool>,
        settings: BTreeMap<String, String>,
    ) -> Session {
        Session {
            wire,
            service,
            cancelled,
            settings,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            transaction: TransactionStatus::Idle,
            skips: false,
            offset_ns: value::clock_offset_ns(),
        }
    }

    /// Answers until the client ends the session.
    ///
    /// # Errors
    /// Returns what ended the connection.
    pub fn run(&mut self) -> io::Result<()> {
        self.ready()?;
        loop {
            let asked = self.wire.read(None)?;
            self.cancelled.store(false, Ordering::SeqCst);
            match asked {
                Asked::Terminate(_) => return Ok(()),
                Asked::Query(query) => {
                    self.skips = false;
                    self.portals.clear();
                    self.simple(&query.query)?;
                    self.ready()?;
                }
                Asked::Sync(_) => {
                    self.skips = false;
                    if self.transaction == TransactionStatus::Idle {
                        self.portals.clear();
                    }
                    self.ready()?;
                }
                Asked::Flush(_) => self.wire.flush()?,
                _ if self.skips => {}
                asked => {
                    let text = self.text_of(&asked);
                    match self.extended(asked) {
                        Ok(()) => {}
                        Err(Stop::Over(error)) => return Err(error),
                        Err(Stop::Fault(fault)) => {
                            self.skips = true;
                            self.fail(&fault, &text)?;
                        }
                    }
                }
            }
        }
    }

    /// Says why the session ends.
    ///
    /// # Errors
    /// Returns one if the connection is over.
    pub fn end(&mut self, fault: &Fault) -> io::Result<()> {
        self.wire.end(fault)
    }

    fn ready(&mut self) -> io::Result<()> {
        self.wire.send(&ReadyForQuery::new(self.transaction))?;
        self.wire.flush()
    }

    fn fail(&mut self, fault: &Fault, text: &str) -> io::Result<()> {
        if self.transaction == TransactionStatus::Transaction {
            self.transaction = TransactionStatus::Error;
        }
        self.wire.send(&ErrorResponse::new(fault.fields(text)))
    }

    /// The statement that a message is about, for the places of errors.
    fn text_of(&self, asked: &Asked) -> String {
        match asked {
            Asked::Parse(parse) => parse.query.clone(),
            Asked::Bind(bind) => {
                let own = self.prepared.get(bind.statement_name.as_deref().unwrap_or_default());
                own.map(|own| own.text.clone()).unwrap_or_default()
            }
            Asked::Execute(execute) => {
                let own = self.portals.get(execute.name.as_deref().unwrap_or_default());
                own.map(|own| own.text.clone()).unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    /// Statements of the simple protocol: the first error ends them.
    fn simple(&mut self, whole: &str) -> io::Result<()> {
        let statements = text::statements(whole);
        if statements.is_empty() {
            return self.wire.send(&EmptyQueryResponse::new());
        }
        for (start, text) in statements {
            let filled = Filled::new(text, &[]);
            let mut done = || {
                if let Some(fault) = text::no_parameter(text, 0) {
                    return Err(fault.into());
                }
                let mut answer = self.begin(text, &filled)?;
                if let Answer::Rows(rows) = &answer {
                    let described = RowDescription::new(fields(&rows.columns, &[]));
                    self.wire.send(&described)?;
                }
                self.give(&mut answer, &[], usize::MAX)?;
                Ok::<_, Stop>(())
            };
            match done() {
                Ok(()) => {}
                Err(Stop::Over(error)) => return Err(error),
                Err(Stop::Fault(fault)) => {
                    return self.fail(&Fault { at: fault.at.map(|at| start + at), ..fault }, whole);
                }
            }
        }
        Ok(())
    }

    /// A message of the extended protocol.
    fn extended(&mut self, asked: Asked) -> Result<(), Stop> {
        match asked {
            Asked::Parse(parse) => self.parse(parse),
            Asked::Bind(bind) => self.bind(&bind),
            Asked::Describe(describe) => {
                let name = describe.name.unwrap_or_default();
                self.describe(describe.target_type == TARGET_TYPE_BYTE_STATEMENT, &name)
            }
            Asked::Execute(execute) => {
                let most = usize::try_from(execute.max_rows).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
                self.execute(&execute.name.unwrap_or_default(), most)
            }
            Asked::Close(close) => {
                let name = close.name.unwrap_or_default();
                match close.target_type == TARGET_TYPE_BYTE_STATEMENT {
                    true => drop(self.prepared.remove(&name)),
                    false => drop(self.portals.remove(&name)),
                }
                Ok(self.wire.send(&CloseComplete::new())?)
            }
            _ => Err(Fault::new("08P01", "this message is not expected here").into()),
        }
    }

    fn parse(&mut self, parse: Parse) -> Result<(), Stop> {
        if text::statements(&parse.query).len() > 1 {
            return Err(Fault::new("42601", "one statement can be prepared at a time").into());
        }
        let count = text::parameters(&parse.query)?.max(parse.type_oids.len());
        let name = parse.name.unwrap_or_default();
        let is_known = is_replaced(&self.prepared, &name, ("42P05", "prepared statement"))?;
        if count > MAX_PARAMETERS || !is_known && self.prepared.len() >= MAX_PREPARED {
            let message = format!("a session has up to {MAX_PREPARED} statements of {MAX_PARAMETERS} parameters");
            return Err(Fault::new("53400", message).into());
        }
        let mut types = parse.type_oids;
        // Types may be given for parameters that the text does not have: they have values all the same.
        types.resize(types.len().max(count), 0);
        let text = parse.query.trim_end().trim_end_matches(';').to_owned();
        if text::kind(&text) == Kind::Query && types.contains(&0) {
            self.find_types(&text, &mut types);
        }
        // An error of the query is said now, not when it is executed.
        let columns = match text::kind(&text) {
            _ if text::statements(&text).is_empty() => None,
            Kind::Query => Some(self.columns(&text, &types)?.len()),
            Kind::Show(_) => Some(1),
            _ => None,
        };
        self.prepared.insert(name, Prepared { text, types, columns });
        Ok(self.wire.send(&ParseComplete::new())?)
    }

    /// Finds the types of parameters that the client does not name: the first with which the query has no error.
    fn find_types(&self, text: &str, types: &mut [u32]) {
        const TRIED: [u32; 4] = [value::TEXT, value::INT8, value::FLOAT8, value::BOOL];
        for at in (0..types.len()).filter(|at| types[*at] == 0).collect::<Vec<_>>() {
            let found = TRIED.into_iter().find(|tried| {
                types[at] = *tried;
                self.columns(text, types).is_ok()
            });
            types[at] = found.unwrap_or(value::TEXT);
        }
    }

    /// The columns of a query, whatever its parameters are.
    fn columns(&self, text: &str, types: &[u32]) -> Result<Vec<ColumnHead>, Fault> {
        let sample = |oid: &u32| match *oid {
            value::TEXT => "''",
            value::BOOL => "TRUE",
            value::FLOAT8 => "1.5",
            0 => "NULL",
            oid if value::is_integer(oid) => "1",
            _ => "''",
        };
        let values: Vec<String> = types.iter().map(|oid| sample(oid).to_owned()).collect();
        let filled = Filled::new(text, &values);
        described(&filled.text).map_err(|fault| led_back(fault, &filled))
    }

    fn bind(&mut self, bind: &Bind) -> Result<(), Stop> {
        let name = bind.statement_name.as_deref().unwrap_or_default();
        let own = self.prepared.get(name).cloned();
        let own = own.ok_or_else(|| Fault::new("26000", format!("there is no prepared statement `{name}`")))?;
        if bind.parameters.len() != own.types.len() {
            let message =
                format!("{} parameters are given, and {} are asked for", bind.parameters.len(), own.types.len());
            return Err(Fault::new("08P01", message).into());
        }
        check_formats(&bind.parameter_format_codes, own.types.len(), "parameter")?;
        if let Some(columns) = own.columns {
            check_formats(&bind.result_column_format_codes, columns, "column")?;
        }
        let portal_name = bind.portal_name.clone().unwrap_or_default();
        let is_known = is_replaced(&self.portals, &portal_name, ("42P03", "portal"))?;
        if !is_known && self.portals.len() >= MAX_PREPARED {
            return Err(Fault::new("53400", format!("a session has up to {MAX_PREPARED} portals")).into());
        }
        let mut values = Vec::new();
        for (at, (bytes, oid)) in bind.parameters.iter().zip(&own.types).enumerate() {
            let binary = format_at(&bind.parameter_format_codes, at) == 1;
            values.push(value::parameter(bytes.as_deref(), *oid, binary)?);
        }
        let filled = Filled::new(&own.text, &values);
        let formats = bind.result_column_format_codes.clone();
        let portal = Portal { text: own.text, filled, formats, answer: None };
        self.portals.insert(portal_name, portal);
        Ok(self.wire.send(&BindComplete::new())?)
    }

    fn describe(&mut self, is_statement: bool, name: &str) -> Result<(), Stop> {
        let (text, types, formats) = if is_statement {
            let own = self.prepared.get(name);
            let own = own.ok_or_else(|| Fault::new("26000", format!("there is no prepared statement `{name}`")))?;
            let own = own.clone();
            self.wire.send(&ParameterDescription::new(own.types.clone()))?;
            (own.text, own.types, Vec::new())
        } else {
            let own = self.portals.get(name);
            let own = own.ok_or_else(|| Fault::new("34000", format!("there is no portal `{name}`")))?;
            (own.filled.text.clone(), Vec::new(), own.formats.clone())
        };
        let columns = match text::kind(&text) {
            _ if text::statements(&text).is_empty() => return Ok(self.wire.send(&NoData::new())?),
            Kind::Query => self.columns(&text, &types)?,
            Kind::Show(name) => vec![ColumnHead { name: name.into(), data_type: "text" }],
            _ => return Ok(self.wire.send(&NoData::new())?),
        };
        Ok(self.wire.send(&RowDescription::new(fields(&columns, &formats)))?)
    }

    fn execute(&mut self, name: &str, most: usize) -> Result<(), Stop> {
        let portal = self.portals.remove(name);
        let mut portal = portal.ok_or_else(|| Fault::new("34000", format!("there is no portal `{name}`")))?;
        if text::statements(&portal.text).is_empty() {
            return Ok(self.wire.send(&EmptyQueryResponse::new())?);
        }
        let mut answer = match portal.answer.take() {
            Some(answer) => answer,
            None => self.begin(&portal.text, &portal.filled)?,
        };
        if !self.give(&mut answer, &portal.formats, most)? {
            portal.answer = Some(answer);
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(())
    }

    /// Begins a statement.
    fn begin(&mut self, text: &str, filled: &Filled) -> Result<Answer, Fault> {
        let kind = text::kind(text);
        if self.transaction == TransactionStatus::Error && !matches!(kind, Kind::End(_)) {
            let message = "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Fault::new("25P02", message));
        }
        match kind {
            Kind::Begin => {
                self.transaction = TransactionStatus::Transaction;
                Ok(Answer::Tag("BEGIN"))
            }
            Kind::End(tag) => {
                let failed = self.transaction == TransactionStatus::Error;
                self.transaction = TransactionStatus::Idle;
                Ok(Answer::Tag(if failed { "ROLLBACK" } else { tag }))
            }
            Kind::Nothing(tag) => Ok(Answer::Tag(tag)),
            Kind::Set(name, value) => self.set(&name, &value),
            Kind::Show(name) => self.show(&name),
            Kind::Query => {
                let duration = self.settings.get(DURATION).map(|text| duration(text)).transpose()?.flatten();
                answer(&self.service, &filled.text, duration, &self.cancelled).map_err(|fault| led_back(fault, filled))
            }
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<Answer, Fault> {
        if name == DURATION {
            duration(value)?;
        }
        let is_known = self.settings.contains_key(name);
        if name.len() > MAX_SETTING || value.len() > MAX_SETTING || !is_known && self.settings.len() >= MAX_SETTINGS {
            return Err(Fault::new("53400", "these are too many or too long settings"));
        }
        self.settings.insert(name.to_owned(), value.to_owned());
        Ok(Answer::Tag("SET"))
    }

    fn show(&self, name: &str) -> Result<Answer, Fault> {
        let own = self.settings.get(name).map(String::as_str);
        let of_server = SETTINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let value = own.or(of_server).or((name == DURATION).then_some("0"));
        let value = value.ok_or_else(|| {
            Fault::new("42704", format!("there is no setting `{name}`"))
                .hint("`kiln.duration` ends queries after a time")
        })?;
        let column = ColumnHead { name: name.into(), data_type: "text" };
        Ok(Answer::constant(vec![column], vec![vec![Value::text(value)]], "SHOW"))
    }

    /// Gives rows of an answer, `most` of them. Returns whether it is over.
    fn give(&mut self, answer: &mut Answer, formats: &[i16], most: usize) -> Result<bool, Stop> {
        let rows = match answer {
            Answer::Tag(tag) => {
                self.wire.send(&CommandComplete::new((*tag).to_owned()))?;
                return Ok(true);
            }
            Answer::Rows(rows) => rows,
        };
        let types: Vec<u32> = rows.columns.iter().map(|column| value::type_of(column.data_type)).collect();
        let mut given = 0;
        while given < most {
            match rows.next()? {
                Next::Row(values) => {
                    let mut data = BytesMut::new();
                    for (at, (one, oid)) in values.iter().zip(&types).enumerate() {
                        value::put(&mut data, one, *oid, format_at(formats, at) == 1, self.offset_ns)?;
                    }
                    self.wire.send(&DataRow::new(data, i16::try_from(types.len()).unwrap_or(i16::MAX)))?;
                    given += 1;
                }
                Next::Nothing => {
                    // What is there is shown before more is waited for.
                    self.wire.flush()?;
                    if self.cancelled.load(Ordering::SeqCst) {
                        return Err(Fault::cancelled().into());
                    }
                    if self.wire.is_gone() {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                    rows.wait();
                }
                Next::End(lost) => {
                    if lost > 0 {
                        self.notice(&format!("{lost} rows or events were lost"))?;
                    }
                    self.wire.send(&CommandComplete::new(rows.tag()))?;
                    return Ok(true);
                }
            }
            if given % 1024 == 0 && self.cancelled.load(Ordering::SeqCst) {
                return Err(Fault::cancelled().into());
            }
        }
        self.wire.send(&PortalSuspended::new())?;
        Ok(false)
    }

    fn notice(&mut self, message: &str) -> io::Result<()> {
        let fields = [(b'S', "WARNING"), (b'V', "WARNING"), (b'C', "01000"), (b'M', message)];
        self.wire.send(&NoticeResponse::new(fields.map(|(field, text)| (field, text.to_owned())).into()))
    }
}

/// Whether a name is known, and so what has it is replaced: only what has none may be.
fn is_replaced<T>(known: &HashMap<String, T>, name: &str, (code, kind): (&'static str, &str)) -> Result<bool, Fault> {
    let is_known = known.contains_key(name);
    if is_known && !name.is_empty() {
        let fault = Fault::new(code, format!("there is a {kind} `{name}` already"));
        return Err(fault.hint("close it first; the one without a name is replaced"));
    }
    Ok(is_known)
}

fn led_back(fault: Fault, filled: &Filled) -> Fault {
    Fault { at: fault.at.map(|at| filled.origin(at)), ..fault }
}

/// Checks the formats of parameters or columns: none, one for all, or one for each.
fn check_formats(formats: &[i16], count: usize, what: &str) -> Result<(), Fault> {
    if formats.len() > 1 && formats.len() != count {
        let message = format!("there are {} formats for {count} {what}s", formats.len());
        return Err(Fault::new("08P01", message).hint("give none, one for all, or one for each"));
    }
    match formats.iter().find(|format| ![0, 1].contains(*format)) {
        Some(format) => {
            Err(Fault::new("22023", format!("format {format} of a {what} is neither text (0) nor binary (1)")))
        }
        None => Ok(()),
    }
}

/// The format of a column: one for all, or one for each; text if there is none.
fn format_at(formats: &[i16], at: usize) -> i16 {
    match formats {
        [one] => *one,
        several => several.get(at).copied().unwrap_or_default(),
    }
}

fn fields(columns: &[ColumnHead], formats: &[i16]) -> Vec<FieldDescription> {
    let field = |(at, column): (usize, &ColumnHead)| {
        let oid = value::type_of(column.data_type);
        let name = column.name.exact().replace('\0', "");
        FieldDescription::new(name, 0, 0, oid, value::about(oid).1, -1, format_at(formats, at))
    };
    columns.iter().enumerate().map(field).collect()
}
