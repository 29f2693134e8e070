//! `CLUSTER`, and what its clients say before they begin.

use super::call::{Call, Served, unknown_subcommand};
use super::slots::{self, Layout};

const DISABLED: &str = "ERR This instance has cluster support disabled";

fn layout(call: &Call<'_, '_>) -> Result<std::sync::Arc<Layout>, &'static str> {
    call.service.cluster.as_ref().map(slots::Cluster::layout).ok_or(DISABLED)
}

/// `READONLY`, `READWRITE`, `ASKING`: there are no replicas, and slots do not move.
pub fn mode(call: &mut Call<'_, '_>) -> Served {
    layout(call)?;
    call.reply.ok();
    Ok(())
}

/// `CLUSTER`.
pub fn cluster(call: &mut Call<'_, '_>) -> Served {
    const NAMES: [&[u8]; 6] = [b"keyslot", b"slots", b"shards", b"nodes", b"info", b"myid"];
    let name = call.lower(1);
    if !NAMES.contains(&&*name) {
        return Err(unknown_subcommand(call));
    }
    if call.words.len() != if name == b"keyslot" { 3 } else { 2 } {
        return Err(format!("ERR wrong number of arguments for 'cluster|{}' command", call.lower_text(1)).into());
    }
    let layout = layout(call)?;
    match &*name {
        b"keyslot" => call.reply.integer(i64::from(slots::slot(call.words[2]))),
        b"myid" => call.reply.bulk(layout.own.map_or("", |own| &layout.nodes[own].id).as_bytes()),
        b"slots" => tell_slots(call, &layout),
        b"shards" => tell_shards(call, &layout),
        b"nodes" => call.reply.text(&nodes(&layout)),
        _ => call.reply.text(&info(&layout)),
    }
    Ok(())
}

fn tell_slots(call: &mut Call<'_, '_>, layout: &Layout) {
    let reply = &mut call.reply;
    let all = || layout.nodes.iter().flat_map(|node| node.slots.iter().map(move |slots| (node, slots)));
    reply.array(all().count());
    for (node, slots) in all() {
        reply.array(3);
        reply.integer(i64::from(*slots.start()));
        reply.integer(i64::from(*slots.end()));
        reply.array(4);
        reply.bulk(node.address.ip().to_string().as_bytes());
        reply.integer(i64::from(node.address.port()));
        reply.bulk(node.id.as_bytes());
        reply.array(0);
    }
}

fn tell_shards(call: &mut Call<'_, '_>, layout: &Layout) {
    let reply = &mut call.reply;
    reply.array(layout.nodes.len());
    for node in &layout.nodes {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * node.slots.len());
        for slots in &node.slots {
            reply.integer(i64::from(*slots.start()));
            reply.integer(i64::from(*slots.end()));
        }
        reply.bulk(b"nodes");
        reply.array(1);
        let ip = node.address.ip().to_string();
        let texts = [("id", &*node.id), ("ip", &ip), ("endpoint", &ip), ("role", "master"), ("health", "online")];
        let numbers = [("port", i64::from(node.address.port())), ("replication-offset", 0)];
        reply.map(texts.len() + numbers.len());
        for (name, value) in texts {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        for (name, value) in numbers {
            reply.bulk(name.as_bytes());
            reply.integer(value);
        }
    }
}

fn nodes(layout: &Layout) -> String {
    let line = |(at, node): (usize, &slots::Node)| {
        let whose = if layout.own == Some(at) { "myself,master" } else { "master" };
        let (id, ip, port) = (&node.id, node.address.ip(), node.address.port());
        let slots = node.slots.iter().map(|slots| match (slots.start(), slots.end()) {
            (from, to) if from == to => format!(" {from}"),
            (from, to) => format!(" {from}-{to}"),
        });
        // Servers have no bus of their own, whose port would be after the `@`.
        format!("{id} {ip}:{port}@0 {whose} - 0 0 {} connected{}\n", at + 1, slots.collect::<String>())
    };
    layout.nodes.iter().enumerate().map(line).collect()
}

fn info(layout: &Layout) -> String {
    let assigned = layout.assigned();
    let owners = layout.nodes.iter().filter(|node| !node.slots.is_empty()).count();
    let rows = [
        ("cluster_slots_assigned", assigned),
        ("cluster_slots_ok", assigned),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", 0),
        ("cluster_known_nodes", layout.nodes.len()),
        ("cluster_size", owners),
        ("cluster_current_epoch", layout.nodes.len()),
        ("cluster_my_epoch", layout.own.map_or(0, |own| own + 1)),
    ];
    // Slots without a server do not stop the others.
    rows.iter().fold("cluster_state:ok\r\n".to_owned(), |text, (name, value)| text + &format!("{name}:{value}\r\n"))
}
