//! Dispatch policies as text.
//!
//! ```text
//!   -- requests of one key go to one executor
//!   schedule(packet): hash(udp.payload[0]) % executors
//! ```
//!
//! Behind the colon is an expression as in SQL. Fields of `udp` and `tcp` are those of `packet`, and say besides that the
//! policy decides packets of that protocol only.

use kiln_plan::dispatch::{self, Above, Field, Hook, PAYLOAD_WORDS, Policy};
use kiln_plan::expr::Expr;
use kiln_plan::value::Value;
use sqlparser::ast::{self, AccessExpr, Subscript};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::Error;
use crate::expression::{Binder, walk};
use crate::functions::similar;
use crate::places::Places;
use crate::{not_parsed, tokens};

/// What stands before the expression.
const HEADER: &str = "schedule(packet):";

/// Reads a policy for this many executors at a hook.
///
/// ```
/// use kiln_plan::dispatch::{Hook, Transport};
/// use kiln_sql::dispatch::parse;
/// let policy = parse("schedule(packet): packet.count % executors", 4, Hook::Reuseport(Transport::Udp))?;
/// assert_eq!(policy.executors, 4);
/// let wrong = parse("schedule(packet): hash(udp.sourceport) % executors", 4, policy.at).unwrap_err();
/// assert_eq!(wrong.help.as_deref(), Some("did you mean `udp.source_port`?"));
/// # Ok::<(), kiln_sql::Error>(())
/// ```
///
/// # Errors
/// Returns the first error with its place.
pub fn parse(text: &str, executors: u32, at: Hook) -> Result<Policy, Error> {
    let places = Places(text);
    let dialect = GenericDialect {};
    let tokens = tokens(text, "policy", &dialect)?;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(header(tokens, &places)?);
    let parsed = parser.parse_expr().map_err(|error| not_parsed(&parser, &error.to_string(), &places))?;
    if parser.peek_token().token != Token::EOF {
        parser.next_token();
        return Err(not_parsed(&parser, "the policy ends before this: it is one expression", &places));
    }
    let table = dispatch::table();
    let types = table.types();
    let binder = Binder { table: &table, types: &types, sides: &[], using: &[], places: &places, lookups: &[] };
    let mut above = Above::Ip;
    let chosen = walk(&parsed, &mut |inner| match inner {
        ast::Expr::Identifier(name) if matches!(&*name.value.to_lowercase(), "executors" | "n") => {
            Some(Ok(Expr::Literal(Value::Uint(executors.into()))))
        }
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::CompoundFieldAccess { .. } => {
            Some(field(inner, at, &mut above).map_err(|error| binder.fail(inner, error)))
        }
        _ => None,
    })
    .map_err(|error| binder.fail(&parsed, error))?;
    Policy::new(&chosen, above, executors, at).map_err(|reason| binder.fail(&parsed, Error::new(reason.to_string())))
}

/// The tokens behind the header.
fn header(mut tokens: Vec<TokenWithSpan>, places: &Places<'_>) -> Result<Vec<TokenWithSpan>, Error> {
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let begins = tokens.iter().map(|token| token.token.to_string().to_lowercase());
    let mut header = String::new();
    for (at, token) in begins.enumerate() {
        header += &token;
        if header == HEADER {
            tokens.drain(..=at);
            return Ok(tokens);
        }
        if !HEADER.starts_with(&header) {
            let at = places.bytes(tokens[at].span);
            return Err(Error { at, ..Error::new(format!("a policy begins with `{HEADER}`")) });
        }
    }
    Err(Error::new(format!("a policy begins with `{HEADER}`")))
}

/// A field of a packet, as the hook knows it. Adds to what is known of the packets that the policy decides.
fn field(expr: &ast::Expr, at: Hook, above: &mut Above) -> Result<Expr, Error> {
    let (name, word) = match expr {
        ast::Expr::CompoundFieldAccess { root, access_chain } => match &access_chain[..] {
            // `udp.payload[1]` is read as a name, a name and a subscript.
            [AccessExpr::Dot(ast::Expr::Identifier(name)), AccessExpr::Subscript(Subscript::Index { index })] => {
                (format!("{root}.{name}"), Some(index))
            }
            [AccessExpr::Subscript(Subscript::Index { index })] => (root.to_string(), Some(index)),
            _ => (expr.to_string(), None),
        },
        other => (other.to_string(), None),
    };
    let name = name.to_lowercase();
    let (layer, rest) = name.split_once('.').unwrap_or(("", &name));
    let known = known(layer, rest, word)?;
    let decided = match layer {
        "udp" => Above::Udp,
        "tcp" => Above::Tcp,
        _ => Above::Ip,
    };
    if decided != Above::Ip && *above != Above::Ip && *above != decided {
        let error = Error::new("no packet is of UDP and of TCP");
        return Err(error.help("`packet.source_port` is the port of either"));
    }
    if let Some(transport) = at.transport().filter(|own| decided != Above::Ip && decided != own.above()) {
        return Err(Error::new(format!("these sockets are of {}: no packet has a `{name}`", transport.name())));
    }
    if let Some(why) = at.lacks(known) {
        return Err(Error::new(format!("{} cannot say `{name}`", at.name())).help(why));
    }
    *above = (*above).max(decided);
    let column = Field::all().position(|field| field == known).unwrap_or_default();
    Ok(Expr::Column(column))
}

/// The field of this name.
fn known(layer: &str, name: &str, word: Option<&ast::Expr>) -> Result<Field, Error> {
    let is_above_ip = matches!(layer, "udp" | "tcp");
    if name == "payload" && (is_above_ip || layer == "packet") {
        let word = word.and_then(|word| word.to_string().parse::<u8>().ok()).filter(|word| *word < PAYLOAD_WORDS);
        let which =
            || Error::new(format!("which eight bytes of the payload? {layer}.payload[0] to [{}]", PAYLOAD_WORDS - 1));
        return Ok(Field::Payload(word.ok_or_else(which)?));
    }
    // What UDP and TCP have is listed as the packet's.
    let names = Field::NAMED.into_iter().flat_map(|(field, name, _)| {
        let rest = name.strip_prefix("packet.").filter(|_| field.is_above_ip());
        let own = rest.map(|rest| ["udp", "tcp"].map(|layer| format!("{layer}.{rest}")));
        own.into_iter().flatten().chain([name.to_owned()]).map(move |name| (field, name))
    });
    let names: Vec<(Field, String)> = names.collect();
    let whole = format!("{layer}.{name}");
    let found = names.iter().find(|(_, known)| *known == whole && word.is_none());
    found.map(|(field, _)| *field).ok_or_else(|| {
        let error = Error::new(format!("a packet has no field `{}`", whole.trim_start_matches('.')));
        let listed = || Some("`kiln dispatch --fields` lists them".to_owned());
        let payloads = ["udp.payload[0]", "tcp.payload[0]", "packet.payload[0]"];
        let names = names.iter().map(|(_, name)| name.as_str()).chain(payloads);
        Error { help: similar(&whole, names).or_else(listed), ..error }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_plan::dispatch::Transport;

    const XDP: Hook = Hook::Xdp { processors: 4 };

    #[test]
    fn policies_are_read() {
        for (text, above) in [
            ("schedule(packet): packet.count % executors", Above::Ip),
            ("SCHEDULE ( packet ) : hash(udp.header) % N", Above::Udp),
            ("-- a comment\nschedule(packet):\n  hash(ip.source, tcp.source_port) % 3", Above::Tcp),
            ("schedule(packet): hash(packet.source_port, packet.payload[3]) % N", Above::Ports),
            ("schedule(packet): CASE WHEN ip.protocol = 17 THEN 0 ELSE 1 + ip.source % (N - 1) END", Above::Ip),
            ("schedule(packet): packet.bytes / 512", Above::Ip),
        ] {
            let policy = parse(text, 4, XDP).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(policy.above, above, "{text}");
        }
    }

    #[test]
    fn errors_say_what_was_meant() {
        for (text, wanted) in [
            ("", "begins with"),
            ("shedule(packet): 1", "begins with"),
            ("schedule(packet):", "Expected"),
            ("schedule(packet): 1 2", "ends before this"),
            ("schedule(packet): udp.sorce_port", "did you mean `udp.source_port`"),
            ("schedule(packet): port", "no field `port`"),
            ("schedule(packet): udp.paylod[0]", "did you mean `udp.payload[0]`"),
            ("schedule(packet): udp.payload", "which eight bytes"),
            ("schedule(packet): udp.payload[16]", "[15]"),
            ("schedule(packet): udp.source_port[1]", "no field"),
            ("schedule(packet): udp.source_port + tcp.source_port", "no packet is of UDP and of TCP"),
            ("schedule(packet): 'a'", "and this is text"),
            ("schedule(packet): ip.source % 0", "constants other than 0"),
            ("schedule(packet): ip.source % ip.destination", "constants other than 0"),
            ("schedule(packet): 1.5", "and this is f64"),
            ("schedule(packet): count(*) % 3", "`count` is of many rows, and here is one"),
        ] {
            let error = parse(text, 4, XDP).expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn hooks_say_what_they_lack() {
        let reuseport = Hook::Reuseport;
        let lookup = |transport| Hook::Lookup { transport, ports: [80, 80] };
        for (text, at, wanted) in [
            ("packet.bytes / 64", reuseport(Transport::Udp), "sk_reuseport cannot say `packet.bytes`"),
            ("tcp.payload[0] % 2", reuseport(Transport::Tcp), "sk_reuseport cannot say `tcp.payload`"),
            ("packet.payload[0] % 2", lookup(Transport::Udp), "sk_lookup cannot say `packet.payload`"),
            ("hash(udp.header) % 2", lookup(Transport::Udp), "sk_lookup cannot say `udp.header`"),
            ("tcp.source_port % 2", lookup(Transport::Udp), "these sockets are of udp"),
            ("udp.source_port % 2", reuseport(Transport::Tcp), "these sockets are of tcp"),
        ] {
            let text = format!("schedule(packet): 1 + {text}");
            let error = parse(&text, 4, at).expect_err(&text);
            assert!(error.to_string().contains(wanted), "{text}: {error}");
            // The error points at the field, not at the whole policy.
            let marked = error.at.clone().map_or("", |at| &text[at]);
            assert!(marked.len() < 20 && marked.contains('.'), "{text}: {marked}");
            assert!(parse(&text, 4, XDP).is_ok(), "{text}");
        }
        let policy = parse("schedule(packet): hash(ip.source, packet.source_port) % N", 4, lookup(Transport::Tcp));
        assert_eq!(policy.map(|policy| policy.above), Ok(Above::Tcp));
    }
}
