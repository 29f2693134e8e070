//! `kiln kv`.

use std::path::Path;

use kiln_driver::{Error, file, kv};

use crate::arguments::{Format, KvArguments, KvCommand, KvMemory, MemcachedArguments, RedisArguments};
use crate::query::interrupt;

/// Bytes that are read of a file with a password.
const MAX_PASSWORD_FILE_BYTES: u64 = 64 << 10;

/// `kiln kv`.
pub fn kv(arguments: &KvArguments, format: Format) -> Result<u8, Error> {
    match &arguments.command {
        KvCommand::Memcached(arguments) => memcached(arguments, format),
        KvCommand::Redis(arguments) => redis(arguments, format),
    }
}

fn options(protocol: kv::Protocol, listen: std::net::SocketAddr, memory: &KvMemory) -> kv::Options {
    kv::Options {
        protocol,
        password: None,
        listen,
        udp: false,
        interface: None,
        mode: kv::XdpMode::Default,
        most_bytes: memory.memory << 20,
        threads: usize::from(memory.threads),
        metrics: memory.metrics,
        clang: kiln_driver::clang::name(),
    }
}

fn memcached(arguments: &MemcachedArguments, format: Format) -> Result<u8, Error> {
    let options = kv::Options {
        udp: arguments.udp,
        interface: arguments.xdp.clone(),
        mode: arguments.mode.into(),
        ..options(kv::Protocol::Memcached, arguments.listen, &arguments.memory)
    };
    serve(&options, "memcached's", format)
}

fn redis(arguments: &RedisArguments, format: Format) -> Result<u8, Error> {
    let password = arguments.password_file.as_deref().map(password).transpose()?;
    let options = kv::Options { password, ..options(kv::Protocol::Redis, arguments.listen, &arguments.memory) };
    serve(&options, "Redis'", format)
}

/// The first line of a file.
fn password(path: &Path) -> Result<String, Error> {
    let text = file::text(path, MAX_PASSWORD_FILE_BYTES)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => {
            let name = kiln_driver::Shown::from(path.display().to_string());
            Err(Error::InvalidInput(format!("{name}: its first line, the password, is empty")))
        }
    }
}

fn serve(options: &kv::Options, whose: &str, format: Format) -> Result<u8, Error> {
    let interrupted = interrupt()?;
    let begun = |begun: kv::Begun| match format {
        Format::Json => {
            let document =
                serde_json::json!({"address": begun.address, "metrics": begun.metrics, "processed": begun.processed});
            anstream::println!("{document}");
        }
        _ => {
            anstream::eprintln!("{whose} protocol at {}", begun.address);
            begun.metrics.iter().for_each(|metrics| anstream::eprintln!("metrics at http://{metrics}/metrics"));
            if let (Some(interface), Some(processed)) = (&options.interface, begun.processed) {
                let interface = kiln_driver::Shown::from(interface.as_str());
                anstream::eprintln!("get and set over UDP in XDP at {interface}: {processed} instructions verified");
            }
        }
    };
    kv::serve(options, &interrupted, &begun)?;
    Ok(0)
}
