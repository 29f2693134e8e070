//! `kiln kv`.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kiln_driver::{Error, Shown, file, kv};

use crate::arguments::{Format, KvArguments, KvCommand, KvMemory, KvTopArguments, MemcachedArguments, RedisArguments};
use crate::query::interrupt;
use crate::{print, say};

/// Bytes that are read of a file with a password.
const MAX_PASSWORD_FILE_BYTES: u64 = 64 << 10;
/// Rows between two headers.
const ROWS_PER_HEADER: usize = 20;
/// How soon Ctrl-C is noticed.
const NOTICED: Duration = Duration::from_millis(50);

/// `kiln kv`.
pub fn kv(arguments: &KvArguments, format: Format) -> Result<u8, Error> {
    match &arguments.command {
        KvCommand::Memcached(arguments) => memcached(arguments, format),
        KvCommand::Redis(arguments) => redis(arguments, format),
        KvCommand::Top(arguments) => top(arguments, format),
    }
}

fn options(protocol: kv::Protocol, listen: std::net::SocketAddr, memory: &KvMemory) -> Result<kv::Options, Error> {
    let data = |directory: &std::path::PathBuf| kv::Data {
        directory: directory.clone(),
        sync: memory.sync.into(),
        repair: memory.repair,
    };
    Ok(kv::Options {
        protocol,
        password: None,
        cluster: None,
        listen,
        udp: false,
        interface: None,
        mode: kv::XdpMode::Default,
        kept: None,
        most_bytes: memory.memory << 20,
        client_bytes: memory.client_memory << 20,
        threads: usize::from(memory.threads),
        metrics: memory.metrics,
        data: memory.data.as_ref().map(data),
        tls: memory.tls.read()?,
        clang: kiln_driver::clang::name(),
    })
}

fn memcached(arguments: &MemcachedArguments, format: Format) -> Result<u8, Error> {
    let options = kv::Options {
        udp: arguments.udp,
        interface: arguments.xdp.clone(),
        mode: arguments.mode.into(),
        kept: arguments.store.map(Into::into),
        ..options(kv::Protocol::Memcached, arguments.listen, &arguments.memory)?
    };
    serve(&options, "memcached's", format)
}

fn redis(arguments: &RedisArguments, format: Format) -> Result<u8, Error> {
    let password = arguments.password_file.as_deref().map(password).transpose()?;
    let cluster = arguments.cluster.clone();
    let options = options(kv::Protocol::Redis, arguments.listen, &arguments.memory)?;
    let options = kv::Options { password, cluster, ..options };
    serve(&options, "Redis'", format)
}

/// The first line of a file.
fn password(path: &Path) -> Result<String, Error> {
    let text = file::text(path, MAX_PASSWORD_FILE_BYTES)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => {
            let name = Shown::from(path.display().to_string());
            Err(Error::InvalidInput(format!("{name}: its first line, the password, is empty")))
        }
    }
}

fn serve(options: &kv::Options, whose: &str, format: Format) -> Result<u8, Error> {
    let interrupted = interrupt()?;
    let begun = |begun: kv::Begun| match format {
        Format::Json => {
            let log = begun.log.as_ref().map(|log| serde_json::json!({"commands": log.commands, "cut": log.cut}));
            let kv::Begun { address, metrics, processed, warning, .. } = &begun;
            let document = serde_json::json!({
                "address": address, "metrics": metrics, "processed": processed, "log": log, "warning": warning,
            });
            anstream::println!("{document}");
        }
        _ => {
            anstream::eprintln!("{whose} protocol at {}", begun.address);
            begun.metrics.iter().for_each(|metrics| anstream::eprintln!("metrics at http://{metrics}/metrics"));
            if let Some(log) = &begun.log {
                anstream::eprintln!("{} commands read from the log", log.commands);
                if let Some((name, offset, what)) = &log.cut {
                    let (name, what) = (Shown::from(name.as_str()), Shown::from(what.as_str()));
                    anstream::eprintln!("warning: {name} was cut at byte {offset}: {what}");
                }
            }
            begun.warning.iter().for_each(|warning| anstream::eprintln!("warning: {warning}"));
            if let (Some(interface), Some(processed)) = (&options.interface, begun.processed) {
                let interface = Shown::from(interface.as_str());
                anstream::eprintln!("get and set over UDP in XDP at {interface}: {processed} instructions verified");
            }
        }
    };
    kv::serve(options, &interrupted, &begun)?;
    Ok(0)
}

/// `kiln kv top`.
fn top(arguments: &KvTopArguments, format: Format) -> Result<u8, Error> {
    let password = arguments.password_file.as_deref().map(password).transpose()?;
    let mut monitor = kv::Monitor::connect(arguments.address, password.as_deref())?;
    let interrupted = interrupt()?;
    let is_over = || interrupted.load(Ordering::SeqCst);
    for number in 0.. {
        let begun = Instant::now();
        while begun.elapsed() < arguments.every && !is_over() {
            std::thread::sleep(NOTICED.min(arguments.every.saturating_sub(begun.elapsed())));
        }
        if is_over() {
            break;
        }
        let rates = monitor.rates()?;
        match format {
            Format::Json => print::json_line(&serde_json::json!(rates)),
            _ => {
                if number % ROWS_PER_HEADER == 0 {
                    say!("{}", row(["keys", "memory", "used", "clients", "commands/s", "hits", "evicted/s", "log"]));
                }
                say!("{}", row(cells(&rates).each_ref().map(|cell| &**cell)));
            }
        }
        if arguments.once {
            break;
        }
    }
    Ok(0)
}

fn row(cells: [&str; 8]) -> String {
    let [keys, memory, used, clients, commands, hits, evicted, log] = cells;
    format!("{keys:>10} {memory:>10} {used:>5} {clients:>8} {commands:>10} {hits:>6} {evicted:>9} {log:>10}")
}

fn cells(rates: &kv::Rates) -> [String; 8] {
    let part = |part: f64| format!("{:.1}%", 100.0 * part);
    let size = |bytes: u64| format!("{:.1}M", bytes as f64 / f64::from(1 << 20));
    let used = (rates.limit_bytes > 0).then(|| rates.memory_bytes as f64 / rates.limit_bytes as f64);
    [
        rates.keys.to_string(),
        size(rates.memory_bytes),
        used.map_or("-".to_owned(), |used| format!("{:.0}%", 100.0 * used)),
        rates.connections.to_string(),
        format!("{:.0}", rates.commands_per_second),
        rates.hit_ratio.map_or("-".to_owned(), part),
        format!("{:.0}", rates.evictions_per_second),
        rates.log_bytes.map_or("-".to_owned(), size),
    ]
}
