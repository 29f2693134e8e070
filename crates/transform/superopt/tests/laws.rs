//! The laws of control flow and liveness on examples, and programs where they must not be applied.

use kiln_program::text::{listing, parse};
use kiln_superopt::laws::LAWS;
use kiln_superopt::{Options, optimize};

/// Optimizes an XDP program and returns its lines and the laws used.
fn optimized(body: &str) -> (Vec<String>, Vec<String>) {
    let object = parse(&format!("; map counts array key 4 value 16 entries 4\n; program xdp\n{body}")).unwrap();
    let rewrite = optimize(&object, &Options::default(), &mut ());
    assert!(rewrite.skipped.is_empty(), "not verified: {:?}", rewrite.skipped);
    let text = listing(&rewrite.object);
    let code = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';'));
    let laws = rewrite.evidence.iter().map(|one| one.because.name().to_owned()).collect();
    (code.map(str::to_owned).collect(), laws)
}

#[track_caller]
fn becomes(body: &str, law: &str, expected: &str) {
    let (lines, laws) = optimized(body);
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected, "{laws:?}");
    assert!(laws.iter().any(|own| own == law), "{laws:?}");
}

#[test]
fn what_no_path_reaches_goes() {
    becomes(
        "w1 = 0x3
         if w1 != 0x3 goto bad
         w0 = 0x1
         exit
       bad:
         w0 = 0x2
         exit",
        "unreachable",
        "w0 = 0x1
         exit",
    );
}

#[test]
fn decided_branches_go() {
    becomes("w1 = 0x3\n w0 = 0x1\n if w1 == 0x3 goto out\n w0 = 0x2\n out: exit", "constant-branch", "w0 = 0x1\n exit");
}

/// A branch that becomes a jump may leave code that no path reaches, which no verifier takes.
#[test]
fn decided_branches_leave_nothing_behind() {
    let object = parse("; program xdp\n w1 = 0x3\n w0 = 0x1\n if w1 == 0x3 goto out\n w0 = 0x2\n out: exit").unwrap();
    let without = ["unreachable".to_owned()].into();
    let rewrite = optimize(&object, &Options { without, search: 0, ..Options::default() }, &mut ());
    assert_eq!(rewrite.object.functions[0].nodes.len(), 2, "{:?} {}", rewrite.refused, listing(&rewrite.object));
}

#[test]
fn dead_writes_and_stores_go() {
    becomes("*(u64 *)(r10 - 0x8) = 0x5\n r2 = 0x9\n w0 = 0x1\n exit", "dead-store", "w0 = 0x1\n exit");
}

/// `a || b`, made a number and tested, as compilers without jump threading leave it.
#[test]
fn numbers_made_of_conditions_are_branches_again() {
    becomes(
        "w3 = *(u32 *)(r1 + 0xc)
         w0 = 0x1
         r2 = 0x1
         r5 = 0x1
         if r3 == 0x81 goto L1
         r5 = 0x0
       L1:
         if r3 == 0xa8 goto L2
         r2 = 0x0
       L2:
         r2 |= r5
         if r2 != 0x1 goto no
         w0 = 0x2
       no:
         exit",
        "threaded-branch",
        "w3 = *(u32 *)(r1 + 0xc)
         w0 = 0x1
         if w3 == 0x81 goto L1
         if w3 != 0xa8 goto L2
       L1:
         w0 = 0x2
       L2:
         exit",
    );
}

/// As above, but the number is needed afterwards: the way cannot be cut short.
#[test]
fn what_the_way_computes_is_not_lost() {
    let (lines, _) = optimized(
        "w3 = *(u32 *)(r1 + 0xc)
         r2 = 0x1
         if r3 == 0x81 goto L1
         r2 = 0x0
       L1:
         r0 = r2
         r0 += 0x1
         if r2 != 0x1 goto no
         r0 += 0x5
       no:
         exit",
    );
    // 81 gives 7, all else 1.
    assert!(lines.iter().any(|line| line == "r0 += 0x5" || line == "r0 = 0x7" || line == "w0 = 0x7"), "{lines:#?}");
}

#[test]
fn heads_of_both_sides_are_one() {
    becomes(
        "w2 = *(u32 *)(r1 + 0xc)
         w3 = *(u32 *)(r1 + 0x10)
         if w2 == 0x1 goto L1
         r3 *= 0x7
         r0 = r3
         r0 += 0x2
         exit
       L1:
         r3 *= 0x7
         r0 = r3
         exit",
        "shared-head",
        "w2 = *(u32 *)(r1 + 0xc)
         w0 = *(u32 *)(r1 + 0x10)
         r0 *= 0x7
         if w2 == 0x1 goto L1
         r0 += 0x2
       L1:
         exit",
    );
}

#[test]
fn a_head_that_the_branch_reads_stays() {
    let (lines, _) = optimized(
        "w2 = *(u32 *)(r1 + 0xc)
         if w2 == 0x1 goto L1
         r2 *= 0x7
         r0 = r2
         r0 += 0x2
         exit
       L1:
         r2 *= 0x7
         r0 = r2
         r0 ^= 0x55
         exit",
    );
    let multiplies = lines.iter().position(|line| line.ends_with("*= 0x7"));
    let branches = lines.iter().position(|line| line.starts_with("if "));
    assert!(multiplies > branches || !lines.iter().any(|line| line.ends_with("*= 0x7")), "{lines:#?}");
}

#[test]
fn addresses_used_often_are_kept() {
    let lookup = |offset: u32| {
        format!(
            "*(u32 *)(r10 - 0x4) = {offset}
             r2 = r10
             r2 += -0x4
             r1 = map[counts]
             call map_lookup_elem
             if r0 == 0x0 goto out
             r1 = *(u64 *)(r0 + 0x0)
             r6 += r1
            "
        )
    };
    let body =
        format!("r6 = 0x0\n{}{}{}{}{}out: r0 = r6\n exit", lookup(0), lookup(1), lookup(2), lookup(3), lookup(0));
    let (lines, laws) = optimized(&body);
    assert!(laws.iter().any(|own| own == "kept-address"), "{laws:?}");
    assert_eq!(lines.iter().filter(|line| line.ends_with("map[counts]")).count(), 1, "{lines:#?}");
}

/// `docs/reference/laws.md` ends with the table. `BLESS=1` writes it.
#[test]
fn the_page_of_laws_is_the_table() {
    let mut table = String::from("| law | what it says | step | when | facts |\n|---|---|---|---|---|\n");
    for row in LAWS {
        assert!(row.statement.ends_with('.') && !row.name.is_empty(), "{}", row.name);
        assert_eq!(LAWS.iter().filter(|other| other.name == row.name).count(), 1, "{} stands twice", row.name);
        let stages = row.steps.iter().map(|step| format!("{:?}", step.stage)).collect::<Vec<_>>().join(", ");
        let stages = if stages.is_empty() { "with other laws' steps".to_owned() } else { stages };
        let facts = if row.needs_facts { "needed" } else { "" };
        let steps = row.steps.len();
        table += &format!("| `{}` | {} | {steps} | {stages} | {facts} |\n", row.name, row.statement);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/laws.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (text, old) = page.split_at(page.find("| law |").expect("a table"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, format!("{text}{table}")).unwrap();
    } else {
        assert_eq!(old, table, "BLESS=1 writes it");
    }
}

#[test]
fn conditions_are_joined_without_numbers() {
    let text = "; program xdp
         w6 = *(u32 *)(r1 + 0xc)
         w5 = *(u32 *)(r1 + 0x10)
         w4 = 0x1
         if w6 == 0x1 goto L1
         w4 = 0x0
       L1:
         w3 = 0x1
         if w5 == 0x2 goto L2
         w3 = 0x0
       L2:
         w3 &= w4
         r0 = r3
         exit";
    let rewrite = optimize(&parse(text).unwrap(), &Options::default(), &mut ());
    assert!(rewrite.evidence.iter().any(|one| one.because.name() == "chosen-operand"), "{:?}", rewrite.refused);
}

#[test]
fn offsets_of_packet_loads_are_in_the_loads() {
    let object = parse(
        "; program socket_filter
         r6 = r1
         r0 = *(u8 *)skb[0x17]
         r7 = r0
         r1 = r7
         r1 += 0x6
         r0 = *(u16 *)skb[r1]
         r8 = r0
         w2 = w7
         w2 += 0xc
         w2 += 0x4
         r0 = *(u32 *)skb[r2 + 0x8]
         r0 += r8
         exit",
    )
    .unwrap();
    let rewrite = optimize(&object, &Options::default(), &mut ());
    let text = listing(&rewrite.object);
    assert!(text.contains("skb[r7 + 0x6]") && text.contains("skb[r7 + 0x18]"), "{text}");
    assert!(!text.contains("+= 0x"), "{text}");
}

/// The register that the sum came from has changed meanwhile.
#[test]
fn offsets_of_another_value_stay() {
    let object = parse(
        "; program socket_filter
         r6 = r1
         r0 = *(u8 *)skb[0x17]
         r7 = r0
         r8 = r7
         r8 += 0x6
         r7 <<= 0x1
         r0 = *(u16 *)skb[r8]
         r0 += r7
         exit",
    )
    .unwrap();
    let text = listing(&optimize(&object, &Options::default(), &mut ()).object);
    assert!(!text.contains("skb[r7"), "{text}");
}

#[test]
fn a_check_of_the_first_element_leads_elsewhere() {
    let lookup = |key: u32| {
        format!(
            "*(u32 *)(r10 - 4) = {key}\n r2 = r10\n r2 += -4\n r1 = map[counts]\n call map_lookup_elem\n\
             if r0 == 0 goto missing\n r1 = *(u64 *)(r0 + 0)\n r1 += 1\n *(u64 *)(r0 + 0) = r1\n goto out\n\
             missing:\n *(u32 *)(r10 - 8) = 3\n r2 = r10\n r2 += -8\n r1 = map[counts]\n\
             call map_delete_elem\n out:\n w0 = 0\n exit\n"
        )
    };
    let (lines, laws) = optimized(&lookup(0));
    assert!(laws.iter().any(|own| own == "found-element"), "{laws:?}");
    assert!(!lines.iter().any(|line| line.contains("map_delete_elem")), "{lines:?}");
    let (lines, laws) = optimized(&lookup(3));
    assert!(!laws.iter().any(|own| own == "found-element"), "{laws:?}");
    assert!(lines.iter().any(|line| line.contains("map_delete_elem")), "{lines:?}");
}

/// A lookup goes with the last reader of its answer, but where the map remembers that it was made.
#[test]
fn lookups_for_nobody_go() {
    let lookup = |map_type: &str, reader: &str| {
        let object = parse(&format!(
            "; map counts {map_type} key 4 value 16 entries 4\n; program xdp\n*(u32 *)(r10 - 4) = 1\n r2 = r10\n\
             r2 += -4\n r1 = map[counts]\n call map_lookup_elem\n {reader}\n w0 = 2\n exit\n"
        ));
        let rewrite = optimize(&object.unwrap(), &Options::default(), &mut ());
        assert!(rewrite.skipped.is_empty(), "not verified: {:?}", rewrite.skipped);
        let made = listing(&rewrite.object).contains("call map_lookup_elem");
        assert_eq!(made, rewrite.evidence.iter().all(|one| one.because.name() != "unread-answer"));
        made
    };
    for map_type in ["hash", "array", "percpu_hash", "percpu_array"] {
        assert!(!lookup(map_type, ""), "{map_type}");
        let reader = "if r0 == 0 goto out\n *(u64 *)(r0 + 0) = 7\n out:";
        assert!(lookup(map_type, reader), "{map_type}");
    }
    assert!(lookup("lru_hash", ""));
    assert!(lookup("lru_percpu_hash", ""));
}

/// Two copies of the same code with branches and a call: one stays, and the other path jumps to it.
#[test]
fn code_behind_branches_is_shared() {
    let body = "r6 = r1
         w2 = *(u32 *)(r1 + 0xc)
         if w2 == 0x7 goto other
         *(u32 *)(r10 - 0x4) = 0x3
         r2 = r10
         r2 += -0x4
         r1 = map[counts]
         call map_lookup_elem
         if r0 == 0x0 goto out
         r7 = *(u64 *)(r0 + 0x0)
         if r7 == 0x5 goto out
         call ktime_get_ns
         w0 = 0x2
         exit
       other:
         *(u32 *)(r10 - 0x4) = 0x1
         r2 = r10
         r2 += -0x4
         r1 = map[counts]
         call map_lookup_elem
         if r0 == 0x0 goto out
         r7 = *(u64 *)(r0 + 0x0)
         if r7 == 0x5 goto out
         call ktime_get_ns
         w0 = 0x2
         exit
       out:
         w0 = 0x1
         exit";
    let object = parse(&format!("; map counts array key 4 value 16 entries 4\n; program xdp\n{body}")).unwrap();
    let rewrite = optimize(&object, &Options { search: 0, ..Options::default() }, &mut ());
    let calls = rewrite.object.functions[0].nodes.iter().filter(|node| node.helper() == Some(1)).count();
    assert_eq!(calls, 1, "{:?} {}", rewrite.refused, listing(&rewrite.object));
}

/// An index is added to a copy of an address: the address is added to the index, if nothing reads that any more.
#[test]
fn an_address_is_added_to_its_index() {
    let sum = "*(u64 *)(r10 - 0x8) = 0x5
         w3 = *(u32 *)(r1 + 0xc)
         r3 &= 0x7
         r4 = r10
         r4 += r3
         w0 = *(u8 *)(r4 - 0x8)";
    becomes(
        &format!("{sum}\n exit"),
        "exchanged-operands",
        "*(u64 *)(r10 - 0x8) = 0x5
         w3 = *(u32 *)(r1 + 0xc)
         r3 &= 0x7
         r3 += r10
         w0 = *(u8 *)(r3 - 0x8)
         exit",
    );
    let (lines, laws) = optimized(&format!("{sum}\n r0 += r3\n exit"));
    assert!(!laws.iter().any(|law| law == "exchanged-operands"), "{lines:#?}");
}

/// Two runs of six instructions, one on R2 and one on R4, in R0; only the first adds `end`.
fn alike(end: &str, last: &str) -> String {
    let run = |value: &str, up: &str| {
        format!(
            "r0 = 0x7
             if w{value} <= 0xff goto {up}
             r{value} >>= 0x8
             r0 |= 0x8
           {up}:
             r{value} *= 0x5
             r{value} ^= 0x2b
             r0 |= r{value}\n"
        )
    };
    let (first, second) = (run("2", "up"), run("4", "again"));
    format!(
        "w2 = *(u32 *)(r1 + 0xc)
         w4 = *(u32 *)(r1 + 0x10)
         if w2 == 0x0 goto other
         {first} {end}
         goto out
       other:
         {second}
       out:
         {last}
         exit"
    )
}

#[test]
fn runs_alike_but_for_their_registers_are_shared() {
    for (end, saved) in [("", 5), ("r0 += 0x20", 3), ("r0 ^= 0x20", 3)] {
        let body = alike(end, "");
        let (lines, laws) = optimized(&body);
        let before = parse(&format!("; program xdp\n{body}")).unwrap().functions[0].slots();
        let labels = lines.iter().filter(|line| line.ends_with(':')).count();
        assert!(lines.len() - labels + saved <= before as usize, "{before} {lines:#?}");
        assert!(laws.iter().any(|law| law == "alike-tail"), "{end}: {laws:?}");
    }
    // Zero does not leave a product alone, and what is read afterwards stays in its register.
    for (end, last) in [("r0 *= 0x20", ""), ("", "r0 += r2"), ("", "r0 += r4")] {
        let (lines, laws) = optimized(&alike(end, last));
        assert!(!laws.iter().any(|law| law == "alike-tail"), "{lines:#?}");
    }
}

#[test]
fn halves_stay_empty_through_shifts_and_sums() {
    let cleared = |operation: &str| {
        let body = format!(
            "w2 = *(u32 *)(r1 + 0xc)
             w0 = *(u32 *)(r1 + 0x10)
             w2 ^= 0x1
             w0 ^= 0x1
             if w2 == 0x7 goto less
             {operation}
           less:
             w0 = w0
             exit"
        );
        let object = parse(&format!("; program xdp\n{body}")).unwrap();
        let rewrite = optimize(&object, &Options { search: 0, ..Options::default() }, &mut ());
        rewrite.evidence.iter().any(|one| one.because.name() == "cleared-half")
    };
    for operation in ["r0 >>= r2", "r0 /= r2", "r0 %= 0x5", "r0 >>= 0x9\n r0 += 0x20"] {
        assert!(cleared(operation), "{operation}");
    }
    for operation in ["r0 <<= r2", "r0 s/= r2", "r0 += r2", "r0 += -0x1", "r0 -= r2"] {
        assert!(!cleared(operation), "{operation}");
    }
}
