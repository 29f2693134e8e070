//! What clients look for to know the server: the tables of `pg_catalog` and `information_schema` that psql, Grafana and
//! drivers read, as lookup tables with rows about Kiln's tables, and the functions that stand in these queries.
//!
//! Kiln's SQL has no `pg_catalog`. So a query that names something of it is rewritten first, by [`REWRITES`]: `OPERATOR` and
//! casts to types of names are left out, functions of catalogs become constants.

use std::sync::{Arc, LazyLock};

use kiln_plan::lookup::{Lookup, Rows};
use kiln_plan::{DataType, Value, tables};
use regex::Regex;

use super::settings::SETTINGS;
use super::text::{Piece, pieces};
use super::value;

/// What is replaced in a query of catalogs, in this order: a regular expression, and what stands there then.
const REWRITES: &[(&str, &str)] = &[
    // Grafana: the schemas of the search path.
    (r"(?s)IN\s*\(\s*SELECT\s+CASE\s+WHEN\s+trim\(s\[i\]\).*?\)\s*(as\s+)?s\s*\)", "IN ('public')"),
    (r"OPERATOR\s*\(\s*(?:pg_catalog\.)?([^)\s]+)\s*\)", "$1"),
    (r"COLLATE\s+(pg_catalog\.)?\x22?default\x22?", ""),
    (r"::\s*(pg_catalog\.)?(regclass|regtype|regproc|regnamespace|regrole|oid|name|\x22char\x22)\b(\[\])?", ""),
    (r"\bpg_catalog\.", ""),
    (r"\b(pg_get_userbyid|current_catalog|current_role)\s*\([^()]*\)", "'kiln'"),
    (r"\b(pg_table_is_visible|pg_type_is_visible|has_\w+_privilege)\s*\([^()]*\)", "TRUE"),
    (r"\b(pg_is_in_recovery|pg_is_other_temp_schema)\s*\([^()]*\)", "FALSE"),
    (r"\b(pg_get_expr|shobj_description|pg_get_indexdef|pg_get_constraintdef)\s*\([^()]*\)", "CAST(NULL AS text)"),
    (r"\bobj_description\s*\(\s*([\w.]+)\s*,[^()]*\)", OF_TABLE),
    (r"\bcol_description\s*\(\s*([\w.]+)\s*,\s*([\w.]+)\s*\)", OF_COLUMN),
    (r"\b(pg_table_size|pg_total_relation_size|pg_database_size)\s*\([^()]*\)", "0"),
    (r"\bpg_size_pretty\s*\([^()]*\)", "''"),
    (r"(?s)\barray_to_string\s*\(\s*c\.reloptions.*?', '\)", "''"),
    (r"\barray_to_string\s*\([^()]*\)", "''"),
    (r"\bpg_encoding_to_char\s*\([^()]*\)", "'UTF8'"),
    (r"\bpg_backend_pid\s*\(\s*\)", "1"),
    (r"\bcurrent_schema(\s*\(\s*\)|\b)", "'public'"),
    (r"\bcurrent_database\s*\(\s*\)", "'kiln'"),
    (r"\b(current_user|session_user)\b", "'kiln'"),
    (r"\bset_config\s*\(\s*'[^']*'\s*,\s*('[^']*')\s*,[^()]*\)", "$1"),
    (r"\bquote_ident\s*\(([^()]*)\)", "$1"),
    (r"\bformat_type\s*\(\s*([\w.]+)\s*,[^()]*\)", FORMAT_TYPE),
    (r"\bE'\\n'", "' '"),
    // Numbers of catalogs are written as texts.
    (r"(=\s*)'(\d+)'", "$1$2"),
];

/// A type's name, by its number.
const FORMAT_TYPE: &str = "(CASE $1 WHEN 16 THEN 'boolean' WHEN 20 THEN 'bigint' WHEN 701 THEN 'double precision' \
                           WHEN 1184 THEN 'timestamp with time zone' ELSE 'text' END)";

/// The description of a table, and of a column.
const OF_TABLE: &str = "(SELECT of.description FROM pg_description of WHERE of.objoid = $1 AND of.objsubid = 0)";
const OF_COLUMN: &str = "(SELECT of.description FROM pg_description of WHERE of.objoid = $1 AND of.objsubid = $2)";

/// What makes a query one of catalogs.
const NAMES: &str = r"(?i)\b(pg_\w+|information_schema)\b|\bcurrent_(schema|database|user|setting|catalog|role)\b|\bsession_user\b|\b(version|set_config)\s*\(";

static IS_OF_CATALOG: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(NAMES).ok());

static ALL: LazyLock<Vec<(Regex, String)>> = LazyLock::new(|| {
    let version = format!("'PostgreSQL {} (Kiln {})'", SETTINGS[0].1, env!("CARGO_PKG_VERSION"));
    let setting =
        |(name, value): &(&str, &str)| (format!(r"\bcurrent_setting\s*\(\s*'{name}'[^()]*\)"), format!("'{value}'"));
    let own = REWRITES.iter().map(|(regex, with)| ((*regex).to_owned(), (*with).to_owned()));
    // A number stays one: Grafana divides it.
    let number = (r"\bcurrent_setting\s*\(\s*'server_version_num'[^()]*\)".to_owned(), SETTINGS[1].1.to_owned());
    let all = [(r"\bversion\s*\(\s*\)".to_owned(), version), number]
        .into_iter()
        .chain(SETTINGS.iter().map(setting))
        .chain(own);
    all.filter_map(|(regex, with)| Some((Regex::new(&format!("(?i){regex}")).ok()?, with))).collect()
});

/// A query of catalogs as one of Kiln's SQL; `None` for another query.
pub fn rewritten(sql: &str) -> Option<String> {
    let is_of_catalog = IS_OF_CATALOG.as_ref()?;
    let plain =
        |piece: Piece| if let Piece::Plain(range) = piece { is_of_catalog.is_match(&sql[range]) } else { false };
    if !pieces(sql).into_iter().any(plain) {
        return None;
    }
    let rewrite = |sql: String, (regex, with): &(Regex, String)| regex.replace_all(&sql, with.as_str()).into_owned();
    Some(ALL.iter().fold(sql.to_owned(), rewrite))
}

/// Rows in memory.
#[derive(Debug)]
struct Fixed(Vec<Arc<[Value]>>);

impl Rows for Fixed {
    fn find(&self, by: usize, key: &Value) -> Option<Arc<[Value]>> {
        self.0.iter().find(|row| row.get(by) == Some(key)).cloned()
    }

    fn check(&self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn all(&self, _: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>> {
        self.0.clone()
    }
}

/// A table or lookup table of Kiln's: its name, what a row is, and its columns.
struct Described {
    name: String,
    about: String,
    columns: Vec<(String, DataType, String)>,
}

/// All tables of this machine. The number of the one at `n` is [`FIRST`] + n.
fn described() -> Vec<Described> {
    let events = tables::all().into_iter().map(|table| {
        let columns = table.columns.into_iter().filter(|column| column.listed);
        let columns = columns.map(|column| (column.name, column.data_type, column.about)).collect();
        Described { name: table.name, about: table.about, columns }
    });
    let lookups = kiln_live::lookups::all().into_iter();
    let lookups = lookups.map(|lookup| Described { name: lookup.name, about: lookup.about, columns: lookup.columns });
    let mut all: Vec<Described> = events.chain(lookups).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// The number of the first table in `pg_class`: numbers below are PostgreSQL's own.
const FIRST: u64 = 16_384;
/// The number of the schema `public`, and of its owner.
const PUBLIC: u64 = 2200;
const OWNER: u64 = 10;
/// The number of `pg_class` itself, by which descriptions of tables are found.
const PG_CLASS: u64 = 1259;

/// A row of values.
fn row<const COLUMNS: usize>(values: [Value; COLUMNS]) -> Vec<Value> {
    values.into()
}

fn text(text: &str) -> Value {
    Value::text(text)
}

fn lookup(name: &str, columns: &str, rows: Vec<Vec<Value>>) -> Lookup {
    // `name` is text, `name#` a number, `name?` true or false.
    let column = |word: &str| {
        let (name, data_type) = match (word.strip_suffix('#'), word.strip_suffix('?')) {
            (Some(name), _) => (name, DataType::Uint),
            (_, Some(name)) => (name, DataType::Bool),
            _ => (word, DataType::Text),
        };
        (name.to_owned(), data_type, format!("as in PostgreSQL's {name}"))
    };
    let columns: Vec<_> = columns.split_whitespace().map(column).collect();
    debug_assert!(rows.iter().all(|row| row.len() == columns.len()), "{name}");
    let rows = Arc::new(Fixed(rows.into_iter().map(Into::into).collect()));
    Lookup { name: name.to_owned(), about: format!("as in PostgreSQL's {name}"), columns, rows }
}

/// The catalogs.
pub fn lookups() -> Vec<Lookup> {
    let all = described();
    let number = |at: usize| Value::Uint(FIRST + at as u64);
    let oid = |data_type: &DataType| value::type_of(data_type.name());
    let columns = || {
        let each = all.iter().enumerate();
        each.flat_map(|(at, table)| table.columns.iter().enumerate().map(move |(column, own)| (at, table, column, own)))
    };
    let [zero, no, yes] = [Value::Uint(0), Value::Bool(false), Value::Bool(true)];
    let classes = all.iter().enumerate().map(|(at, table)| {
        row([
            number(at),
            text(&table.name),
            Value::Uint(PUBLIC),
            text("r"),
            Value::Uint(OWNER),
            zero.clone(),
            Value::Uint(table.columns.len() as u64),
            no.clone(),
            no.clone(),
            no.clone(),
            no.clone(),
            zero.clone(),
            zero.clone(),
            text("p"),
            text("n"),
            zero.clone(),
            zero.clone(),
            zero.clone(),
            no.clone(),
            Value::Null,
        ])
    });
    let attributes = columns().map(|(at, _, column, (name, data_type, _))| {
        row([
            number(at),
            text(name),
            Value::Uint(oid(data_type).into()),
            Value::Uint(column as u64 + 1),
            Value::Int(-1),
            no.clone(),
            no.clone(),
            no.clone(),
            zero.clone(),
            text(""),
            text(""),
            text("p"),
            Value::Int(-1),
        ])
    });
    let types = [value::BOOL, value::INT8, value::TEXT, value::FLOAT8, value::TIMESTAMPTZ].map(|oid| {
        let (name, category) = match oid {
            value::BOOL => ("bool", "B"),
            value::INT8 => ("int8", "N"),
            value::FLOAT8 => ("float8", "N"),
            value::TIMESTAMPTZ => ("timestamptz", "D"),
            _ => ("text", "S"),
        };
        let length = Value::Int(value::about(oid).1.into());
        row([
            Value::Uint(oid.into()),
            text(name),
            Value::Uint(11),
            length,
            text("b"),
            text(category),
            zero.clone(),
            zero.clone(),
            zero.clone(),
            zero.clone(),
        ])
    });
    let of_tables = all
        .iter()
        .enumerate()
        .map(|(at, table)| row([number(at), Value::Uint(PG_CLASS), zero.clone(), text(&table.about)]));
    let of_columns = columns().map(|(at, _, column, (_, _, about))| {
        row([number(at), Value::Uint(PG_CLASS), Value::Uint(column as u64 + 1), text(about)])
    });
    let own_tables = all.iter().map(|table| row([text("kiln"), text("public"), text(&table.name), text("BASE TABLE")]));
    let own_columns = columns().map(|(_, table, column, (name, data_type, _))| {
        row([
            text("kiln"),
            text("public"),
            text(&table.name),
            text(name),
            Value::Uint(column as u64 + 1),
            Value::Null,
            text("YES"),
            text(value::about(oid(data_type)).0),
        ])
    });
    let schema = |number: u64, name: &str| row([Value::Uint(number), text(name), Value::Uint(OWNER), Value::Null]);
    vec![
        lookup(
            "pg_class",
            "oid# relname relnamespace# relkind relowner# relchecks# relnatts# relhasindex? relhasrules? \
            relhastriggers? relhasoids? reltablespace# reloftype# relpersistence relreplident reltoastrelid# relam# reltuples# \
            relispartition? relacl",
            classes.collect(),
        ),
        lookup(
            "pg_attribute",
            "attrelid# attname atttypid# attnum# atttypmod# attnotnull? atthasdef? attisdropped? \
            attcollation# attidentity attgenerated attstorage attstattarget#",
            attributes.collect(),
        ),
        lookup(
            "pg_type",
            "oid# typname typnamespace# typlen# typtype typcategory typcollation# typrelid# typelem# typbasetype#",
            types.into(),
        ),
        lookup("pg_description", "objoid# classoid# objsubid# description", of_tables.chain(of_columns).collect()),
        lookup(
            "pg_namespace",
            "oid# nspname nspowner# nspacl",
            vec![schema(PUBLIC, "public"), schema(11, "pg_catalog")],
        ),
        lookup(
            "pg_database",
            "oid# datname datdba# encoding# datcollate datctype datacl datistemplate? datallowconn?",
            vec![row([
                Value::Uint(1),
                text("kiln"),
                Value::Uint(OWNER),
                Value::Uint(6),
                text("C.UTF-8"),
                text("C.UTF-8"),
                Value::Null,
                no,
                yes.clone(),
            ])],
        ),
        lookup(
            "pg_roles",
            "oid# rolname rolsuper? rolcanlogin?",
            vec![row([Value::Uint(OWNER), text("kiln"), Value::Bool(false), yes])],
        ),
        lookup("pg_attrdef", "oid# adrelid# adnum# adbin", Vec::new()),
        lookup("pg_collation", "oid# collname", Vec::new()),
        lookup("pg_inherits", "inhrelid# inhparent# inhseqno#", Vec::new()),
        lookup("pg_index", "indexrelid# indrelid# indisprimary? indisunique? indkey", Vec::new()),
        lookup("pg_constraint", "oid# conname conrelid# confrelid# contype conkey", Vec::new()),
        lookup("pg_extension", "oid# extname extversion", Vec::new()),
        lookup("pg_am", "oid# amname", Vec::new()),
        lookup("information_schema.tables", "table_catalog table_schema table_name table_type", own_tables.collect()),
        lookup(
            "information_schema.columns",
            "table_catalog table_schema table_name column_name ordinal_position# column_default \
            is_nullable data_type",
            own_columns.collect(),
        ),
        lookup("information_schema.schemata", "catalog_name schema_name", vec![row([text("kiln"), text("public")])]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rewrite_is_a_regular_expression() {
        assert_eq!(ALL.len(), REWRITES.len() + SETTINGS.len() + 2);
        assert!(IS_OF_CATALOG.is_some());
    }

    #[test]
    fn queries_of_catalogs_are_kilns() {
        let of = |sql: &str| rewritten(sql).unwrap_or_default();
        assert_eq!(rewritten("SELECT comm FROM forks WHERE comm = 'pg_class'"), None);
        assert_eq!(
            of(
                "SELECT c.relname OPERATOR(pg_catalog.~) '^(forks)$' COLLATE pg_catalog.default FROM pg_catalog.pg_class c"
            ),
            "SELECT c.relname ~ '^(forks)$'  FROM pg_class c"
        );
        assert_eq!(
            of("SELECT c.oid::pg_catalog.regclass::pg_catalog.text FROM pg_class c WHERE c.oid = '16384'"),
            "SELECT c.oid::text FROM pg_class c WHERE c.oid = 16384"
        );
        assert_eq!(of("SELECT current_setting('server_version_num')::int/100"), "SELECT 90400::int/100");
        assert!(of("select version()").contains("'PostgreSQL 9.4.0 (Kiln "));
    }
}
