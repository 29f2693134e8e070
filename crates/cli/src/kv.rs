//! `kiln kv`.

use kiln_driver::{Error, kv};

use crate::arguments::{Format, KvArguments, KvCommand, MemcachedArguments};
use crate::query::interrupt;

/// `kiln kv`.
pub fn kv(arguments: &KvArguments, format: Format) -> Result<u8, Error> {
    match &arguments.command {
        KvCommand::Memcached(arguments) => memcached(arguments, format),
    }
}

fn memcached(arguments: &MemcachedArguments, format: Format) -> Result<u8, Error> {
    let options = kv::Options {
        listen: arguments.listen,
        udp: arguments.udp,
        interface: arguments.xdp.clone(),
        mode: arguments.mode.into(),
        most_bytes: arguments.memory << 20,
        threads: usize::from(arguments.threads),
        clang: kiln_driver::clang::name(),
    };
    let interrupted = interrupt()?;
    let begun = |begun: kv::Begun| match format {
        Format::Json => {
            let document = serde_json::json!({"address": begun.address, "processed": begun.processed});
            anstream::println!("{document}");
        }
        _ => {
            anstream::eprintln!("memcached's protocol at {}", begun.address);
            if let (Some(interface), Some(processed)) = (&arguments.xdp, begun.processed) {
                let interface = kiln_driver::Shown::from(interface.as_str());
                anstream::eprintln!("get and set over UDP in XDP at {interface}: {processed} instructions verified");
            }
        }
    };
    kv::memcached(&options, &interrupted, &begun)?;
    Ok(0)
}
