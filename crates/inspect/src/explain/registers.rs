//! What the kernel's log says of a register, in words.
//!
//! ```text
//!   map_value(map=tables,ks=4,vs=128,smax=umax=128)   an address in a value of the map tables (128 bytes), moved by 0 to 128
//!   scalar(umax=16)                                   a number from 0 to 16
//!   inv(id=0)                                         a number of which nothing is known (the words of Linux 5.19 and earlier)
//! ```

use std::collections::BTreeMap;

/// What is known of a register, as the kernel prints it behind `R1=`.
pub(super) fn words(state: &str) -> String {
    // P: the number is tracked precisely, which is of no interest here.
    let state = state.strip_prefix('P').unwrap_or(state);
    let (kind, arguments) = match state.split_once('(') {
        Some((kind, rest)) => (kind, fields(rest.trim_end_matches(')'))),
        None => (state, BTreeMap::new()),
    };
    if let Some(number) = constant(kind) {
        return format!("the number {number}");
    }
    if let Some(offset) = kind.strip_prefix("fp") {
        let offset = if offset.is_empty() { arguments.get("off").copied().unwrap_or("0") } else { offset };
        return format!("an address in the stack, fp{offset}{}", moved(&arguments));
    }
    if matches!(kind, "scalar" | "inv") {
        return number(&arguments);
    }
    let (kind, null) = match kind.strip_suffix("_or_null") {
        Some(kind) => (kind, ", or null"),
        None => (kind, ""),
    };
    let field = |name: &str| arguments.get(name).copied();
    let what = match kind {
        "map_value" => {
            let name = field("map").map_or_else(String::new, |name| format!(" {name}"));
            let bytes = field("vs").map_or_else(String::new, |bytes| format!(" ({bytes} bytes)"));
            format!("an address in a value of the map{name}{bytes}")
        }
        "map_ptr" => format!("the map{}", field("map").map_or_else(String::new, |name| format!(" {name}"))),
        "ctx" => "the context".to_owned(),
        "pkt_end" => "the end of the packet".to_owned(),
        "pkt" => {
            format!("an address in the packet, of which {} bytes are known to be there", field("r").unwrap_or("0"))
        }
        "pkt_meta" => "an address in the packet's metadata".to_owned(),
        "mem" | "rdonly_mem" | "ringbuf_mem" => {
            let bytes =
                field("sz").or(field("mem_size")).map_or_else(String::new, |bytes| format!(" of {bytes} bytes"));
            format!("an address in memory{bytes}")
        }
        kind => match kind.strip_prefix("trusted_ptr_").or(kind.strip_prefix("ptr_")) {
            Some(structure) => format!("a pointer to struct {structure}"),
            None => format!("a pointer ({kind})"),
        },
    };
    format!("{what}{null}{}", moved(&arguments))
}

fn constant(text: &str) -> Option<i64> {
    let text = text.strip_prefix("inv").unwrap_or(text);
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some((value as i64).wrapping_mul(sign))
}

/// `smin=smin32=0,umax=5` as names with values.
fn fields(text: &str) -> BTreeMap<&str, &str> {
    let mut all = BTreeMap::new();
    let mut depth = 0;
    let parts = text.split(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    });
    for part in parts {
        let mut names: Vec<&str> = part.split('=').collect();
        let value = names.pop().unwrap_or_default();
        all.extend(names.into_iter().map(|name| (name.trim_end_matches("_value"), value)));
    }
    all
}

/// Lowest and highest value, where the kernel knows any.
fn range<'a>(fields: &BTreeMap<&'a str, &'a str>) -> (Option<&'a str>, Option<&'a str>) {
    let field = |name| fields.get(name).copied();
    let signed = field("smin").is_some_and(|low| low.starts_with('-'));
    if signed || field("umax").is_none() && field("smax").is_some() {
        return (field("smin"), field("smax"));
    }
    let low = field("umin").or(field("smin"));
    (low.or(field("umax").map(|_| "0")), field("umax"))
}

fn number(fields: &BTreeMap<&str, &str>) -> String {
    match range(fields) {
        (None, None) => "a number of which nothing is known".to_owned(),
        (Some(low), None) => format!("a number of at least {low}"),
        (None, Some(high)) => format!("a number of at most {high}"),
        (Some(low), Some(high)) => format!("a number from {low} to {high}"),
    }
}

/// By how much a pointer was moved.
fn moved(fields: &BTreeMap<&str, &str>) -> String {
    let mut text = String::new();
    if let Some(offset) = fields.get("off").copied().or(fields.get("imm").copied()).filter(|offset| *offset != "0") {
        text.push_str(&format!(", {offset} bytes on"));
    }
    match range(fields) {
        (Some(low), Some(high)) => text.push_str(&format!(", moved by {low} to {high}")),
        (None, None) if fields.contains_key("var_off") => {
            text.push_str(", moved by a number of which nothing is known")
        }
        _ => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn states_of_old_and_new_kernels() {
        for (state, expected) in [
            ("scalar()", "a number of which nothing is known"),
            ("inv(id=0)", "a number of which nothing is known"),
            ("inv5", "the number 5"),
            ("Pinv0", "the number 0"),
            ("-1", "the number -1"),
            ("0xffffffff", "the number 4294967295"),
            ("scalar(smin=smin32=0,smax=umax=smax32=umax32=128,var_off=(0x0; 0xf8))", "a number from 0 to 128"),
            ("inv(id=0,umax_value=255,var_off=(0x0; 0xff))", "a number from 0 to 255"),
            ("scalar(smin=-5,smax=7)", "a number from -5 to 7"),
            ("fp-8", "an address in the stack, fp-8"),
            ("ctx()", "the context"),
            ("map_value_or_null(id=1,map=t,ks=4,vs=8)", "an address in a value of the map t (8 bytes), or null"),
            (
                "pkt(id=0,off=14,r=0,imm=0)",
                "an address in the packet, of which 0 bytes are known to be there, 14 bytes on",
            ),
            (
                "map_value(map=t,ks=4,vs=128,smin=smin32=0,smax=umax=smax32=umax32=128,var_off=(0x0; 0xf8))",
                "an address in a value of the map t (128 bytes), moved by 0 to 128",
            ),
            ("ptr_task_struct()", "a pointer to struct task_struct"),
            ("", "a pointer ()"),
            ("((((", "a pointer ()"),
        ] {
            assert_eq!(words(state), expected, "{state}");
        }
    }
}
